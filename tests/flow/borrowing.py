"""The caller's own transactions, by every driver and toolkit that `within=` takes, as one thing to test.

A `Caller` looks the same for all: those that await are run on an event loop of their own, step by step.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from brokerjobs.effects import transaction as fenced
from tests.flow import djangos
from tests.flow.untyped import asyncpg, django_transaction, psycopg2

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence

    from brokerjobs.client import Client, SyncClient
    from brokerjobs.effects.transaction import Place
    from brokerjobs.job_type import JobType, Submission

SYNC_WAYS = (
    "psycopg",
    "psycopg2",
    "session/psycopg",
    "session/psycopg2",
    "session/pg8000",
    "connection/psycopg",
    "connection/psycopg2",
    "scoped/psycopg2",
    "django",
)
ASYNC_WAYS = (
    "async psycopg",
    "asyncpg",
    "async session/psycopg",
    "async session/asyncpg",
    "async connection/psycopg",
    "async connection/asyncpg",
    "async scoped/asyncpg",
)
WAYS = SYNC_WAYS + ASYNC_WAYS
AUTOCOMMIT = "AUTOCOMMIT"


@dataclass(frozen=True)
class Opened:
    """A transaction of somebody's own; with `AUTOCOMMIT` there is none."""

    within: Any
    run: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


@contextmanager
def opened(way: str, url: str, isolation: str | None = None) -> Generator[Opened]:
    """Opens one of `SYNC_WAYS`; what is not committed is rolled back."""
    autocommit = isolation == AUTOCOMMIT
    level = None if isolation is None or autocommit else psycopg.IsolationLevel[isolation.replace(" ", "_")]
    if way == "psycopg":
        with psycopg.connect(url, autocommit=autocommit) as connection:
            connection.isolation_level = level
            yield Opened(
                connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback
            )
            connection.rollback()
    elif way == "psycopg2":
        older = psycopg2.connect(url)
        older.set_session(isolation_level=isolation if level else None, autocommit=autocommit)
        yield Opened(older, older.cursor().execute, older.commit, older.rollback)
        older.close()
    elif way == "django":
        with djangos.database(url, **({"isolation_level": level} if level else {})) as connection:
            yield from _in_atomic_block(connection, autocommit=autocommit)
    else:
        shape, driver = way.split("/")
        options = {} if isolation is None else {"isolation_level": isolation}
        engine = create_engine(url.replace("postgresql://", f"postgresql+{driver}://"), poolclass=NullPool, **options)
        shapes: dict[str, Callable[[], Any]] = {
            "session": lambda: Session(engine),
            "connection": engine.connect,
            "scoped": lambda: scoped_session(sessionmaker(engine)),
        }
        within = shapes[shape]()
        yield Opened(within, lambda sql: within.execute(text(sql)), within.commit, within.rollback)
        within.close()


