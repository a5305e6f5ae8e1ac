"""The spans of attempts, as a receiver gets them: golden files hold names, kinds, attributes, links and statuses."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from opentelemetry.trace import get_current_span
from uuid_utils.compat import uuid7

from brokerjobs.rules.states import ReportAs
from brokerjobs.telemetry import spans
from brokerjobs.telemetry.attempts import NOTHING, Topology, seconds_since_made
from brokerjobs.telemetry.events import Event
from brokerjobs.telemetry.names import SCHEMA_URL, SCOPE
from brokerjobs.telemetry.outcomes import Outcome
from brokerjobs.telemetry.shapes import Particulars, Said
from brokerjobs.telemetry.tracing import tracing
from tests.telemetry import subjects
from tests.telemetry.receiving import shapes

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from brokerjobs.telemetry.attempts import AttemptSpan
    from tests.telemetry.receiving import Receiver

GOLDEN = Path(__file__).parent / "golden"
SOON = Particulars(since_submit=1.0)


def check(name: str, got: list[dict[str, Any]]) -> None:
    """Compares with a golden file; BROKERJOBS_TEST_GOLDEN=write writes it anew, to be read before it is committed."""
    file = GOLDEN / f"{name}.json"
    if os.environ.get("BROKERJOBS_TEST_GOLDEN") == "write":
        file.write_text(json.dumps(got, indent=2) + "\n")
    assert got == json.loads(file.read_text())


def received(provider: TracerProvider, receiver: Receiver) -> list[dict[str, Any]]:
    assert provider.force_flush()
    return shapes(receiver.spans())


def report(
    span: AttemptSpan,
    number: int,
    said: ReportAs,
    verdict: str,
    state: str,
    *,
    reason: str | None = None,
    late: bool = False,
) -> None:
    failure = subjects.FAILURE if said is ReportAs.FAILED else None
    span.reported(said, tracing.now(), subjects.answer(number, verdict, state, reason=reason, late=late), failure)


def test_success__is_one_trace_from_the_submission_to_the_ack(provider: TracerProvider, receiver: Receiver) -> None:
    creation = spans.create("payments", "payment.charge", subjects.JOB)
    creation.answered("created")
    spans.sent(tracing.now(), "payments.jobs", [creation.traceparent], spans.Sent(1))
    more = Particulars(since_submit=0.2, waited=0.25, limit=5, needs=["has network=psp"], key_hash=spans.key_hash("k"))
    span = subjects.worker().process(subjects.claim(creation=creation.traceparent), subjects.delivery(), more)
    span.lease(3, 12.5)
    report(span, 1, ReportAs.COMPLETED, "accepted", "succeeded")
    span.acked(tracing.now(), sent=True)

    check("success", received(provider, receiver))
    assert receiver.scopes() == {(SCOPE, SCHEMA_URL)}


def test_three_attempts__of_which_the_first_was_killed_and_returns_late(
    provider: TracerProvider, receiver: Receiver
) -> None:
    """The picture of the documentation: every attempt has its span, whatever became of its worker."""
    creation = spans.create("payments", "payment.charge", subjects.JOB)
    creation.answered("created")
    claims = {number: subjects.claim(number, creation.traceparent) for number in (1, 2, 3)}
    first = subjects.worker("worker-a").process(claims[1], subjects.delivery(), SOON)
    now = datetime.now(UTC)
    spans.expire(
        spans.Expired(
            namespace="payments",
            job_type="payment.charge",
            job_id=subjects.JOB,
            attempt_id=subjects.ATTEMPTS[1],
            number=1,
            fencing_number=claims[1].fencing_number,
            worker_name="worker-a",
            claimed_at=now,
            found_at=now + timedelta(seconds=30),
            state="queued",
            traceparent=creation.traceparent,
            attempt_traceparent=first.traceparent,
        )
    )
    more = Particulars(previous=first.traceparent, since_submit=33.0)
    second = subjects.worker("worker-b").process(claims[2], subjects.delivery(redelivered=True), more)
    report(second, 2, ReportAs.FAILED, "recorded", "queued")
    second.acked(tracing.now(), sent=True)
    more = Particulars(previous=second.traceparent, since_submit=48.0)
    third = subjects.worker("worker-c").process(claims[3], subjects.delivery(), more)
    report(third, 3, ReportAs.COMPLETED, "accepted", "succeeded")
    third.acked(tracing.now(), sent=True)
    report(first, 1, ReportAs.COMPLETED, "rejected", "succeeded", reason="job_succeeded", late=True)
    first.acked(tracing.now(), sent=True)

    check("three_attempts", received(provider, receiver))


def test_lost_ack__is_seen_on_its_span(provider: TracerProvider, receiver: Receiver) -> None:
    span = subjects.worker().process(subjects.claim(creation=subjects.traceparent(1)), subjects.delivery(), SOON)
    report(span, 1, ReportAs.COMPLETED, "accepted", "succeeded")
    span.acked(tracing.now(), sent=False)

    check("lost_ack", received(provider, receiver))


def test_review__is_its_outcome(provider: TracerProvider, receiver: Receiver) -> None:
    span = subjects.worker().process(subjects.claim(creation=subjects.traceparent(1)), subjects.delivery(), SOON)
    report(span, 1, ReportAs.FAILED, "recorded", "review")
    span.acked(tracing.now(), sent=True)

    check("review", received(provider, receiver))


def test_cancel__is_its_outcome_and_no_error(provider: TracerProvider, receiver: Receiver) -> None:
    span = subjects.worker().process(subjects.claim(creation=subjects.traceparent(1)), subjects.delivery(), SOON)
    span.happened(Event.STOP_TOLD, {"brokerjobs.reason": "cancel"})
    report(span, 1, ReportAs.RELEASED, "recorded", "cancelled")
    span.acked(tracing.now(), sent=True)

    check("cancel", received(provider, receiver))


@pytest.mark.parametrize(
    ("topology", "more", "joins"),
    [
        (Topology.AUTO, Particulars(since_submit=60.0), True),
        (Topology.AUTO, Particulars(since_submit=60.1), False),
        (Topology.AUTO, Particulars(since_submit=1.0, delayed=True), False),
        (Topology.AUTO, None, False),
        (Topology.LINK, SOON, False),
        (Topology.PARENT, Particulars(since_submit=3600.0, delayed=True), True),
        (Topology.PARENT, None, True),
    ],
)
def test_process__is_below_the_creation_within_the_join_window_and_linked_to_it_always(
    provider: TracerProvider, receiver: Receiver, topology: Topology, more: Particulars | None, *, joins: bool
) -> None:
    created = subjects.traceparent(0xAB)

    subjects.worker(topology=topology).process(subjects.claim(creation=created), subjects.delivery(), more).end()

    [span] = (provider.force_flush(), receiver.spans())[1]
    assert (span.trace_id.hex() == created[3:35]) is joins
    assert (span.parent_span_id.hex() == created[36:52]) is joins
    assert [link.span_id.hex() for link in span.links] == [created[36:52]]


@pytest.mark.parametrize(
    "garbage", [None, "", "00-0-0-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff" + subjects.traceparent(1)[2:]]
)
def test_process__of_a_job_without_a_creation_is_a_root_without_links(
    provider: TracerProvider, receiver: Receiver, garbage: str | None
) -> None:
    subjects.worker().process(subjects.claim(creation=garbage), subjects.delivery(), SOON).end()

    [span] = (provider.force_flush(), receiver.spans())[1]
    assert not span.parent_span_id
    assert not span.links


def test_process__knows_nothing_of_the_span_in_which_its_worker_was_started(
    provider: TracerProvider, receiver: Receiver
) -> None:
    with provider.get_tracer("web").start_as_current_span("serve"):
        subjects.worker().process(subjects.claim(), subjects.delivery()).end()

    process, serve = sorted((provider.force_flush(), receiver.spans())[1], key=lambda span: span.name)
    assert not process.parent_span_id
    assert process.trace_id != serve.trace_id


def test_flags__beside_sampled_are_read_and_handed_on(provider: TracerProvider, receiver: Receiver) -> None:
    """W3C's second level has flags 03 (sampled, random): the sampled bit counts, and the span's own are written."""
    creation = subjects.traceparent(5, flags=3)

    span = subjects.worker().process(subjects.claim(creation=creation), subjects.delivery(), SOON)

    assert span.is_sampled
    assert span.traceparent is not None
    assert int(span.traceparent[-2:], 16) & 1
    assert span.traceparent[3:35] == creation[3:35]


def test_an_attempt_that_is_not_sampled__exports_nothing_and_keeps_its_context(
    provider: TracerProvider, receiver: Receiver
) -> None:
    creation = subjects.traceparent(5, flags=0)

    span = subjects.worker().process(subjects.claim(creation=creation), subjects.delivery(), SOON)
    report(span, 1, ReportAs.COMPLETED, "accepted", "succeeded")
    span.acked(tracing.now(), sent=True)

    assert not span.is_sampled
    assert span.context is not None
    assert get_current_span(span.context).get_span_context().trace_id == 5
    assert (provider.force_flush(), receiver.spans())[1] == []


def test_a_report_after_the_end__has_its_span_and_changes_nothing_of_the_attempts(
    provider: TracerProvider, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that could not be stopped returns when its attempt was reported and acknowledged long ago."""
    span = subjects.worker().process(subjects.claim(), subjects.delivery())
    report(span, 1, ReportAs.FAILED, "recorded", "queued")
    span.acked(tracing.now(), sent=True)
    report(span, 1, ReportAs.COMPLETED, "already_reported", "queued", reason="already_reported", late=True)
    span.end(Outcome.LOST)
    span.lease(1, None)
    span.happened(Event.LATE_RESULT)

    got = received(provider, receiver)
    assert [one["name"].split()[0] for one in got] == ["process", "fail", "ack", "complete"]
    assert got[0]["attributes"]["brokerjobs.outcome"] == "retry"
    assert got[3]["status"] == ["ERROR", "already_reported"]
    assert not caplog.records


