"""A job, seen by those who submitted it or look after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from brokerjobs.client import questions
from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger.asking import Asking, ask

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.client.announce import Announcer
    from brokerjobs.client.questions import CancelOutcome
    from brokerjobs.client.submissions import Made
    from brokerjobs.client.waiting import Waiting
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.records import JobRecord, JobStatus

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What handles reach their jobs through."""

    ledger: AsyncLedgerConnection
    waiting: Waiting
    announcer: Announcer
    submitted_by: str


class AnyHandle(Generic[R]):
    """What is known of a job without asking, in both forms of a handle."""

    def __init__(self, job_type: JobType[Any, R], made: Made) -> None:
        self._job_type = job_type
        self._id = made.job_id
        self._doorbell: Outgoing | None = made.doorbell

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id} of {self._job_type.namespace}/{self._job_type.name}>"

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self._id

    @property
    def job_type(self) -> JobType[Any, R]:
        """The job's type."""
        return self._job_type


class JobHandle(AnyHandle[R]):
    """One job of a type whose result is an R; usable while its client is open."""

    def __init__(self, access: Access, job_type: JobType[Any, R], made: Made) -> None:
        super().__init__(job_type, made)
        self._access = access

    async def status(self) -> JobStatus:
        """Where the job stands, and what it waits for. Raises JobNotFound, LedgerUnavailable."""
        return await self._ask(questions.status(self._id))

    async def record(self) -> JobRecord:
        """Everything that was recorded about the job. Raises JobNotFound, LedgerUnavailable."""
        return await self._ask(questions.record(self._id))

    async def result(self, *, timeout: timedelta) -> R:  # noqa: ASYNC109  # one poll serves many, each with its own
        """The job's result, waited for.

        Raises JobFailed with every attempt's error, JobCancelled, InReview, DecidedByPerson (it happened, and nobody
        knows the result), JobNotFound, and ResultTimeout after `timeout`, also when the ledger could not be asked
        meanwhile.
        """
        return questions.result_of(self._job_type, await self._access.waiting.outcome(self._id, timeout))

    async def cancel(self, *, reason: str) -> CancelOutcome:
        """Cancels the job, or asks for it while it runs or is in review.

        Raises RefusedMove if it has ended, JobNotFound, LedgerUnavailable.
        """
        return await self._ask(questions.cancel(self._id, self._access.submitted_by, reason))

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

    async def _ask(self, asking: Asking[T]) -> T:
        return await ask(asking, self._access.ledger.fetch)