def _in_atomic_block(connection: Any, *, autocommit: bool) -> Generator[Opened]:
    """As `with transaction.atomic():`, left by commit or rollback."""
    block = django_transaction.atomic()

    def run(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    def commit() -> None:
        block.__exit__(None, None, None)

    def rollback() -> None:
        django_transaction.set_rollback(True)
        block.__exit__(None, None, None)

    if not autocommit:
        block.__enter__()
    yield Opened(connection, run, commit, rollback)
    if connection.in_atomic_block:
        rollback()


@asynccontextmanager
async def async_opened(way: str, url: str, isolation: str | None = None) -> AsyncGenerator[Opened]:
    """Opens one of `ASYNC_WAYS`."""
    kind = way.removeprefix("async ")
    autocommit = isolation == AUTOCOMMIT
    async with AsyncExitStack() as stack:
        if kind == "psycopg":
            connection = await psycopg.AsyncConnection.connect(url, autocommit=autocommit)
            stack.push_async_callback(connection.close)
            if isolation is not None and not autocommit:
                await connection.set_isolation_level(psycopg.IsolationLevel[isolation.replace(" ", "_")])
            yield Opened(
                connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback
            )
        elif kind == "asyncpg":
            plain: Any = await asyncpg.connect(url)
            stack.push_async_callback(plain.close)
            if autocommit:
                yield Opened(plain, plain.execute, plain.close, plain.close)
                return
            transaction = plain.transaction(
                isolation=None if isolation is None else isolation.lower().replace(" ", "_")
            )
            await transaction.start()
            yield Opened(plain, plain.execute, transaction.commit, transaction.rollback)
        else:
            shape, driver = kind.split("/")
            options = {} if isolation is None else {"isolation_level": isolation}
            engine = create_async_engine(
                url.replace("postgresql://", f"postgresql+{driver}://"), poolclass=NullPool, **options
            )
            shapes: dict[str, Callable[[], Any]] = {
                "session": lambda: AsyncSession(engine),
                "connection": lambda: AsyncConnection(engine),
                "scoped": lambda: async_scoped_session(async_sessionmaker(engine), lambda: None),
            }
            within = shapes[shape]()
            if shape == "connection":
                await within.start()
            stack.push_async_callback(within.close)
            yield Opened(within, lambda sql: within.execute(text(sql)), within.commit, within.rollback)


class Caller(Protocol):
    """Somebody with a transaction of his own open, who submits jobs in it, or whose handler fences it."""

    @property
    def within(self) -> Any:
        """His transaction, as `within=` takes it."""
        ...

    def run(self, statement: str) -> None:
        """Runs a statement of his own."""
        ...

    def commit(self) -> None:
        """Commits."""
        ...

    def rollback(self) -> None:
        """Rolls back."""
        ...

    def submit(self, job_type: JobType[Any, Any], payload: object, **more: Any) -> Any:
        """Submits a job in it, and answers the handle."""
        ...

    def submit_many(self, job_type: JobType[Any, Any], many: Sequence[Submission[Any]]) -> list[Any]:
        """Submits many in it, and answers their handles."""
        ...

    def ask(self, method: Callable[[], Any]) -> Any:
        """Calls a method of a handle."""
        ...

    def fence(self, place: Place) -> None:
        """What `ctx.fence(within=…)` does."""
        ...

    def complete(self, place: Place, result: object) -> None:
        """What `ctx.complete(result, within=…)` does."""
        ...


class SyncCaller:
    """In plain code."""

    def __init__(self, transaction: Opened, client: SyncClient) -> None:
        self.within = transaction.within
        self._transaction = transaction
        self._client = client

    def run(self, statement: str) -> None:
        self._transaction.run(statement)

    def commit(self) -> None:
        self._transaction.commit()

    def rollback(self) -> None:
        self._transaction.rollback()

    def submit(self, job_type: JobType[Any, Any], payload: object, **more: Any) -> Any:
        return self._client.submit(job_type, payload, within=self.within, **more)

    def submit_many(self, job_type: JobType[Any, Any], many: Sequence[Submission[Any]]) -> list[Any]:
        return self._client.submit_many(job_type, many, within=self.within)

    def ask(self, method: Callable[[], Any]) -> Any:
        return method()

    def fence(self, place: Place) -> None:
        fenced.sync_fence(place, within=self.within)

    def complete(self, place: Place, result: object) -> None:
        fenced.sync_complete(place, result, within=self.within)


class AsyncCaller:
    """On an event loop, which runs only while he does something."""

    def __init__(self, transaction: Opened, client: Client, runner: asyncio.Runner) -> None:
        self.within = transaction.within
        self._transaction = transaction
        self._client = client
        self._runner = runner

    def run(self, statement: str) -> None:
        self.ask(lambda: self._transaction.run(statement))

    def commit(self) -> None:
        self.ask(self._transaction.commit)

    def rollback(self) -> None:
        self.ask(self._transaction.rollback)

    def submit(self, job_type: JobType[Any, Any], payload: object, **more: Any) -> Any:
        return self.ask(lambda: self._client.submit(job_type, payload, within=self.within, **more))

    def submit_many(self, job_type: JobType[Any, Any], many: Sequence[Submission[Any]]) -> list[Any]:
        answer: list[Any] = self.ask(lambda: self._client.submit_many(job_type, many, within=self.within))
        return answer

    def ask(self, method: Callable[[], Any]) -> Any:
        async def awaited() -> Any:
            return await method()

        return self._runner.run(awaited())

    def fence(self, place: Place) -> None:
        self.ask(lambda: fenced.fence(place, within=self.within))

    def complete(self, place: Place, result: object) -> None:
        self.ask(lambda: fenced.complete(place, result, within=self.within))


@dataclass(frozen=True)
class Callers:
    """Opens transactions for those who call: their clients are kept between tests."""

    client: SyncClient
    async_client: Client
    runner: asyncio.Runner

    @contextmanager
    def of(self, way: str, url: str, isolation: str | None = None) -> Generator[Caller]:
        """Somebody who calls by one of `WAYS`."""
        if way in SYNC_WAYS:
            with opened(way, url, isolation) as transaction:
                yield SyncCaller(transaction, self.client)
            return
        context = async_opened(way, url, isolation)
        transaction = self.runner.run(context.__aenter__())
        try:
            yield AsyncCaller(transaction, self.async_client, self.runner)
        finally:
            self.runner.run(context.__aexit__(None, None, None))
