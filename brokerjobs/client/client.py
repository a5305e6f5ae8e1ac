"""The client of producers: submits jobs and asks about them, while its `async with` block is open."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Self, TypeVar

from brokerjobs.artifacts.store import lazily
from brokerjobs.client import questions
from brokerjobs.client.announce import LEAVE_SECONDS
from brokerjobs.client.artifacts import Artifacts
from brokerjobs.client.behind import Behind, connect_options
from brokerjobs.client.handle import Access, JobHandle
from brokerjobs.client.submissions import Made
from brokerjobs.client.submit import Roads, Submitter
from brokerjobs.errors import ConfigurationError
from brokerjobs.job_type import Submission
from brokerjobs.ledger.asking import ask
from brokerjobs.ledger.database import AsyncLedgerConnection
from brokerjobs.telemetry.attaching import apart

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType
    from uuid import UUID

    from brokerjobs.client.options import ClientOptions
    from brokerjobs.job_type import JobType, Priority
    from brokerjobs.rules.needs import Need

P = TypeVar("P")
R = TypeVar("R")


class Client:
    """Submits jobs in the name of `submitted_by`; made by `App.client`."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._open: _Open | None = None

    def __repr__(self) -> str:
        return f"<Client of {self._options.submitted_by!r}>"

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise ConfigurationError("the client is already open; make another one for another block")
        self._open = _Open(self._options)
        await self._open.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        opened = self._opened()
        self._open = None
        await opened.end(kind, error, traceback)

    async def submit(  # noqa: PLR0913  # what a submission may say, at the public door
        self,
        job_type: JobType[P, R],
        payload: P,
        *,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
        not_before: datetime | timedelta | None = None,
        deadline: datetime | timedelta | None = None,
        priority: Priority = "normal",
        needs: Sequence[Need] = (),
        within: object = None,
    ) -> JobHandle[R]:
        """Submits one job, and returns when the ledger has committed it; its doorbell is rung behind that.

        `priority` says by which lane of its queue it comes, `needs` what it needs beside what its type needs.
        `within` is the caller's open transaction (a psycopg AsyncConnection, a SQLAlchemy AsyncSession or
        AsyncConnection, or an asyncpg Connection): the job then exists when the caller commits.  Raises
        SubmissionRefused (UnknownJobType, InvalidPayload, PayloadTooLarge, IdempotencyConflict, KeyInFlight,
        ExpiredRecord), after which the caller's transaction lives on, and LedgerUnavailable, after which the job may
        exist: submit again with the same `key`.
        """
        submission = Submission(
            payload,
            key=key,
            tags=tags or {},
            not_before=not_before,
            deadline=deadline,
            priority=priority,
            needs=needs,
        )
        opened = self._opened()
        if within is None:
            made = await opened.submitter.one(job_type, submission)
        else:
            made = await opened.submitter.one_within(within, job_type, submission)
        return JobHandle(opened.access, job_type, made)

    async def submit_many(
        self, job_type: JobType[P, R], submissions: Sequence[Submission[P]], *, within: object = None
    ) -> list[JobHandle[R]]:
        """Submits all in one transaction, or none if one is refused; the handles are in the order given.

        Raises as `submit`, with a note that says which submission was refused.
        """
        opened = self._opened()
        if not submissions:
            return []
        if within is None:
            made = await opened.submitter.many(job_type, submissions)
        else:
            made = await opened.submitter.many_within(within, job_type, submissions)
        return [JobHandle(opened.access, job_type, one) for one in made]

    async def find(self, job_type: JobType[Any, R], *, key: str) -> JobHandle[R] | None:
        """The job that was submitted under `key`, None if there is none.

        Raises LedgerUnavailable, and SubmissionRefused for what can be no key.
        """
        found = await ask(questions.find(job_type, key), self._opened().access.ledger.fetch)
        return None if found is None else self.handle(job_type, found)

    def handle(self, job_type: JobType[Any, R], job_id: UUID) -> JobHandle[R]:
        """A handle of a job whose id is known; asks nothing."""
        return JobHandle(self._opened().access, job_type, Made(job_id))

    @property
    def artifacts(self) -> Artifacts:
        """What jobs have handed over: `list`, `get`, `fetch`, `acknowledge`."""
        return self._opened().artifacts

    def _opened(self) -> _Open:
        if self._open is None:
            raise ConfigurationError("the client is not open; use it inside `async with app.client(...) as client:`")
        return self._open


class _Open:
    """What an open client works with: made when its block is entered, gone when it is left."""

    def __init__(self, options: ClientOptions) -> None:
        self._connections = [AsyncLedgerConnection(connect_options(options)) for _ in range(3)]
        singles, many, asking = self._connections
        self._behind = Behind(options)
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        roads = Roads(
            singles=singles,
            many=many,
            announcer=self._behind.announcer,
            patience_seconds=options.patience.total_seconds(),
        )
        self.submitter = Submitter(roads, options.submitted_by, self._start)
        self.access = Access(
            ledger=asking,
            waiting=self._behind.waiting,
            announcer=self._behind.announcer,
            submitted_by=options.submitted_by,
        )
        self.artifacts = Artifacts(
            asking,
            lazily(options.artifacts),
            submitted_by=options.submitted_by,
            patience_seconds=options.patience.total_seconds(),
        )

    async def start(self) -> None:
        """Starts what goes on behind the caller."""
        await self._group.__aenter__()
        for loop in self._behind.loops():
            self._start(loop)

    async def end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Waits a little for pending doorbells, leaves the rest to the relay, and gives all connections back."""
        try:
            await self._behind.announcer.drain(LEAVE_SECONDS)
        finally:
            for task in self._tasks:
                task.cancel()
            try:
                # The caller's own error passes by itself; the group would wrap it.
                cancelled = isinstance(error, asyncio.CancelledError)
                await self._group.__aexit__(*((kind, error, traceback) if cancelled else (None, None, None)))
            finally:
                self.submitter.close()
                await self._behind.close()
                for connection in self._connections:
                    await connection.close()

    def _start(self, loop: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self._group.create_task(loop, context=apart(copy_context())))
