"""The spans of an attempt: `process` from its claim to its acknowledgement, and below it what was said to the ledger.

Of an attempt that is not sampled there is its context alone, for the spans of its handler.  Where nobody takes spans
there is `NOTHING`, whose methods do nothing.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanKind, Status, StatusCode

from brokerjobs.rules.states import ReportAs
from brokerjobs.telemetry import attributes as a
from brokerjobs.telemetry import names
from brokerjobs.telemetry.attaching import with_subject
from brokerjobs.telemetry.events import Event
from brokerjobs.telemetry.outcomes import ERRORS, Outcome, outcome_of
from brokerjobs.telemetry.traceparents import parsed, text_of
from brokerjobs.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from uuid import UUID

    from opentelemetry.trace import SpanContext, Tracer
    from opentelemetry.util.types import AttributeValue

    from brokerjobs.telemetry.shapes import Answer, Arrival, Claim, Failed, Particulars, Subject

_OPERATIONS: Final = {
    ReportAs.COMPLETED: names.COMPLETE,
    ReportAs.FAILED: names.FAIL,
    ReportAs.RELEASED: names.RELEASE,
}
_NEEDS_AT_MOST: Final = 16
_KNOWN_AT_MOST: Final = 1_000  # pairs of job types and routes whose attributes are kept


class Topology(StrEnum):
    """How an attempt is placed beside the creation of its job, to which it always has a link."""

    AUTO = "auto"  # below it if it begins within the join window, else in a trace of its own
    PARENT = "parent"
    LINK = "link"


class AttemptSpan:
    """What is told of an attempt; this one takes it and does nothing."""

    __slots__ = ()

    @property
    def context(self) -> Context | None:
        """The trace context for its handler; None: whatever is there."""
        return None

    @property
    def traceparent(self) -> str | None:
        """Its span's context, for a child process and for the link of the next attempt."""
        return None

    @property
    def tracestate(self) -> str | None:
        """What vendors say beside it, for a child process."""
        return None

    @property
    def is_sampled(self) -> bool:
        """Will its span be exported? Only then is its traceparent worth being stored."""
        return False

    def happened(self, event: Event, facts: Mapping[str, AttributeValue] | None = None) -> None:
        """Something has happened that is out of the ordinary; never called for what happens at every renewal."""

    def lease(self, renewals: int, smallest_margin: float | None) -> None:
        """How its lease has fared, margin in seconds."""

    def reported(self, said: ReportAs, began: int, answer: Answer, failure: Failed | None = None) -> None:
        """The ledger has answered its report, which `began` then (`tracing.now()`)."""

    def acked(self, began: int, *, sent: bool, goes_on: bool = False) -> None:
        """Its delivery was acknowledged, or could not be since its channel was gone; it ends unless it `goes_on`."""

    def end(self, outcome: Outcome | None = None) -> None:
        """It ends; with an outcome if none was reported: LOST, or LEFT."""


NOTHING: Final = AttemptSpan()


class Unsampled(AttemptSpan):
    """An attempt whose span is not exported: only its handler's context counts."""

    __slots__ = ("_context", "_span")

    def __init__(self, span: Span, subject: Subject) -> None:
        self._span = span
        self._context = with_subject(trace.set_span_in_context(span, Context()), subject)

    @property
    def context(self) -> Context | None:
        """The trace context for its handler."""
        return self._context

    @property
    def traceparent(self) -> str | None:
        """Its span's context."""
        return text_of(self._span.get_span_context())

    @property
    def tracestate(self) -> str | None:
        """What vendors say beside it."""
        return self._span.get_span_context().trace_state.to_header() or None


