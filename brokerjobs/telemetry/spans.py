"""The spans around an attempt's own: `create` at a submission, `send` of a batch, `expire` of a lost attempt."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanKind, Status, StatusCode

from brokerjobs.telemetry import attributes as a
from brokerjobs.telemetry import names
from brokerjobs.telemetry.attempts import creation_link
from brokerjobs.telemetry.events import Event
from brokerjobs.telemetry.outcomes import Outcome
from brokerjobs.telemetry.traceparents import parsed, text_of
from brokerjobs.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from opentelemetry.trace import SpanContext
    from opentelemetry.util.types import AttributeValue

_LINKS_AT_MOST: Final = 128  # an SDK keeps no more by default
_ATTEMPT: Final = {a.LINK: "attempt"}


class Creation:
    """The `create` span of one submission; its context goes into the ledger, and is never rewritten."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span | None, traceparent: str | None) -> None:
        self._span = span
        self.traceparent = traceparent
        """What is stored with the job; the caller's own context where nobody takes spans."""

    def answered(self, verdict: str, job_id: UUID | None = None) -> None:
        """The ledger has answered: `created`, or what else it said; `job_id` if another job is there already."""
        span, self._span = self._span, None
        if span is None:
            return
        span.set_attribute(a.VERDICT, verdict)
        if job_id is not None:
            span.set_attribute(a.JOB_ID, str(job_id))
        if verdict not in _TAKEN:
            _fail(span, verdict)
        span.end()

    def failed(self, error: BaseException) -> None:
        """There was no answer, or nothing was recorded; says nothing of one that has been answered."""
        span, self._span = self._span, None
        if span is not None:
            _fail(span, type(error).__name__)
            span.end()


def _fail(span: Span, error_type: str) -> None:
    span.set_attribute(a.ERROR_TYPE, error_type)
    span.set_status(Status(StatusCode.ERROR, error_type))


_TAKEN: Final = frozenset({"created", "existing"})


def create(namespace: str, job_type: str, job_id: UUID, key: str | None = None) -> Creation:
    """Begins the span of a submission, below what is current; `key` only if its hash may be told."""
    tracer = tracing.look()
    if tracer is None:
        return Creation(None, text_of(trace.get_current_span().get_span_context()))
    facts: dict[str, AttributeValue] = {
        a.SYSTEM: a.RABBITMQ,
        a.OPERATION_NAME: names.CREATE,
        a.OPERATION_TYPE: "create",
        a.DESTINATION_TEMPLATE: job_type,
        a.DESTINATION_NAME: f"{namespace}.jobs",
        a.NAMESPACE: namespace,
        a.JOB_TYPE: job_type,
        a.JOB_ID: str(job_id),
    }
    if key is not None:
        facts[a.KEY_HASH] = key_hash(key)
    span = tracer.start_span(f"{names.CREATE} {job_type}", kind=SpanKind.PRODUCER, attributes=facts)
    return Creation(span if span.is_recording() else None, text_of(span.get_span_context()))


def key_hash(key: str) -> str:
    """The beginning of the SHA-256 of an idempotency key: it can be searched for, and not be read."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


class Sent(NamedTuple):
    """How many messages of a batch the broker has confirmed, refused, and not answered."""

    confirmed: int
    refused: int = 0
    unknown: int = 0


def sent(began: int, exchange: str, traceparents: Iterable[str | None], outcome: Sent) -> None:
    """The span of a batch that was published, from `began` (`tracing.now()`) to now; linked to each creation."""
    tracer = tracing.tracer
    if tracer is None:
        return
    count = sum(outcome)
    facts: dict[str, AttributeValue] = {
        a.SYSTEM: a.RABBITMQ,
        a.OPERATION_NAME: names.SEND,
        a.OPERATION_TYPE: "send",
        a.DESTINATION_NAME: exchange,
    }
    if count > 1:
        facts[a.BATCH_COUNT] = count
    span = tracer.start_span(
        f"{names.SEND} {exchange}", Context(), SpanKind.CLIENT, facts, _links(traceparents), began or time.time_ns()
    )
    if span.is_recording() and outcome.confirmed < count:
        error = "unknown" if outcome.unknown else "refused"
        span.set_attribute(a.ERROR_TYPE, error)
        span.set_status(Status(StatusCode.ERROR, f"{outcome.refused} refused, {outcome.unknown} unknown, of {count}"))
    span.end()


def _links(traceparents: Iterable[str | None]) -> list[Link]:
    """Links to those that are sampled: others lead nowhere; one of these if all are so, for a sampler that follows."""
    sampled: list[Link] = []
    dropped: SpanContext | None = None
    for text in traceparents:
        if text is None or len(sampled) == _LINKS_AT_MOST or (dropped is not None and not _may_be_sampled(text)):
            continue
        if (context := parsed(text)) is not None:
            if context.trace_flags.sampled:
                sampled.append(creation_link(context))
            else:
                dropped = context
    return sampled or ([] if dropped is None else [creation_link(dropped)])


def _may_be_sampled(traceparent: str) -> bool:
    """The last bit of the flags, read without the rest: a batch has hundreds."""
    return traceparent[54:55] in _ODD_DIGITS


_ODD_DIGITS: Final = frozenset("13579bdf")


class Expired(NamedTuple):
    """An attempt that was given up."""

    namespace: str
    job_type: str
    job_id: UUID
    attempt_id: UUID
    number: int
    fencing_number: int
    worker_name: str
    claimed_at: datetime
    found_at: datetime
    state: str
    """The job's state after it."""
    traceparent: str | None = None
    """The context of the job's creation."""
    attempt_traceparent: str | None = None
    """The context of the attempt's own span."""


def expire(lost: Expired) -> None:
    """The span of an attempt that was lost, from its claim to when that was found: there is one even if it was killed.

    Beside the attempt's own span if that is below the creation, else below it: in the same trace either way.
    """
    tracer = tracing.look()
    if tracer is None:
        return
    created, attempt = parsed(lost.traceparent), parsed(lost.attempt_traceparent)
    links = [] if created is None else [creation_link(created)]
    if attempt is not None:
        links.append(Link(attempt, _ATTEMPT))
    parent = created
    if attempt is not None and (created is None or attempt.trace_id != created.trace_id):
        parent = attempt
    context = Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), Context())
    span = tracer.start_span(
        f"{names.EXPIRE} {lost.job_type}", context, SpanKind.INTERNAL, None, links, _nanoseconds(lost.claimed_at)
    )
    if span.is_recording():
        span.set_attributes(
            {
                a.NAMESPACE: lost.namespace,
                a.JOB_TYPE: lost.job_type,
                a.JOB_ID: str(lost.job_id),
                a.JOB_STATE: lost.state,
                a.ATTEMPT_ID: str(lost.attempt_id),
                a.ATTEMPT_NUMBER: lost.number,
                a.FENCING_NUMBER: lost.fencing_number,
                a.WORKER_NAME: lost.worker_name,
                a.OUTCOME: Outcome.TIMED_OUT.value,
                a.ERROR_TYPE: Event.LEASE_EXPIRED.value,
            }
        )
        span.set_status(Status(StatusCode.ERROR, Event.LEASE_EXPIRED.value))
    span.end(_nanoseconds(lost.found_at))


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000
