"""A user's own transactions in threads: psycopg, psycopg2, SQLAlchemy over any PostgreSQL driver, and Django.

Each says what to do if there is no transaction: what we wrote would be committed at once, and apart from the user's
own rows.  No toolkit is imported here that the user's object has not brought with it.
"""

from __future__ import annotations

import itertools
import re
import sys
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, LiteralString, Protocol, cast

import psycopg
from psycopg.rows import tuple_row

from brokerjobs.errors import ConfigurationError
from brokerjobs.ledger.raised import ledger_needed

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_IDLE: Final = psycopg.pq.TransactionStatus.IDLE  # the same number in psycopg2


class SyncGuest(Protocol):
    """A user's open transaction: runs statements of ours in it."""

    def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement (placeholders `%s`) and answers its rows."""
        ...

    def savepoint(self) -> AbstractContextManager[object]:
        """A part of the transaction that an error undoes alone."""
        ...


class Psycopg:
    """A psycopg Connection."""

    def __init__(self, connection: Any) -> None:
        self._connection: psycopg.Connection[Any] = connection

    def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement, whatever cursors and rows the user's connection makes."""
        require_transaction(self._connection, "with")
        with ledger_needed(), psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor:
            return cursor.execute(sql, params).fetchall()

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Opens one."""
        require_transaction(self._connection, "with")
        if self._connection.info.transaction_status == _IDLE:
            self._connection.execute("select 1")  # begins it; else the block would be all of it, and commit
        with self._connection.transaction():
            yield


def require_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], keyword: str) -> None:
    """Raises ConfigurationError for a psycopg connection outside a transaction that would not begin one."""
    if connection.autocommit and connection.info.transaction_status == _IDLE:
        message = (
            "within= was given a psycopg connection in autocommit outside a transaction; "
            f"open one with `{keyword} connection.transaction():`"
        )
        raise ConfigurationError(message)


class Psycopg2:
    """A psycopg2 connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement, whatever cursors the user's connection makes."""
        if self._connection.autocommit and self._connection.get_transaction_status() == _IDLE:
            message = (
                "within= was given a psycopg2 connection in autocommit outside a transaction; "
                "set `connection.autocommit = False`, and commit afterwards"
            )
            raise ConfigurationError(message)
        plain = sys.modules["psycopg2.extensions"].cursor
        with ledger_needed(), self._connection.cursor(cursor_factory=plain) as cursor:
            cursor.execute(sql, params)
            return cast("list[tuple[Any, ...]]", cursor.fetchall() if cursor.description else [])

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Opens one."""
        self.rows("savepoint brokerjobs", [])
        try:
            yield
        except BaseException:
            self.rows("rollback to savepoint brokerjobs", [])
            self.rows("release savepoint brokerjobs", [])
            raise
        self.rows("release savepoint brokerjobs", [])


class SQLAlchemy:
    """A Session or Connection, which begin a transaction by themselves unless they are in AUTOCOMMIT."""

    def __init__(self, within: Any) -> None:
        self._within = within

    def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement after the session's own."""
        from sqlalchemy import text  # noqa: PLC0415  # optional: whoever gives us its session has it

        connection = self.connection()
        with ledger_needed():
            result = connection.execute(text(_named(sql)), {f"p{i}": value for i, value in enumerate(params)})
            return [tuple(row) for row in result.all()]

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Opens one."""
        with self.connection().begin_nested():
            yield

    def connection(self) -> Any:
        """The connection of the transaction, after what the session has to write."""
        connection = self._within
        if hasattr(connection, "flush"):
            connection.flush()  # its rows come first, also with autoflush off
            connection = connection.connection()
        if (name := connection.dialect.name) != "postgresql":
            message = f"within= was given a SQLAlchemy transaction of {name}; the ledger is in PostgreSQL"
            raise ConfigurationError(message)
        if getattr(connection.connection.dbapi_connection, "autocommit", False):
            message = (
                "within= was given a SQLAlchemy connection in AUTOCOMMIT; give one with a transaction, such as "
                '`engine.execution_options(isolation_level="READ COMMITTED")`'
            )
            raise ConfigurationError(message)
        return connection


def scoped_session(registry: Any) -> SQLAlchemy:
    """The session of this thread, from a registry such as Flask-SQLAlchemy's `db.session`."""
    return SQLAlchemy(registry())


class Django:
    """A connection of Django's, in an `atomic` block or with autocommit off."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, sql: LiteralString, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement; after an error the block can only be rolled back, as after one of Django's own."""
        self._require_transaction()
        try:
            with ledger_needed(), self._connection.cursor() as cursor:
                cursor.execute(sql, params)
                return cast("list[tuple[Any, ...]]", cursor.fetchall())
        except Exception:
            if self._connection.in_atomic_block:
                self._connection.set_rollback(True)
            raise

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Opens one."""
        self._require_transaction()
        name = self._connection.savepoint()
        try:
            yield
        except BaseException:
            if not self._connection.needs_rollback:
                self._connection.savepoint_rollback(name)
            raise
        self._connection.savepoint_commit(name)

    def _require_transaction(self) -> None:
        vendor = getattr(self._connection, "vendor", "something else than a database")
        if vendor != "postgresql":
            raise ConfigurationError(f"within= was given a Django connection to {vendor}; the ledger is in PostgreSQL")
        if not self._connection.in_atomic_block and self._connection.get_autocommit():
            alias = self._connection.alias
            block = "transaction.atomic()" if alias == "default" else f"transaction.atomic(using={alias!r})"
            message = (
                f"within= was given Django's connection {alias!r} outside a transaction; open one with `with {block}:`"
            )
            raise ConfigurationError(message)


@cache
def _named(sql: LiteralString) -> str:
    """`%s::type` becomes `CAST(:p0 AS type)`: SQLAlchemy reads `::` after a name as part of it; asyncpg needs types."""
    numbers = itertools.count()

    def named(match: re.Match[str]) -> str:
        name = f":p{next(numbers)}"
        return f"CAST({name} AS {match.group(1)})" if match.group(1) else name

    return re.sub(r"%s(?:::([a-z ]+(?:\[\])?))?", named, sql)
