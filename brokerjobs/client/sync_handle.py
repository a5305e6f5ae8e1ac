"""A job, seen from threads: `JobHandle` without await."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from brokerjobs.client import questions
from brokerjobs.client.handle import AnyHandle
from brokerjobs.errors import LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.client.questions import CancelOutcome
    from brokerjobs.client.submissions import Made
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.asking import Asking
    from brokerjobs.ledger.inquiries import Outcome
    from brokerjobs.ledger.records import JobRecord, JobStatus

T = TypeVar("T")
R = TypeVar("R")


class SyncAccess(Protocol):
    """What handles reach their jobs through in one process."""

    @property
    def submitted_by(self) -> str:
        """In whose name."""
        ...

    def ask(self, asking: Asking[T], /) -> T:
        """Asks the ledger."""
        ...

    def outcome(self, job_id: UUID, timeout: timedelta, /) -> Outcome:
        """Waits for what ends a job."""
        ...

    def announced(self, doorbell: Outgoing, /) -> bool:
        """Rings a doorbell."""
        ...


class SyncJobHandle(AnyHandle[R]):
    """One job of a type whose result is an R; usable from any thread while its client is open."""

    def __init__(self, access: Callable[[], SyncAccess], job_type: JobType[Any, R], made: Made) -> None:
        super().__init__(job_type, made)
        self._access = access  # asked each time: the process may be a fork of the one that made this

    def status(self) -> JobStatus:
        """Where the job stands, and what it waits for. Raises JobNotFound, LedgerUnavailable."""
        return self._access().ask(questions.status(self._id))

    def record(self) -> JobRecord:
        """Everything that was recorded about the job. Raises JobNotFound, LedgerUnavailable."""
        return self._access().ask(questions.record(self._id))

    def result(self, *, timeout: timedelta) -> R:
        """The job's result; the calling thread waits for it.

        Raises JobFailed with every attempt's error, JobCancelled, InReview, DecidedByPerson (it happened, and nobody
        knows the result), JobNotFound, and ResultTimeout after `timeout`, also when the ledger could not be asked
        meanwhile.
        """
        return questions.result_of(self._job_type, self._access().outcome(self._id, timeout))

    def cancel(self, *, reason: str) -> CancelOutcome:
        """Cancels the job, or asks for it while it runs or is in review.

        Raises RefusedMove if it has ended, JobNotFound, LedgerUnavailable.
        """
        access = self._access()
        return access.ask(questions.cancel(self._id, access.submitted_by, reason))

    def announce(self) -> bool:
        """Rings at once for a job submitted `within=` a transaction, which must have been committed.

        Waits for the broker, two seconds at most; in Django give this method to `transaction.on_commit`.  True if the
        broker has confirmed the doorbell. False if there is none to ring (already rung, not due yet, another
        submission's), or if the relay has to ring it. Raises JobNotFound before the commit.
        """
        bell = self._doorbell
        if bell is None:
            return False
        try:
            self.status()  # a doorbell before the commit would be answered with "no such job", and be lost
        except LedgerUnavailable:
            return False
        rung = self._access().announced(bell)
        if rung:
            self._doorbell = None
        return rung
