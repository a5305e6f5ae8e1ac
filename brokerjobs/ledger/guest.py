"""Runs ledger functions on a user's own transaction, whatever driver or toolkit carries it.

One door for `client` (submit within=) and `effects` (fence and complete within=): psycopg async connections, SQLAlchemy
AsyncSession and AsyncConnection over psycopg or asyncpg.  SQLAlchemy is recognised by its module, never imported here.
"""

from __future__ import annotations

import itertools
import re
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import psycopg
from psycopg.rows import tuple_row

from brokerjobs.errors import ConfigurationError
from brokerjobs.ledger.database import Query, raised_by_ledger

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import TypeVar

    from brokerjobs.ledger.calls import Holding

    Row = TypeVar("Row")


@runtime_checkable
class Guest(Protocol):
    """A user's open transaction: runs statements of ours in it."""

    async def rows(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement (placeholders `%s`) and answers its rows."""
        ...

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        """A part of the transaction that an error undoes alone."""
        ...


class _Psycopg:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def rows(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._require_transaction()
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(cast("Any", sql), params)
            return await cursor.fetchall()

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        self._require_transaction()
        if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            await self._connection.execute("select 1")  # begins it; else the block would be all of it, and commit
        async with self._connection.transaction():
            yield

    def _require_transaction(self) -> None:
        status = self._connection.info.transaction_status
        if self._connection.autocommit and status == psycopg.pq.TransactionStatus.IDLE:
            message = (
                "within= was given a psycopg connection in autocommit outside a transaction; "
                "open one with `async with connection.transaction():`"
            )
            raise ConfigurationError(message)


class _SQLAlchemy:
    """AsyncSession or AsyncConnection, which begin a transaction by themselves unless they are in AUTOCOMMIT."""

    def __init__(self, within: Any) -> None:
        self._within = within

    async def rows(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        from sqlalchemy import text  # noqa: PLC0415  # optional: whoever gives us its session has it

        named = text(_named(sql))
        result = await (await self._connection()).execute(named, {f"p{i}": value for i, value in enumerate(params)})
        return [tuple(row) for row in result.all()]

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        async with (await self._connection()).begin_nested():
            yield

    async def _connection(self) -> Any:
        connection = self._within
        if hasattr(self._within, "flush"):
            await self._within.flush()  # its rows come first, also with autoflush off
            connection = await self._within.connection()
        raw = await connection.get_raw_connection()
        if getattr(raw.dbapi_connection, "autocommit", False):
            message = "within= was given a SQLAlchemy connection in AUTOCOMMIT; give one with a transaction"
            raise ConfigurationError(message)
        return connection


@cache
def _named(sql: str) -> str:
    """`%s::type` becomes `CAST(:p0 AS type)`: SQLAlchemy reads `::` after a name as part of it; asyncpg needs types."""
    numbers = itertools.count()

    def named(match: re.Match[str]) -> str:
        name = f":p{next(numbers)}"
        return f"CAST({name} AS {match.group(1)})" if match.group(1) else name

    return re.sub(r"%s(?:::([a-z ]+(?:\[\])?))?", named, sql)


def guest(within: object) -> Guest:
    """The door to the transaction given with `within=`; raises ConfigurationError for what is not one we know."""
    if isinstance(within, psycopg.AsyncConnection):
        return _Psycopg(cast("Any", within))
    if any(cls.__module__.startswith("sqlalchemy.") and cls.__name__ in _SQLALCHEMY for cls in type(within).__mro__):
        return _SQLAlchemy(within)
    message = (
        f"within= was given a {type(within).__module__}.{type(within).__qualname__}; it takes a psycopg "
        "AsyncConnection, or a SQLAlchemy AsyncSession or AsyncConnection, with its transaction open"
    )
    raise ConfigurationError(message)


_SQLALCHEMY = {"AsyncSession", "AsyncConnection"}


async def fetch_within(within: object, query: Query[Row]) -> list[Row]:
    """Runs a query of ours in the user's transaction; driver errors pass through, the transaction is theirs."""
    rows = await guest(within).rows(query.sql, query.params)
    return [query.row(*row) for row in rows]


async def hold_within(within: object, holding: Holding, sql: str, extra: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Runs `fence_v1` or `complete_v1` in the user's transaction.

    Raises WrongIsolation, AlreadyReported or StaleAttempt, after which the transaction cannot commit.
    """
    params = [holding.job_id, holding.attempt_id, holding.fencing_number, *extra]
    try:
        return await guest(within).rows(sql, params)
    except Exception as error:
        ours = raised_by_ledger(error, holding.job_id, holding.attempt_id, holding.fencing_number)
        if ours is not None:
            raise ours from error
        raise


def hold_within_sync(within: object, holding: Holding, sql: str, extra: Sequence[Any] = ()) -> None:
    """As `hold_within`, on a psycopg Connection with its transaction open, for handlers in threads."""
    if not isinstance(within, psycopg.Connection):
        message = f"within= was given a {type(within).__qualname__}; in a sync handler it takes a psycopg Connection"
        raise ConfigurationError(message)
    connection: psycopg.Connection[Any] = cast("Any", within)
    try:
        connection.execute(cast("Any", sql), [holding.job_id, holding.attempt_id, holding.fencing_number, *extra])
    except psycopg.Error as error:
        ours = raised_by_ledger(error, holding.job_id, holding.attempt_id, holding.fencing_number)
        if ours is not None:
            raise ours from error
        raise


FENCE = "select brokerjobs.fence_v1(%s::uuid, %s::uuid, %s::bigint)"
COMPLETE = "select brokerjobs.complete_v1(%s::uuid, %s::uuid, %s::bigint, %s::text::jsonb, %s::timestamptz)"
