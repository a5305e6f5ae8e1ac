"""The spans around attempts: submissions, batches, lost attempts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan

from brokerjobs.telemetry import spans
from brokerjobs.telemetry.traceparents import parsed, text_of
from brokerjobs.telemetry.tracing import tracing
from tests.telemetry import subjects
from tests.telemetry.receiving import shapes

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from tests.telemetry.receiving import Receiver


def test_create__is_below_the_callers_span_and_its_context_is_what_is_stored(
    provider: TracerProvider, receiver: Receiver
) -> None:
    with provider.get_tracer("web").start_as_current_span("POST /orders") as caller:
        creation = spans.create("payments", "payment.charge", subjects.JOB)
        creation.answered("created")

    caller_span, created = (provider.force_flush(), receiver.spans())[1]
    assert created.parent_span_id == caller_span.span_id
    assert creation.traceparent == f"00-{created.trace_id.hex()}-{created.span_id.hex()}-03"
    assert caller.get_span_context().trace_id == int.from_bytes(created.trace_id)


def test_create__of_a_submission_that_is_refused_says_why(provider: TracerProvider, receiver: Receiver) -> None:
    spans.create("payments", "payment.charge", subjects.JOB).answered("conflict")
    spans.create("payments", "payment.charge", subjects.JOB).failed(TimeoutError("secret"))
    other = subjects.ATTEMPTS[5]
    spans.create("payments", "payment.charge", subjects.JOB).answered("existing", other)

    provider.force_flush()
    conflict, failed, existing = shapes(receiver.spans())
    assert (conflict["status"], conflict["attributes"]["brokerjobs.verdict"]) == (["ERROR", "conflict"], "conflict")
    assert (failed["status"], failed["attributes"]["error.type"]) == (["ERROR", "TimeoutError"], "TimeoutError")
    assert "status" not in existing
    assert existing["attributes"]["brokerjobs.job.id"] == str(other)


def test_create__of_a_job_in_a_handler_has_its_own_job(provider: TracerProvider, receiver: Receiver) -> None:
    span = subjects.worker().process(subjects.claim(), subjects.delivery())
    other = subjects.ATTEMPTS[5]
    token = otel.attach(span.context or otel.Context())
    spans.create("payments", "receipt.send", other).answered("created")
    otel.detach(token)
    span.end()

    provider.force_flush()
    process, created = shapes(receiver.spans())
    assert created["parent"].endswith(process["name"])
    assert created["attributes"]["brokerjobs.job.id"] == str(other)


def test_create__without_a_provider_stores_what_the_caller_was_given() -> None:
    """A web framework hands the context of its caller on, whether or not an SDK is there."""
    tracing.use(None)
    given = subjects.traceparent(7, flags=3)
    context = parsed(given)
    assert context is not None

    with trace.use_span(NonRecordingSpan(context)):
        assert spans.create("payments", "payment.charge", subjects.JOB).traceparent == given
    assert spans.create("payments", "payment.charge", subjects.JOB).traceparent is None


@pytest.mark.parametrize("text", [subjects.traceparent(1), subjects.traceparent(2, 0), subjects.traceparent(3, 3)])
def test_traceparents__are_written_as_they_were_read(text: str) -> None:
    context = parsed(text)
    assert context is not None
    assert context.is_remote

    assert text_of(context) == text


def test_traceparents__of_later_versions_are_read() -> None:
    context = parsed("cc-" + subjects.traceparent(9)[3:] + "-what-comes")

    assert context is not None
    assert context.trace_id == 9
    assert text_of(context) == subjects.traceparent(9)


@pytest.mark.parametrize(
    "text", ["01-" + subjects.traceparent(9)[3:].upper() + "G", "ff" + subjects.traceparent(9)[2:], "x"]
)
def test_traceparents__that_are_none_are_not_read(text: str) -> None:
    assert parsed(text) is None


def test_tracestate__is_kept_where_there_is_one() -> None:
    context = parsed(subjects.traceparent(9), "vendor=a,other=b")

    assert context is not None
    assert context.trace_state.to_header() == "vendor=a,other=b"


def test_send__is_one_span_a_batch_with_a_link_to_each_sampled_creation(
    provider: TracerProvider, receiver: Receiver
) -> None:
    parents = [subjects.traceparent(1), subjects.traceparent(2, flags=0), None, subjects.traceparent(3)]
    spans.sent(tracing.now(), "payments.jobs", parents, spans.Sent(confirmed=2, refused=1, unknown=1))

    provider.force_flush()
    assert shapes(receiver.spans()) == [
        {
            "name": "send payments.jobs",
            "kind": "CLIENT",
            "trace": "T1",
            "attributes": {
                "error.type": "unknown",
                "messaging.batch.message_count": 4,
                "messaging.destination.name": "payments.jobs",
                "messaging.operation.name": "send",
                "messaging.operation.type": "send",
                "messaging.system": "rabbitmq",
            },
            "links": [
                {"to": f"{1:032x}/{1:016x}", "brokerjobs.link": "creation"},
                {"to": f"{3:032x}/{3:016x}", "brokerjobs.link": "creation"},
            ],
            "status": ["ERROR", "1 refused, 1 unknown, of 4"],
        }
    ]


def test_send__of_jobs_that_are_not_sampled_is_not_sampled(provider: TracerProvider, receiver: Receiver) -> None:
    parents = [subjects.traceparent(number, flags=0) for number in range(1, 200)]
    spans.sent(tracing.now(), "payments.jobs", parents, spans.Sent(199))

    assert (provider.force_flush(), receiver.spans())[1] == []


def test_send__has_no_more_links_than_an_sdk_keeps(provider: TracerProvider, receiver: Receiver) -> None:
    parents = [subjects.traceparent(number) for number in range(1, 201)]
    spans.sent(tracing.now(), "payments.jobs", parents, spans.Sent(200))

    [span] = (provider.force_flush(), receiver.spans())[1]
    assert len(span.links) == 128
    assert span.dropped_links_count == 0


def expired(creation: str | None, attempt: str | None) -> spans.Expired:
    claimed_at = datetime(2026, 11, 1, 12, tzinfo=UTC)
    return spans.Expired(
        namespace="payments",
        job_type="payment.charge",
        job_id=subjects.JOB,
        attempt_id=subjects.ATTEMPTS[1],
        number=1,
        fencing_number=5,
        worker_name="worker-a",
        claimed_at=claimed_at,
        found_at=claimed_at + timedelta(seconds=31.5),
        state="queued",
        traceparent=creation,
        attempt_traceparent=attempt,
    )


@pytest.mark.parametrize(
    ("creation", "attempt", "parent", "links"),
    [
        (subjects.traceparent(1), None, 1, [1]),
        (subjects.traceparent(1), subjects.traceparent(1)[:36] + f"{2:016x}-01", 1, [1, 2]),  # beside it
        (subjects.traceparent(1), subjects.traceparent(2), 2, [1, 2]),  # it had a trace of its own
        (None, subjects.traceparent(2), 2, [2]),
        (None, None, None, []),
    ],
)
def test_expire__is_in_the_trace_of_its_attempt_and_as_long_as_the_lost_lease(
    provider: TracerProvider,
    receiver: Receiver,
    *,
    creation: str | None,
    attempt: str | None,
    parent: int | None,
    links: list[int],
) -> None:
    spans.expire(expired(creation, attempt))

    [span] = (provider.force_flush(), receiver.spans())[1]
    assert (int.from_bytes(span.parent_span_id) or None) == parent
    assert [int.from_bytes(link.span_id) for link in span.links] == links
    assert span.end_time_unix_nano - span.start_time_unix_nano == 31_500_000_000
    assert datetime.fromtimestamp(span.start_time_unix_nano / 1e9, UTC) == datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_expire__of_an_attempt_that_was_not_sampled_is_not_exported(
    provider: TracerProvider, receiver: Receiver
) -> None:
    spans.expire(expired(subjects.traceparent(1, flags=0), None))

    assert (provider.force_flush(), receiver.spans())[1] == []