class Recorded(Unsampled):
    """An attempt whose span is exported."""

    __slots__ = ("_claim", "_names", "_route", "_tracer")

    def __init__(self, span: Span, claim: Claim, tracer: Tracer, route: str) -> None:
        super().__init__(span, claim)
        self._claim = claim
        self._tracer = tracer
        self._route = route
        self._names: dict[str, AttributeValue] = {
            a.JOB_ID: str(claim.job_id),
            a.ATTEMPT_NUMBER: claim.number,
            a.FENCING_NUMBER: claim.fencing_number,
        }
        """What its own span has already, and those below it shall have."""

    @property
    def is_sampled(self) -> bool:
        """Will its span be exported?"""
        return self._span.get_span_context().trace_flags.sampled

    def happened(self, event: Event, facts: Mapping[str, AttributeValue] | None = None) -> None:
        """An event of its span."""
        if self._span.is_recording():
            self._span.add_event(event.value, facts)

    def lease(self, renewals: int, smallest_margin: float | None) -> None:
        """Attributes of its span."""
        if self._span.is_recording():
            self._span.set_attribute(a.LEASE_RENEWALS, renewals)
            if smallest_margin is not None:
                self._span.set_attribute(a.LEASE_SMALLEST_MARGIN, smallest_margin)

    def reported(self, said: ReportAs, began: int, answer: Answer, failure: Failed | None = None) -> None:
        """A span of its own below the attempt's, and the attempt's outcome; also if it has ended before."""
        outcome = outcome_of(said, answer.verdict, answer.state, late=bool(answer.late))
        error = _error(outcome, answer, failure)
        facts: dict[str, AttributeValue] = {a.VERDICT: answer.verdict, a.OUTCOME: outcome.value}
        if answer.reason is not None:
            facts[a.REASON] = answer.reason
        if answer.late:
            facts[a.LATE] = True
        if failure is not None:
            facts[a.FAILURE_CLASS] = str(failure.failure_class)
        if answer.until is not None and outcome is Outcome.RETRY:
            facts[a.RETRY_DELAY] = max(0.0, answer.until.timestamp() - time.time())
        ended = time.time_ns()
        child = self._tracer.start_span(
            f"{_OPERATIONS[said]} {self._claim.type}",
            self._context,
            SpanKind.INTERNAL,
            facts | self._names,
            start_time=began or ended,
        )
        # What the handler raised is the attempt's error; this call's own is a report that was not taken.
        if outcome is Outcome.REJECTED and error is not None:
            child.set_attribute(a.ERROR_TYPE, error)
            child.set_status(Status(StatusCode.ERROR, error))
        child.end(ended)
        if self._span.is_recording():
            self._conclude(outcome, facts, error)

    def _conclude(self, outcome: Outcome, facts: Mapping[str, AttributeValue], error: str | None) -> None:
        self._span.set_attributes(facts)
        if error is not None:
            self._span.set_attribute(a.ERROR_TYPE, error)
            self._span.set_status(Status(StatusCode.ERROR, error))
        if outcome is Outcome.REJECTED:
            self._span.add_event(Event.REPORT_REJECTED.value, {a.REASON: facts.get(a.REASON, "")})

    def acked(self, began: int, *, sent: bool, goes_on: bool = False) -> None:
        """A span of its own below the attempt's, which ends unless it was acknowledged when it was claimed."""
        ended = time.time_ns()
        facts: dict[str, AttributeValue] = {
            a.SYSTEM: a.RABBITMQ,
            a.OPERATION_NAME: names.ACK,
            a.OPERATION_TYPE: "settle",
            a.DESTINATION_NAME: self._route,
            a.JOB_ID: self._names[a.JOB_ID],
            a.ATTEMPT_NUMBER: self._claim.number,
        }
        child = self._tracer.start_span(
            f"{names.ACK} {self._route}", self._context, SpanKind.CLIENT, facts, start_time=began or ended
        )
        if not sent:
            child.set_attribute(a.ERROR_TYPE, Event.ACK_LOST.value)
            child.set_status(Status(StatusCode.ERROR, Event.ACK_LOST.value))
            self.happened(Event.ACK_LOST)
        child.end(ended)
        if not goes_on:
            self.end()

    def end(self, outcome: Outcome | None = None) -> None:
        """Its span ends; once."""
        if not self._span.is_recording():
            return
        if outcome is not None:
            self._span.set_attribute(a.OUTCOME, outcome.value)
        self._span.end()


def _error(outcome: Outcome, answer: Answer, failure: Failed | None) -> str | None:
    """The error type of an attempt: our reason if its report was rejected, else what its handler raised."""
    if outcome not in ERRORS:
        return None
    if outcome is Outcome.REJECTED:
        return answer.reason or answer.verdict
    return failure.error_type if failure is not None else outcome.value


