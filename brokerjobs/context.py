"""What a handler is given beside its payload; the worker makes it, so these are its shapes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, Required, TypeAlias, TypedDict, TypeVar, Unpack, overload

from brokerjobs.errors import DidNotHappen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from datetime import datetime, timedelta
    from uuid import UUID

    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
    from psycopg.abc import Params, QueryNoTemplate
    from psycopg.rows import TupleRow

    from brokerjobs.artifact_context import JobArtifacts, SyncJobArtifacts

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class EffectOptions(TypedDict, total=False):
    """What is said of an effect beside its name, its call and what that returns."""

    repeatable: Required[bool]
    """May an unknown one be done again, with the same key?"""
    key_valid_for: timedelta | None
    """For how long the outside knows the key, from the first intent on; None, the default: for ever."""
    time_limit: timedelta
    """The call's own, at most the lease; by default half of it."""
    did_not_happen: tuple[type[BaseException], ...]
    """Exceptions of the call that mean what DidNotHappen means."""


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

    @property
    def artifacts(self) -> JobArtifacts:
        """The artifacts of the attempt: `await ctx.artifacts.put(name, source)`."""
        ...

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

    @overload
    async def effect(
        self,
        name: str,
        call: Callable[[str], Awaitable[T] | T],
        *,
        returns: type[T],
        **options: Unpack[EffectOptions],
    ) -> T: ...

    @overload
    async def effect(
        self,
        name: str,
        call: Callable[[], Awaitable[T] | T],
        *,
        returns: type[T],
        **options: Unpack[EffectOptions],
    ) -> T: ...

    @overload
    async def effect(
        self,
        name: str,
        call: Callable[[str], Awaitable[object] | object] | Callable[[], Awaitable[object] | object],
        *,
        returns: None,
        **options: Unpack[EffectOptions],
    ) -> None: ...

    async def effect(
        self, name: str, call: Callable[..., Any], *, returns: Any, **options: Unpack[EffectOptions]
    ) -> Any:
        """Do something outside the ledger once, and answer what it returned, as `returns` says.

        `name` is unique within the job.  `call` is given the key `{job id}/{name}` if it takes a parameter; it may be
        a coroutine function, and raises DidNotHappen if nothing happened.  Any other exception leaves unknown what
        became of it.  An outcome that an earlier attempt recorded is answered without a call.

        Raises StaleAttempt if the lease is lost, EffectUnknown if an earlier attempt may have done what must not be
        repeated, InvalidResult or ResultTooLarge for what `call` returned, and ConfigurationError.
        """
        ...


class SyncJobContext(_JobFacts, Protocol):
    """Given to sync handlers that run in threads: the same names without await."""

    @property
    def artifacts(self) -> SyncJobArtifacts:
        """As `JobContext.artifacts`, without await."""
        ...

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

    @overload
    def effect(
        self,
        name: str,
        call: Callable[[str], T],
        *,
        returns: type[T],
        **options: Unpack[EffectOptions],
    ) -> T: ...

    @overload
    def effect(
        self,
        name: str,
        call: Callable[[], T],
        *,
        returns: type[T],
        **options: Unpack[EffectOptions],
    ) -> T: ...

    @overload
    def effect(
        self,
        name: str,
        call: Callable[[str], object] | Callable[[], object],
        *,
        returns: None,
        **options: Unpack[EffectOptions],
    ) -> None: ...

    def effect(self, name: str, call: Callable[..., Any], *, returns: Any, **options: Unpack[EffectOptions]) -> Any:
        """As `JobContext.effect`, with a plain function, which cannot be stopped at its time limit."""
        ...


class ProcessJobContext(_JobFacts, Protocol):
    """Given to handlers with `pool="process"`: facts, `check()` and artifacts.

    Transactions, fences and effects are the worker's, whose connections a process does not have.
    """

    @property
    def artifacts(self) -> SyncJobArtifacts:
        """As `SyncJobContext.artifacts`; the upload is made by the process itself."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEffect:
    """An effect of which it is unknown whether it happened; times are the ledger's, aware, in UTC."""

    name: str
    key: str
    """The idempotency key that its call was given."""
    repeatable: bool
    intended_at: datetime
    """The first permission to do it."""
    acts_until: datetime
    """The end of the last call's time limit: "it did not happen" is believed only after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewContext:
    """Given to reconcilers: a job in review, and what is unknown of it."""

    review_id: UUID
    job_id: UUID
    key: str | None
    tags: Mapping[str, str]
    submitted_by: str
    cause: str
    opened_at: datetime
    asked: int
    """The how manyth time a reconciler is asked about this review: 1, 2, 3 and so on."""
    effects: tuple[OpenEffect, ...]


@dataclass(frozen=True, slots=True)
class Happened(Generic[R_co]):
    """A reconciler found out that it happened: the job succeeds with `result`, and `reference` says what proves it."""

    result: R_co
    reference: str


@dataclass(frozen=True, slots=True)
class StillUnknown:
    """A reconciler could not find out; it is asked again later."""

    why: str = ""


Finding: TypeAlias = Happened[R_co] | DidNotHappen | StillUnknown
