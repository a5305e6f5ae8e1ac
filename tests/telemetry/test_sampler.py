"""Both ends of a link are kept, or neither."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, TraceIdRatioBased
from opentelemetry.trace import Link, NonRecordingSpan, set_span_in_context

from brokerjobs.telemetry.sampler import LinkedParentSampler
from brokerjobs.telemetry.traceparents import parsed
from tests.telemetry import subjects


def is_kept(sampler: LinkedParentSampler, links: tuple[str, ...], parent: str | None = None) -> bool:
    tracer = TracerProvider(sampler=sampler, shutdown_on_exit=False).get_tracer("test")
    contexts = [context for text in links if (context := parsed(text)) is not None]
    above = parsed(parent)
    below = None if above is None else set_span_in_context(NonRecordingSpan(above))
    return tracer.start_span("x", below, links=[Link(linked) for linked in contexts]).is_recording()


@pytest.mark.parametrize("root", [ALWAYS_ON, ALWAYS_OFF, TraceIdRatioBased(0.5)])
def test_a_root_with_links__is_kept_if_one_of_them_is(root: Sampler) -> None:
    sampler = LinkedParentSampler(root)

    assert is_kept(sampler, (subjects.traceparent(1, flags=0), subjects.traceparent(2)))
    assert is_kept(sampler, (subjects.traceparent(2, flags=3),))
    assert not is_kept(sampler, (subjects.traceparent(1, flags=0), subjects.traceparent(2, flags=2)))


def test_a_parent__counts_more_than_links() -> None:
    sampler = LinkedParentSampler(ALWAYS_ON)

    assert not is_kept(sampler, (subjects.traceparent(1),), parent=subjects.traceparent(2, flags=0))
    assert is_kept(sampler, (subjects.traceparent(1, flags=0),), parent=subjects.traceparent(2))


def test_a_root_without_links__is_the_roots_to_decide() -> None:
    assert is_kept(LinkedParentSampler(), ())
    assert not is_kept(LinkedParentSampler(ALWAYS_OFF), ())


def test_its_description__names_what_decides_about_roots() -> None:
    sampler: Sampler = LinkedParentSampler(TraceIdRatioBased(0.01))

    assert "FollowsLinks{TraceIdRatioBased{0.01}}" in sampler.get_description()
