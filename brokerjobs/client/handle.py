"""A job, seen by those who submitted it or look after it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from brokerjobs.errors import InReview, JobCancelled, JobFailed, JobNotFound, LedgerUnavailable, RefusedMove
from brokerjobs.ledger import inquiries, records
from brokerjobs.rules.states import JobState

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.client.announce import Announcer
    from brokerjobs.client.submit import Made
    from brokerjobs.client.waiting import Waiting
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.records import JobRecord, JobStatus

R = TypeVar("R")


class CancelOutcome(StrEnum):
    """What a cancel did."""

    CANCELLED = "cancelled"  # the job was queued and is cancelled now
    REQUESTED = "requested"  # it runs or is in review: obeyed when the attempt or the review ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What handles reach their jobs through."""

    ledger: AsyncLedgerConnection
    waiting: Waiting
    announcer: Announcer
    submitted_by: str


class JobHandle(Generic[R]):
    """One job of a type whose result is an R; usable while its client is open."""

    def __init__(self, access: Access, job_type: JobType[Any, R], made: Made) -> None:
        self._access = access
        self._job_type = job_type
        self._id = made.job_id
        self._doorbell: Outgoing | None = made.doorbell

    def __repr__(self) -> str:
        return f"<JobHandle {self._id} of {self._job_type.namespace}/{self._job_type.name}>"

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self._id

    @property
    def job_type(self) -> JobType[Any, R]:
        """The job's type."""
        return self._job_type

    async def status(self) -> JobStatus:
        """Where the job stands, and what it waits for. Raises JobNotFound, LedgerUnavailable."""
        rows = await self._access.ledger.fetch(inquiries.status([self._id]))
        if not rows:
            raise JobNotFound(job_id=self._id)
        return records.job_status(rows[0])

    async def record(self) -> JobRecord:
        """Everything that was recorded about the job. Raises JobNotFound, LedgerUnavailable."""
        [row] = await self._access.ledger.fetch(inquiries.record(self._id))
        if row.record is None:
            raise JobNotFound(job_id=self._id)
        return records.job_record(row.record)

    async def result(self, *, timeout: timedelta) -> R:  # noqa: ASYNC109  # one poll serves many, each with its own
        """The job's result, waited for.

        Raises JobFailed with every attempt's error, JobCancelled, InReview, JobNotFound, and ResultTimeout after
        `timeout`, also when the ledger could not be asked meanwhile.
        """
        outcome = await self._access.waiting.outcome(self._id, timeout)
        match JobState(outcome.state):
            case JobState.SUCCEEDED:
                return self._job_type.decode_result("null" if outcome.result is None else outcome.result)
            case JobState.FAILED:
                raise JobFailed(
                    job_id=self._id,
                    failure_class=outcome.failure_class or "",
                    reason=outcome.reason or "",
                    attempts=records.attempt_errors(outcome.attempts or ()),
                )
            case JobState.CANCELLED:
                raise JobCancelled(job_id=self._id, reason=outcome.reason or "")
            case JobState.REVIEW:
                raise InReview(job_id=self._id, reason=outcome.reason or "")
            case JobState.QUEUED | JobState.RUNNING as state:
                message = f"a wait for job {self._id} ended although it is {state}"
                raise AssertionError(message)

    async def cancel(self, *, reason: str) -> CancelOutcome:
        """Cancels the job, or asks for it while it runs or is in review.

        Raises RefusedMove if it has ended, JobNotFound, LedgerUnavailable.
        """
        [row] = await self._access.ledger.fetch(inquiries.cancel(self._id, self._access.submitted_by, reason))
        match row.verdict:
            case "unknown_job":
                raise JobNotFound(job_id=self._id)
            case "refused":
                raise RefusedMove(job_id=self._id, state=row.state or "")
            case verdict:
                return CancelOutcome(verdict)

    async def announce(self) -> bool:
        """Rings at once for a job submitted `within=` a transaction, which must have been committed.

        True if the broker has confirmed the doorbell. False if there is none to ring (already rung, not due yet,
        another submission's), or if the relay has to ring it. Raises JobNotFound before the commit.
        """
        bell = self._doorbell
        if bell is None:
            return False
        try:
            await self.status()  # a doorbell before the commit would be answered with "no such job", and be lost
        except LedgerUnavailable:
            return False
        rung = await self._access.announcer.announced(bell)
        if rung:
            self._doorbell = None
        return rung
