"""What can be asked about a job, whoever asks: an event loop or a thread."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from brokerjobs.errors import (
    DecidedByPerson,
    InReview,
    JobCancelled,
    JobFailed,
    JobNotFound,
    RefusedMove,
    SubmissionRefused,
)
from brokerjobs.job_type import key_problems
from brokerjobs.ledger import inquiries, records
from brokerjobs.rules.states import JobState

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.asking import Asking
    from brokerjobs.ledger.records import JobRecord, JobStatus

R = TypeVar("R")


class CancelOutcome(StrEnum):
    """What a cancel did."""

    CANCELLED = "cancelled"  # the job was queued and is cancelled now
    REQUESTED = "requested"  # it runs or is in review: obeyed when the attempt or the review ends


def status(job_id: UUID) -> Asking[JobStatus]:
    """Where the job stands; raises JobNotFound."""
    rows = yield inquiries.status([job_id])
    if not rows:
        raise JobNotFound(job_id=job_id)
    return records.job_status(rows[0])


def record(job_id: UUID) -> Asking[JobRecord]:
    """Everything that was recorded about the job; raises JobNotFound."""
    [row] = yield inquiries.record(job_id)
    if row.record is None:
        raise JobNotFound(job_id=job_id)
    return records.job_record(row.record)


def cancel(job_id: UUID, by: str, reason: str) -> Asking[CancelOutcome]:
    """Cancels the job or asks for it; raises RefusedMove, JobNotFound."""
    [row] = yield inquiries.cancel(job_id, by, reason)
    match row.verdict:
        case "unknown_job":
            raise JobNotFound(job_id=job_id)
        case "refused":
            raise RefusedMove(job_id=job_id, state=row.state or "")
        case verdict:
            return CancelOutcome(verdict)


def find(job_type: JobType[Any, Any], key: str) -> Asking[UUID | None]:
    """The job that was submitted under the key; raises SubmissionRefused for what can be none."""
    for problem in key_problems(key):
        raise SubmissionRefused(problem)
    rows: list[inquiries.Found] = yield inquiries.find(job_type.namespace, job_type.name, key)
    return rows[0].job_id if rows else None


def result_of(job_type: JobType[Any, R], outcome: inquiries.Outcome) -> R:
    """The result of a job that has ended; raises JobFailed with every attempt's error, JobCancelled, InReview.

    Raises DecidedByPerson if a person said that it happened and gave no result.
    """
    match JobState(outcome.state):
        case JobState.SUCCEEDED if decided := decision_without_result(outcome):
            raise decided
        case JobState.SUCCEEDED:
            return job_type.decode_result("null" if outcome.result is None else outcome.result)
        case JobState.FAILED:
            raise JobFailed(
                job_id=outcome.job_id,
                failure_class=outcome.failure_class or "",
                reason=outcome.reason or "",
                attempts=records.attempt_errors(outcome.attempts or ()),
            )
        case JobState.CANCELLED:
            raise JobCancelled(job_id=outcome.job_id, reason=outcome.reason or "")
        case JobState.REVIEW:
            raise InReview(job_id=outcome.job_id, reason=outcome.reason or "")
        case JobState.QUEUED | JobState.RUNNING as state:
            message = f"a wait for job {outcome.job_id} ended although it is {state}"
            raise AssertionError(message)


def decision_without_result(outcome: inquiries.Outcome) -> DecidedByPerson | None:
    """The error that says who ended the job without a result, None if nobody did."""
    decided = outcome.decided
    if decided is None or decided["result_given"]:
        return None
    return DecidedByPerson(
        job_id=outcome.job_id,
        by=decided["by"],
        at=datetime.fromisoformat(decided["at"]),
        reason=decided["reason"],
        reference=decided["reference"],
    )
