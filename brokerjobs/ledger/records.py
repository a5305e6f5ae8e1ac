"""What the ledger recorded, as typed values: views of `brokerjobs.job/1`, the JSON that `record` answers.

The JSON stays at hand in `JobRecord.data`: it has more than these views name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from brokerjobs.errors import AttemptError
from brokerjobs.rules.failures import FailureClass
from brokerjobs.rules.states import AttemptShown, ClosedAs, JobState, ReportAs, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from brokerjobs.ledger.inquiries import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """Who asked for a cancel, why and when."""

    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Where a job stands just now; a queued one says what it waits for, with the detail a person needs."""

    job_id: UUID
    state: JobState
    waiting: Waiting | None
    until: datetime | None
    detail: Mapping[str, Any]
    attempts: int
    deadline: datetime | None
    past_deadline: bool
    failure_class: str | None
    failure_reason: str | None
    cancel: CancelRequest | None


def job_status(standing: Standing) -> JobStatus:
    """The typed view of one row of `status`."""
    return JobStatus(
        job_id=standing.job_id,
        state=JobState(standing.state),
        waiting=Waiting(standing.waiting) if standing.waiting else None,
        until=standing.wait_until,
        detail=standing.wait_detail or {},
        attempts=standing.attempts,
        deadline=standing.deadline,
        past_deadline=bool(standing.past_deadline),
        failure_class=standing.failure_class,
        failure_reason=standing.failure_reason,
        cancel=_cancel(standing.cancel),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRecord:
    """What a queued job waits for."""

    waiting: Waiting
    until: datetime | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedRecord:
    """How the ledger closed an attempt."""

    at: datetime
    closed_as: ClosedAs
    by: str | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRecord:
    """What an attempt's worker finally said, both clocks, and the ledger's verdict."""

    received_at: datetime
    observed_at: datetime | None
    reported_as: ReportAs
    verdict: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The lease of an attempt."""

    first_until: datetime
    last_until: datetime
    renewals: int | None  # None: no report has told them


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeToRetry:
    """Whether an attempt that ended without an accepted result may be done again, and how that is known."""

    safe: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt; `result` and `failure` are what its worker reported, accepted or not."""

    id: UUID
    number: int
    fencing_number: int
    worker: str
    state: AttemptShown
    late: bool
    claimed_at: datetime
    started_at: datetime | None
    lease: LeaseRecord
    closed: ClosedRecord | None
    report: ReportRecord | None
    result: Any
    failure: Mapping[str, Any] | None
    safe_to_retry: SafeToRetry | None
    """None: it has not ended without an accepted result, or this was not recorded."""
    ack_sent_at: datetime | None
    """The worker's clock; sent, never known to have arrived."""
    traceparent: str | None = None
    """The context of its span, if that was sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """One try of an effect: its key, which attempts were granted it, and what became of it."""

    name: str
    try_number: int
    key: str
    repeatable: bool
    attempts: tuple[UUID, ...]
    outcome: str | None
    """`happened`, `did_not_happen`, or None: unknown."""
    known_by: str | None
    late: bool
    result: Any
    reference: str | None
    contradicted: bool
    unknown: bool
    """A person, or a fact, must say what became of it before it may be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """Why a job failed."""

    failure_class: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Everything that was recorded about one job; `data` is all of it as JSON."""

    id: UUID
    namespace: str
    type: str
    state: JobState
    waiting: WaitRecord | None
    key: str | None
    submitted_by: str
    tags: Mapping[str, str]
    submitted_at: datetime
    not_before: datetime | None
    deadline: datetime | None
    past_deadline: bool
    """It has passed, and the job has not finished: it is in review, or nobody has recorded it yet."""
    attempts: tuple[AttemptRecord, ...]
    effects: tuple[EffectRecord, ...]
    result: Any
    failure: FailureRecord | None
    cancel: CancelRequest | None
    finished_at: datetime | None
    data: Mapping[str, Any] = field(repr=False)


def job_record(data: Mapping[str, Any]) -> JobRecord:
    """The typed view of a record's JSON."""
    waiting, failure = data["waiting"], data["failure"]
    return JobRecord(
        id=UUID(data["id"]),
        namespace=data["namespace"],
        type=data["type"],
        state=JobState(data["state"]),
        waiting=waiting
        and WaitRecord(waiting=Waiting(waiting["for"]), until=_time(waiting["until"]), detail=waiting["detail"] or {}),
        key=data["key"],
        submitted_by=data["submitted_by"],
        tags=data["tags"],
        submitted_at=_known_time(data["submitted_at"]),
        not_before=_time(data["not_before"]),
        deadline=_time(data["deadline"]),
        past_deadline=data.get("past_deadline", False),
        attempts=tuple(map(attempt_record, data["attempts"])),
        effects=tuple(map(_effect, data.get("effects", ()))),
        result=data["result"],
        failure=failure and FailureRecord(failure_class=failure["class"], reason=failure["reason"]),
        cancel=_cancel(data["cancel"]),
        finished_at=_time(data["finished_at"]),
        data=data,
    )


def attempt_record(data: Mapping[str, Any]) -> AttemptRecord:
    """The typed view of one attempt's JSON."""
    lease, closed, report = data["lease"], data["closed"], data["report"]
    safe = data.get("safe_to_retry")
    return AttemptRecord(
        id=UUID(data["id"]),
        number=data["number"],
        fencing_number=int(data["fencing_number"]),
        worker=data["worker"],
        state=AttemptShown(data["state"]),
        late=data["late"],
        claimed_at=_known_time(data["claimed_at"]),
        started_at=_time(data["started_at"]),
        lease=LeaseRecord(
            first_until=_known_time(lease["first_until"]),
            last_until=_known_time(lease["last_until"]),
            renewals=lease["renewals"],
        ),
        closed=closed
        and ClosedRecord(
            at=_known_time(closed["at"]), closed_as=ClosedAs(closed["as"]), by=closed["by"], why=closed["why"]
        ),
        report=report
        and ReportRecord(
            received_at=_known_time(report["received_at"]),
            observed_at=_time(report["observed_at"]),
            reported_as=ReportAs(report["as"]),
            verdict=report["verdict"],
            reason=report["reason"],
        ),
        result=data.get("result"),
        failure=data["failure"],
        safe_to_retry=safe and SafeToRetry(safe=safe["safe"], why=safe["why"]),
        ack_sent_at=_time(data["ack_sent_at"]),
        traceparent=data.get("traceparent"),
    )


def _effect(data: Mapping[str, Any]) -> EffectRecord:
    outcome: Mapping[str, Any] = data["outcome"] or {}
    return EffectRecord(
        name=data["name"],
        try_number=data["try"],
        key=data["key"],
        repeatable=data["repeatable"],
        attempts=tuple(UUID(intent["attempt"]) for intent in data["intents"]),
        outcome=outcome.get("as"),
        known_by=outcome.get("by"),
        late=outcome.get("late", False),
        result=outcome.get("result"),
        reference=outcome.get("reference"),
        contradicted=data["contradicted_at"] is not None,
        unknown=data["unknown"],
    )


def attempt_errors(attempts: Iterable[Mapping[str, Any]]) -> tuple[AttemptError, ...]:
    """How each attempt of a failed job ended, from their JSON."""
    return tuple(_attempt_error(attempt_record(data)) for data in attempts)


def _attempt_error(attempt: AttemptRecord) -> AttemptError:
    failure, closed, report = attempt.failure or {}, attempt.closed, attempt.report
    # A result that was refused has failed only by its deadline. A lost attempt counts as temporary, unless what it did
    # is unknown and may not be done again.
    late = "deadline" in {report and report.reason, closed and closed.why}
    lost = FailureClass.UNSAFE if attempt.safe_to_retry and not attempt.safe_to_retry.safe else FailureClass.TEMPORARY
    return AttemptError(
        number=attempt.number,
        attempt_id=attempt.id,
        worker=attempt.worker,
        failure_class=failure.get("class") or (FailureClass.DEADLINE if late else lost),
        error_type=failure.get("type") or attempt.state,
        message=failure.get("message") or (report and report.reason) or (closed and closed.why) or "",
        claimed_at=attempt.claimed_at,
        ended_at=closed.at if closed else None,
    )


def _cancel(data: Mapping[str, Any] | None) -> CancelRequest | None:
    return None if data is None else CancelRequest(by=data["by"], reason=data["reason"], at=_known_time(data["at"]))


def _known_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