def test_an_attempt_that_never_reports__says_so(provider: TracerProvider, receiver: Receiver) -> None:
    subjects.worker().process(subjects.claim(), subjects.delivery()).end(Outcome.LEFT)

    [one] = received(provider, receiver)
    assert one["attributes"]["brokerjobs.outcome"] == "left"
    assert "status" not in one


def test_a_completing_transaction__is_told_by_its_verdict(provider: TracerProvider, receiver: Receiver) -> None:
    span = subjects.worker().process(subjects.claim(), subjects.delivery())
    span.reported(ReportAs.COMPLETED, tracing.now(), Said("accepted"))
    span.end()

    assert [one["attributes"]["brokerjobs.outcome"] for one in received(provider, receiver)] == ["accepted"] * 2


def test_needs__are_told_of_at_most_sixteen(provider: TracerProvider, receiver: Receiver) -> None:
    more = Particulars(needs=[f"need {number}" for number in range(100)])
    subjects.worker().process(subjects.claim(), subjects.delivery(), more).end()

    [one] = received(provider, receiver)
    assert len(one["attributes"]["brokerjobs.needs"]) == 16


def test_spans__have_nothing_of_the_payload_and_no_key(provider: TracerProvider, receiver: Receiver) -> None:
    creation = spans.create("payments", "payment.charge", subjects.JOB, key="order-991")
    creation.answered("created")
    span = subjects.worker().process(subjects.claim(creation=creation.traceparent), subjects.delivery(), SOON)
    report(span, 1, ReportAs.FAILED, "recorded", "queued")
    span.acked(tracing.now(), sent=True)

    text = json.dumps(received(provider, receiver))
    assert "4711" not in text
    assert "order-991" not in text
    assert "the bank is away" not in text


def test_the_age_of_a_job__is_read_from_its_id() -> None:
    age = seconds_since_made(uuid7())

    assert age is not None
    assert -0.1 < age < 1.0
    assert seconds_since_made(uuid4()) is None


def test_without_a_provider__there_is_one_object_for_all_attempts() -> None:
    tracing.use(None)
    span = subjects.worker().process(subjects.claim(creation=subjects.traceparent(1)), subjects.delivery(), SOON)

    assert span is NOTHING
    assert (span.context, span.traceparent, span.is_sampled, tracing.now()) == (None, None, False, 0)
    report(span, 1, ReportAs.COMPLETED, "accepted", "succeeded")
    span.acked(0, sent=True)
