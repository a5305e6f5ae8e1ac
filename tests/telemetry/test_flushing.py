"""What waits is sent, and nobody waits for a receiver that does not answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opentelemetry import trace

from brokerjobs.telemetry.flushing import Flusher, flush
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    import pytest
    from opentelemetry.sdk.trace import TracerProvider

    from tests.telemetry.receiving import Receiver


def test_flush__sends_what_waits(provider: TracerProvider, receiver: Receiver) -> None:
    provider.get_tracer("users").start_span("work").end()

    assert Flusher(lambda: [provider]).flush(10.0)

    assert [span.name for span in receiver.spans()] == ["work"]


def test_flush__is_bounded_though_the_receiver_does_not_answer(
    provider: TracerProvider, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = Flusher(lambda: [provider])
    provider.get_tracer("users").start_span("work").end()
    receiver.may_answer.clear()
    began = time.monotonic()

    assert not flusher.flush(0.05)

    assert time.monotonic() - began < 1.0
    assert "not sent within 0.1 s" in caplog.text
    assert receiver.asked.wait(10)
    receiver.may_answer.set()
    assert flusher.flush(10.0)
    assert [span.name for span in receiver.spans()] == ["work"]


def test_flush__of_one_provider_that_fails_flushes_the_others(
    provider: TracerProvider, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def force_flush(self) -> None:
            raise OSError("no route")

    provider.get_tracer("users").start_span("work").end()

    assert Flusher(lambda: [Broken(), provider]).flush(10.0)

    assert "no route" in caplog.text
    eventually_sync(receiver.spans)


def test_flush__without_a_provider_does_nothing() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert flush(0.0)


def test_at_exit__nothing_is_waited_for_if_nobody_has_armed_it() -> None:
    asked: list[str] = []

    class Never:
        def force_flush(self, *_: object, **__: object) -> None:
            asked.append("to flush")

    Flusher(lambda: [Never()]).at_exit()

    assert asked == []
