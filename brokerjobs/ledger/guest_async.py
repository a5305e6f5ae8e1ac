"""A user's own transactions in coroutines: psycopg, asyncpg, and SQLAlchemy over any async PostgreSQL driver."""

from __future__ import annotations

import itertools
import re
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, Protocol, cast

import psycopg
from psycopg.rows import tuple_row

from brokerjobs.errors import ConfigurationError
from brokerjobs.ledger import guest_sync
from brokerjobs.ledger.raised import ledger_needed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence


class Guest(Protocol):
    """A user's open transaction: runs statements of ours in it."""

    async def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement (placeholders `%s`) and answers its rows."""
        ...

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        """A part of the transaction that an error undoes alone."""
        ...


class Psycopg:
    """A psycopg AsyncConnection."""

    def __init__(self, connection: Any) -> None:
        self._connection: psycopg.AsyncConnection[Any] = connection

    async def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement, whatever cursors and rows the user's connection makes."""
        guest_sync.require_transaction(self._connection, "async with")
        with ledger_needed():
            async with psycopg.AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
                await cursor.execute(sql, params)
                return await cursor.fetchall()

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """Opens one."""
        guest_sync.require_transaction(self._connection, "async with")
        if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            await self._connection.execute("select 1")  # begins it; else the block would be all of it, and commit
        async with self._connection.transaction():
            yield


class SQLAlchemy:
    """An AsyncSession or AsyncConnection: the sync guest, run where SQLAlchemy itself runs sync code."""

    def __init__(self, within: Any) -> None:
        self._within = within

    async def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement after the session's own."""
        return cast("list[tuple[Any, ...]]", await self._within.run_sync(_rows, sql, params))

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """Opens one."""
        await self._within.run_sync(_checked)
        is_session = hasattr(self._within, "flush")
        async with (await self._within.connection() if is_session else self._within).begin_nested():
            yield


def _rows(within: Any, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    return guest_sync.SQLAlchemy(within).rows(sql, params)


def _checked(within: Any) -> None:
    guest_sync.SQLAlchemy(within).connection()


def scoped_session(registry: Any) -> SQLAlchemy:
    """The session of this task, from a registry."""
    return SQLAlchemy(registry())


class Asyncpg:
    """An asyncpg connection, also one that a pool has lent."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement."""
        self._require_transaction()
        with ledger_needed():
            return [tuple(row) for row in await self._connection.fetch(_numbered(sql), *params)]

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """Opens one."""
        self._require_transaction()
        async with self._connection.transaction():
            yield

    def _require_transaction(self) -> None:
        if not self._connection.is_in_transaction():
            message = (
                "within= was given an asyncpg connection outside a transaction; "
                "open one with `async with connection.transaction():`"
            )
            raise ConfigurationError(message)


@cache
def _numbered(sql: LiteralString) -> str:
    """`%s` becomes `$1`, `$2` and so on."""
    numbers = itertools.count(1)
    return re.sub(r"%s", lambda _: f"${next(numbers)}", sql)