class AttemptSpans:
    """Makes the spans of the attempts of one worker."""

    def __init__(self, namespace: str, worker_id: str, worker_name: str, topology: Topology, window: timedelta) -> None:
        self._exchange = f"{namespace}.jobs"
        self._fixed: dict[str, AttributeValue] = {
            a.SYSTEM: a.RABBITMQ,
            a.OPERATION_NAME: names.PROCESS,
            a.OPERATION_TYPE: "process",
            a.NAMESPACE: namespace,
            a.WORKER_ID: worker_id,
            a.WORKER_NAME: worker_name,
        }
        self._topology = topology
        self._window_seconds = window.total_seconds()
        self._known: dict[tuple[str, str], dict[str, AttributeValue]] = {}

    def process(self, claim: Claim, arrival: Arrival, more: Particulars | None = None) -> AttemptSpan:
        """The span of an attempt that was granted now."""
        tracer = tracing.tracer
        if tracer is None:
            return NOTHING
        created = parsed(claim.traceparent)
        links = [] if created is None else [Link(created, _CREATION)]
        if more is not None and (previous := parsed(more.previous)) is not None:
            links.append(Link(previous, _PREVIOUS))
        context = Context()
        if created is not None and self._joins(more):
            context = trace.set_span_in_context(NonRecordingSpan(created), context)
        fixed = self._known.get((claim.type, arrival.route)) or self._learn(claim.type, arrival.route)
        span = tracer.start_span(f"{names.PROCESS} {claim.type}", context, SpanKind.CONSUMER, fixed, links)
        if not span.is_recording():
            return Unsampled(span, claim)
        span.set_attributes(_facts(claim, arrival, more))
        return Recorded(span, claim, tracer, arrival.route)

    def _joins(self, more: Particulars | None) -> bool:
        """Does the attempt belong into the trace of its job's creation?"""
        if self._topology is not Topology.AUTO:
            return self._topology is Topology.PARENT
        if more is None or more.since_submit is None or more.delayed:
            return False
        return more.since_submit <= self._window_seconds

    def _learn(self, job_type: str, route: str) -> dict[str, AttributeValue]:
        """What is the same for all attempts of a type that come by a route: no work for those not sampled."""
        if len(self._known) >= _KNOWN_AT_MOST:
            self._known.clear()
        made = self._known[job_type, route] = {
            **self._fixed,
            a.JOB_TYPE: job_type,
            a.DESTINATION_TEMPLATE: job_type,
            a.DESTINATION_NAME: f"{self._exchange}:{route}",
            a.ROUTING_KEY: route,
        }
        return made


_CREATION: Final = {a.LINK: "creation"}
_PREVIOUS: Final = {a.LINK: "previous_attempt"}


def seconds_since_made(job_id: UUID) -> float | None:
    """How long ago the id of a job was made, by the clock of its client; None if it does not say, as UUIDv7 does.

    Near enough for the join window, and it costs the claim nothing; it decides nothing else.
    """
    return time.time() - (job_id.int >> 80) / 1000 if job_id.version == 7 else None


def creation_link(context: SpanContext) -> Link:
    """A link to the creation of a job."""
    return Link(context, _CREATION)


def _facts(claim: Claim, arrival: Arrival, more: Particulars | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        a.JOB_ID: str(claim.job_id),
        a.ATTEMPT_ID: str(claim.attempt_id),
        a.ATTEMPT_NUMBER: claim.number,
        a.FENCING_NUMBER: claim.fencing_number,
        a.LEASE_DURATION: float(claim.lease_seconds),
        a.REDELIVERED: arrival.redelivered,
        a.MESSAGE_ID: str(arrival.ticket),
        a.DELIVERY_TAG: arrival.tag,
    }
    if more is None:
        return facts
    if more.waited is not None:
        facts[a.QUEUE_DURATION] = max(0.0, more.waited)
    if more.limit is not None:
        facts[a.ATTEMPT_LIMIT] = more.limit
    if more.needs:
        facts[a.NEEDS] = tuple(more.needs[:_NEEDS_AT_MOST])
    if more.key_hash is not None:
        facts[a.KEY_HASH] = more.key_hash
    return facts
