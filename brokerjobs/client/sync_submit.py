"""Submits jobs from threads: each in a statement or transaction of its own, or in the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from brokerjobs.client import submissions
from brokerjobs.client.answers import Asker
from brokerjobs.client.new_jobs import new_job, new_jobs
from brokerjobs.client.patience import until_answered_sync
from brokerjobs.client.submissions import Made, creating, telling
from brokerjobs.ledger import guest
from brokerjobs.ledger.asking import ask_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.job_type import JobType, Submission
    from brokerjobs.ledger.database import SyncFetch
    from brokerjobs.ledger.shared import SharedConnections

P = TypeVar("P")


class SyncSubmitter:
    """Submits in the name of one submitter; `announce` rings behind what has been committed.

    Raises LedgerUnavailable when the ledger has given no answer for `patience_seconds`: the job may then exist or not.
    """

    def __init__(
        self,
        ledger: SharedConnections,
        announce: Callable[[Sequence[Outgoing]], None],
        *,
        submitted_by: str,
        patience_seconds: float,
    ) -> None:
        self._ledger = ledger
        self._announce = announce
        self._submitted_by = submitted_by
        self._patience_seconds = patience_seconds

    def one(self, job_type: JobType[P, Any], submission: Submission[P]) -> Made:
        """Submits one job in a commit of its own."""
        job = new_job(job_type, submission)
        asker = Asker(job_type, self._submitted_by)
        with creating([job]) as told, telling(job_type, f"job {job.id}"):
            made = until_answered_sync(
                lambda: ask_sync(submissions.one(asker, job, announced=True), self._ledger.fetch),
                self._patience_seconds,
            )
            told([made])
        return self._announced([made])[0]

    def many(self, job_type: JobType[P, Any], given: Sequence[Submission[P]]) -> list[Made]:
        """Submits all in one transaction, or none if one is refused."""
        jobs = list(new_jobs(job_type, given))
        asker = Asker(job_type, self._submitted_by)

        def work(fetch: SyncFetch) -> list[Made]:
            return ask_sync(submissions.every(asker, jobs, announced=True), fetch)

        with creating(jobs) as told, telling(job_type, f"all of {len(jobs)} jobs"):
            made = told(until_answered_sync(lambda: self._ledger.in_transaction(work), self._patience_seconds))
        return self._announced(made)

    def one_within(self, within: object, job_type: JobType[P, Any], submission: Submission[P]) -> Made:
        """Submits one job in the caller's transaction, which lives on if it is refused."""
        asker = Asker(job_type, self._submitted_by)
        job = new_job(job_type, submission)
        with creating([job]) as told:
            asking = submissions.one(asker, job, announced=False)
            return told([guest.ask_within_sync(within, asking)])[0]

    def many_within(self, within: object, job_type: JobType[P, Any], given: Sequence[Submission[P]]) -> list[Made]:
        """Submits all in the caller's transaction, or none if one is refused; the transaction lives on."""
        asker = Asker(job_type, self._submitted_by)
        jobs = list(new_jobs(job_type, given))
        with creating(jobs) as told:
            asking = submissions.every(asker, jobs, announced=False)
            return told(guest.ask_within_sync(within, asking, savepoint=True))

    def _announced(self, made: Sequence[Made]) -> list[Made]:
        if bells := [one.doorbell for one in made if one.doorbell is not None]:
            self._announce(bells)
        return [Made(one.job_id) for one in made]
