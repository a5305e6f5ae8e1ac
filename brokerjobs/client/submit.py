"""Submits jobs on an event loop: one by one through group commit, many in a transaction, or in the caller's own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from brokerjobs.client import submissions
from brokerjobs.client.answers import Asker, accepted, doorbell
from brokerjobs.client.new_jobs import key_order, new_job, new_jobs
from brokerjobs.client.patience import until_answered
from brokerjobs.client.submissions import AnyJobType, Made, creating, telling
from brokerjobs.errors import ConfigurationError, LedgerUnavailable
from brokerjobs.ledger import guest
from brokerjobs.ledger.asking import ask
from brokerjobs.ledger.group_commit import MAX_ROWS, GroupCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from brokerjobs.client.announce import Announcer
    from brokerjobs.job_type import JobType, Submission
    from brokerjobs.ledger.database import AsyncLedgerConnection, Fetch
    from brokerjobs.ledger.inquiries import NewJob, Submitted

P = TypeVar("P")
# An expected answer is a value: the group commit itself would ask for ever.
Answer: TypeAlias = "Submitted | LedgerUnavailable"
Group: TypeAlias = "GroupCommit[NewJob, Answer]"


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
        with creating([job]) as told:
            with telling(job_type, f"job {job.id}"):
                answer = await self._committed(job_type, job)
                if isinstance(answer, LedgerUnavailable):
                    raise answer
            return told([Made(accepted(self._asker(job_type), job, answer))])[0]

    async def many(self, job_type: JobType[P, Any], given: Sequence[Submission[P]]) -> list[Made]:
        """Submits all in one transaction, or none if one is refused."""
        jobs = await _all_ready(job_type, given)
        asker = self._asker(job_type)

        async def work(fetch: Fetch) -> list[Made]:
            return await ask(submissions.every(asker, jobs, announced=True), fetch)

        with creating(jobs) as told, telling(job_type, f"all of {len(jobs)} jobs"):
            made = told(
                await until_answered(lambda: self._roads.many.in_transaction(work), self._roads.patience_seconds)
            )
        self._roads.announcer.announce(one.doorbell for one in made if one.doorbell is not None)
        return [Made(one.job_id) for one in made]

    async def one_within(self, within: object, job_type: JobType[P, Any], submission: Submission[P]) -> Made:
        """Submits one job in the caller's transaction, which lives on if it is refused."""
        job = new_job(job_type, submission)
        with creating([job]) as told:
            asking = submissions.one(self._asker(job_type), job, announced=False)
            return told([await guest.ask_within(within, asking)])[0]

    async def many_within(
        self, within: object, job_type: JobType[P, Any], given: Sequence[Submission[P]]
    ) -> list[Made]:
        """Submits all in the caller's transaction, or none if one is refused; the transaction lives on."""
        jobs = await _all_ready(job_type, given)
        with creating(jobs) as told:
            asking = submissions.every(self._asker(job_type), jobs, announced=False)
            return told(await guest.ask_within(within, asking, savepoint=True))

    def close(self) -> None:
        """Tells those who still wait, once the loops have ended."""
        for future in self._open:
            if not future.done():
                message = "the client was closed while it submitted; await submissions inside its `async with` block"
                future.set_exception(ConfigurationError(message))

    def _asker(self, job_type: AnyJobType) -> Asker:
        return Asker(job_type, self._submitted_by)

    async def _committed(self, job_type: AnyJobType, job: NewJob) -> Answer:
        group = self._groups.get(job_type)
        future = (self._new_group(job_type) if group is None else group).ask(job)  # an empty group is false
        self._open.add(future)
        try:
            return await future
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
        query = submissions.statement(self._asker(job_type), [jobs[place] for place in order], announced=True)
        try:
            rows = await until_answered(lambda: self._roads.singles.fetch(query), self._roads.patience_seconds)
        except LedgerUnavailable as error:
            return [error] * len(jobs)
        answers = [row for _, row in sorted(zip(order, rows, strict=True), key=lambda placed: placed[0])]
        bells = (doorbell(job_type, job, answer) for job, answer in zip(jobs, answers, strict=True))
        self._roads.announcer.announce(bell for bell in bells if bell is not None)
        return answers


async def _all_ready(job_type: JobType[P, Any], given: Sequence[Submission[P]]) -> list[NewJob]:
    """All submissions with their ids, letting other tasks run in between."""
    jobs: list[NewJob] = []
    for job in new_jobs(job_type, given):
        jobs.append(job)
        if len(jobs) % MAX_ROWS == 0:
            await asyncio.sleep(0)
    return jobs
