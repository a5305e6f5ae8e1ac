"""Submits jobs: one by one through group commit, many in a transaction of their own, or in the caller's.

Ids are made before anything is sent, so that a submission whose reply was lost is asked again with the same id and is
the same job (rule R7).
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from brokerjobs.client.answers import Asker, accepted, doorbell
from brokerjobs.client.new_jobs import batches, key_order, new_job, new_jobs, note_place
from brokerjobs.errors import ConfigurationError, LedgerUnavailable, SubmissionRefused
from brokerjobs.ledger import guest
from brokerjobs.ledger.database import DataRefused
from brokerjobs.ledger.group_commit import GroupCommit
from brokerjobs.ledger.inquiries import NewJob, SubmitBatch, Submitted, submit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.client.announce import Announcer
    from brokerjobs.job_type import JobType, Submission
    from brokerjobs.ledger.database import AsyncLedgerConnection, Fetch, Query

P = TypeVar("P")
T = TypeVar("T")
AnyJobType: TypeAlias = "JobType[Any, Any]"
# An expected answer is a value: the group commit itself would ask for ever.
Answer: TypeAlias = "Submitted | LedgerUnavailable"
Group: TypeAlias = "GroupCommit[NewJob, Answer]"

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Made:
    """The job that a submission is, with the doorbell that its handle has to ring, if it has one."""

    job_id: UUID
    doorbell: Outgoing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roads:
    """What submissions go through: a connection for single ones, one for many, and the announcer behind them."""

    singles: AsyncLedgerConnection
    many: AsyncLedgerConnection
    announcer: Announcer
    patience_seconds: float


class Submitter:
    """Submits in the name of one submitter; `start` starts the loops of its group commits, and owns them.

    Raises LedgerUnavailable when the ledger has given no answer for `patience_seconds`: the job may then exist or not.
    """

    def __init__(self, roads: Roads, submitted_by: str, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._roads = roads
        self._submitted_by = submitted_by
        self._start = start
        self._groups: dict[AnyJobType, Group] = {}
        self._open: set[asyncio.Future[Answer]] = set()

    async def one(self, job_type: JobType[P, Any], submission: Submission[P]) -> Made:
        """Submits one job in the next commit of its type."""
        job = new_job(job_type, submission)
        answer = await self._committed(job_type, job)
        if isinstance(answer, LedgerUnavailable):
            raise _unknown(f"job {job.id}", answer) from answer
        return Made(accepted(Asker(job_type, self._submitted_by), job, answer))

    async def many(self, job_type: JobType[P, Any], submissions: Sequence[Submission[P]]) -> list[Made]:
        """Submits all in one transaction, or none if one is refused."""
        jobs = await new_jobs(job_type, submissions)

        async def work(fetch: Fetch) -> list[Made]:
            return await self._all(job_type, jobs, fetch, announced=True)

        try:
            made = await self._until_answered(lambda: self._roads.many.in_transaction(work))
        except DataRefused as error:
            raise _refused_value(job_type, error) from error
        except LedgerUnavailable as error:
            raise _unknown(f"all of {len(jobs)} jobs", error) from error
        self._roads.announcer.announce(one.doorbell for one in made if one.doorbell is not None)
        return [Made(one.job_id) for one in made]

    async def one_within(self, within: object, job_type: JobType[P, Any], submission: Submission[P]) -> Made:
        """Submits one job in the caller's transaction, which lives on if it is refused."""
        job = new_job(job_type, submission)
        [answer] = await guest.fetch_within(within, self._query(job_type, [job], announced=False))
        return Made(accepted(Asker(job_type, self._submitted_by), job, answer), doorbell(job_type, job, answer))

    async def many_within(
        self, within: object, job_type: JobType[P, Any], submissions: Sequence[Submission[P]]
    ) -> list[Made]:
        """Submits all in the caller's transaction, or none if one is refused; the transaction lives on."""
        jobs = await new_jobs(job_type, submissions)

        async def fetch(query: Query[Any], /) -> list[Any]:
            return await guest.fetch_within(within, query)

        async with guest.guest(within).savepoint():
            return await self._all(job_type, jobs, fetch, announced=False)

    def close(self) -> None:
        """Tells those who still wait, once the loops have ended."""
        for future in self._open:
            if not future.done():
                message = "the client was closed while it submitted; await submissions inside its `async with` block"
                future.set_exception(ConfigurationError(message))

    async def _committed(self, job_type: AnyJobType, job: NewJob) -> Answer:
        group = self._groups.get(job_type)
        future = (self._new_group(job_type) if group is None else group).ask(job)  # an empty group is false
        self._open.add(future)
        try:
            return await future
        except DataRefused as error:
            raise _refused_value(job_type, error) from error
        finally:
            self._open.discard(future)

    def _new_group(self, job_type: AnyJobType) -> Group:
        async def call(jobs: Sequence[NewJob]) -> Sequence[Answer]:
            return await self._commit(job_type, jobs)

        group: Group = GroupCommit(call, is_locked=lambda _: False, size=lambda job: len(job.payload))
        self._groups[job_type] = group
        self._start(group.run())
        return group

    async def _commit(self, job_type: AnyJobType, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """One commit, and its doorbells behind it: not rung by those who asked, one of whom may have been cancelled."""
        order = key_order(jobs)
        query = self._query(job_type, [jobs[place] for place in order], announced=True)
        try:
            rows = await self._until_answered(lambda: self._roads.singles.fetch(query))
        except LedgerUnavailable as error:
            return [error] * len(jobs)
        answers = [row for _, row in sorted(zip(order, rows, strict=True), key=lambda placed: placed[0])]
        bells = (doorbell(job_type, job, answer) for job, answer in zip(jobs, answers, strict=True))
        self._roads.announcer.announce(bell for bell in bells if bell is not None)
        return answers

    async def _all(self, job_type: AnyJobType, jobs: Sequence[NewJob], fetch: Fetch, *, announced: bool) -> list[Made]:
        asker = Asker(job_type, self._submitted_by)
        made: dict[int, Made] = {}
        for batch in batches(jobs):
            answers = await fetch(self._query(job_type, [jobs[place] for place in batch], announced=announced))
            for place, answer in zip(batch, answers, strict=True):
                try:
                    made[place] = Made(accepted(asker, jobs[place], answer), doorbell(job_type, jobs[place], answer))
                except SubmissionRefused as refused:
                    note_place(refused, place, len(jobs))
                    raise
        return [made[place] for place in range(len(jobs))]

    def _query(self, job_type: AnyJobType, jobs: Sequence[NewJob], *, announced: bool) -> Query[Submitted]:
        return submit(
            SubmitBatch(
                namespace=job_type.namespace,
                type=job_type.name,
                submitted_by=self._submitted_by,
                fingerprint=job_type.fingerprint,
                observed_at=datetime.now(UTC),
                announced=announced,
                jobs=jobs,
            )
        )

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks again with the same ids while the ledger gives no answer; the patience counts from the first failure."""
        end: float | None = None
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await ask()
            except LedgerUnavailable:
                now = time.monotonic()
                end = now + self._roads.patience_seconds if end is None else end
                if now + pause > end:
                    raise
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _unknown(what: str, error: LedgerUnavailable) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"{what} may or may not have been submitted: {error}; submitting again is harmless with a key= alone"
    )


def _refused_value(job_type: AnyJobType, error: DataRefused) -> SubmissionRefused:
    return SubmissionRefused(f"job type {job_type.name!r}: the ledger refused a value: {error}")
