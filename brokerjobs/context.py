"""What a handler is given beside its payload; the worker makes it, so these are its shapes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
    from psycopg.abc import Params, QueryNoTemplate
    from psycopg.rows import TupleRow


class AttemptContext(Protocol):
    """The attempt that is running."""

    @property
    def id(self) -> UUID:
        """Its id, new for every claim."""
        ...

    @property
    def number(self) -> int:
        """Its number: 1, 2, 3 and so on."""
        ...

    @property
    def fencing_number(self) -> int:
        """Larger for every later lease of the job: give it to stores that can compare it."""
        ...


class _JobFacts(Protocol):
    @property
    def job_id(self) -> UUID:
        """The job's id."""
        ...

    @property
    def key(self) -> str | None:
        """The idempotency key that it was submitted with."""
        ...

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags that it was submitted with."""
        ...

    @property
    def submitted_by(self) -> str:
        """Who submitted it."""
        ...

    @property
    def deadline(self) -> datetime | None:
        """Until when its result is accepted, by the ledger's clock."""
        ...

    @property
    def attempt(self) -> AttemptContext:
        """The attempt that is running."""
        ...

    def check(self) -> None:
        """Raise StopRequested if the handler is to stop, and StaleAttempt if the lease is lost.

        To stop: a cancel was asked for, the time limit or the deadline is over, or the worker ends.
        """
        ...


class JobContext(_JobFacts, Protocol):
    """Given to async handlers."""

    def transaction(self, *, complete: bool = True) -> AbstractAsyncContextManager[JobTransaction]:
        """Open a fenced transaction on a connection of ours; its end commits the writes and the result together.

        With `complete=False` it only requires that the attempt is running.  Raises StaleAttempt,
        AlreadyReported or ResultMissing at its end, rolled back.
        """
        ...

    async def fence(self, *, within: object) -> None:
        """Require, as the last statement of the caller's transaction, that the attempt is running.

        `within` is a psycopg AsyncConnection, an asyncpg Connection, or a SQLAlchemy AsyncSession or AsyncConnection.
        Raises StaleAttempt, AlreadyReported or WrongIsolation, after which the transaction cannot commit.
        """
        ...

    async def complete(self, result: object, *, within: object) -> None:
        """Record the result as the last statement of the caller's transaction; `within` and errors as of `fence`."""
        ...


class SyncJobContext(_JobFacts, Protocol):
    """Given to sync handlers, which run in threads: the same names without await."""

    def transaction(self, *, complete: bool = True) -> AbstractContextManager[SyncJobTransaction]:
        """As `JobContext.transaction`."""
        ...

    def fence(self, *, within: object) -> None:
        """As `JobContext.fence`.

        `within` is a psycopg or psycopg2 connection, a SQLAlchemy Session or Connection, or Django's `connection`.
        """
        ...

    def complete(self, result: object, *, within: object) -> None:
        """As `JobContext.complete`."""
        ...


class JobTransaction(Protocol):
    """A fenced transaction; READ COMMITTED, on psycopg."""

    @property
    def connection(self) -> AsyncConnection[TupleRow]:
        """The connection, for what `execute` does not give; do not commit or roll back on it."""
        ...

    async def execute(self, query: QueryNoTemplate, params: Params | None = None) -> AsyncCursor[TupleRow]:
        """Run one statement."""
        ...

    def complete(self, result: object) -> None:
        """Set the result; it is recorded when the block ends, the job's row locked last."""
        ...


class SyncJobTransaction(Protocol):
    """`JobTransaction` without await."""

    @property
    def connection(self) -> Connection[TupleRow]:
        """As `JobTransaction.connection`."""
        ...

    def execute(self, query: QueryNoTemplate, params: Params | None = None) -> Cursor[TupleRow]:
        """As `JobTransaction.execute`."""
        ...

    def complete(self, result: object) -> None:
        """As `JobTransaction.complete`."""
        ...
