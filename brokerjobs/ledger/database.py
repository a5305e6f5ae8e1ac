"""Connections to the ledger that are made again after they broke, and driver errors translated in one place.

Connections are in autocommit: every ledger function is one statement and one transaction, which also works through
PgBouncer in transaction mode (`pooler`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, LiteralString, Protocol, TypeVar, cast

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import args_row
from tenacity import AsyncRetrying, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from brokerjobs.errors import (
    BrokerjobsError,
    ConfigurationError,
    LedgerUnavailable,
    LoginRefused,
    PermissionDenied,
    SchemaMismatch,
)
from brokerjobs.ledger.measured import measured
from brokerjobs.ledger.patient import CancellableConnection, PatientConnection
from brokerjobs.ledger.pooler import prepare_only_at_server, prepare_only_at_server_sync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

log = logging.getLogger("brokerjobs.ledger")
Row = TypeVar("Row")
Answer = TypeVar("Answer")

CONNECT_TIMEOUT_SECONDS = 5
_ENDS = (pg.SerializationFailure, pg.DeadlockDetected)  # 40001, 40P01: the whole statement may be made again
_REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    UnicodeEncodeError,  # half a character: the driver cannot even send it
    # Class 54: a value too deep or too large for the server, which asking again does not change. To the driver these
    # are OperationalErrors, like a server that is away.
    pg.ProgramLimitExceeded,
    pg.StatementTooComplex,
)
_GONE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.IdleInTransactionSessionTimeout,
)
# A connection that PostgreSQL refuses has no SQLSTATE (libpq), only words.
_LOGIN_REFUSED = re.compile(
    r"authentication failed for user|no pg_hba\.conf entry|"
    r'role "[^"]*" does not exist|is not permitted to log in|permission denied for database|no password supplied'
)


@dataclass(frozen=True, slots=True)
class Query(Generic[Row]):
    """One statement, its parameters, and the record that each row becomes."""

    sql: LiteralString
    params: Sequence[Any]
    row: Callable[..., Row]


class DataRefused(BrokerjobsError):
    """PostgreSQL refused a value (class 22, 23 or 54): one row of the batch is bad, none was recorded."""


@contextmanager
def translated() -> Generator[None]:
    """Turns driver errors into ours. A statement that may have committed raises LedgerUnavailable (rule R7)."""
    try:
        yield
    except pg.InsufficientPrivilege as error:
        message = f"the database login may not do this: {first_line(error)}; `brokerjobs setup --grant` gives roles"
        raise PermissionDenied(message) from error
    except (pg.UndefinedFunction, pg.InvalidSchemaName, pg.UndefinedTable) as error:
        message = f"the ledger's schema is missing or too old ({first_line(error)})"
        raise SchemaMismatch(message, command="brokerjobs setup") from error
    except _REFUSED as error:
        raise DataRefused(first_line(error)) from error
    except _GONE as error:
        raise (unavailable(error) or error) from error
    except psycopg.DatabaseError as error:
        if error.sqlstate != "BJ001":
            raise
        message = (
            f"{first_line(error)}: by default_transaction_isolation of the database or the login; "
            "`ALTER ROLE <login> SET default_transaction_isolation = 'read committed'`"
        )
        raise ConfigurationError(message) from error


def check_url(url: str) -> None:
    """Raises ConfigurationError for what libpq cannot read; not its reason, which could have a part of the password."""
    try:
        ports = conninfo_to_dict(url).get("port")
    except psycopg.ProgrammingError:
        ports = "unreadable"
    if not all(port.isdecimal() for port in str(ports or 0).split(",") if port):
        message = "the database URL is not of the form postgresql://user:password@host:port/database"
        raise ConfigurationError(message)


def unavailable(error: psycopg.Error) -> LedgerUnavailable | None:
    """Our error if the driver's says that the server gave no answer; None if it says anything else."""
    if not isinstance(error, _GONE):
        return None
    refused = next((line for line in str(error).splitlines() if _LOGIN_REFUSED.search(line)), None)
    if refused is not None or isinstance(error, (pg.InvalidPassword, pg.InvalidAuthorizationSpecification)):
        refused = first_line(error) if refused is None else refused
        message = f"the ledger (PostgreSQL) refused the login: {refused.strip()}; check user, password and pg_hba.conf"
        return LoginRefused(message)
    message = f"the ledger (PostgreSQL) gave no answer: {first_line(error)}; the same call may be made again"
    return LedgerUnavailable(message)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Fetch(Protocol):
    """Runs one statement of a transaction."""

    async def __call__(self, query: Query[Row], /) -> list[Row]:
        """Runs it."""
        ...


class SyncFetch(Protocol):
    """The same in a thread."""

    def __call__(self, query: Query[Row], /) -> list[Row]:
        """Runs it."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """How connections are made."""

    url: str = field(repr=False)  # it has a password
    application: str = "brokerjobs"

    def __post_init__(self) -> None:
        check_url(self.url)

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of psycopg's connect; TCP keepalives so that a dead peer is noticed within a minute."""
        return {
            "conninfo": self.url,
            "autocommit": True,
            "prepare_threshold": None,  # until `pooler` has looked at it
            "connect_timeout": CONNECT_TIMEOUT_SECONDS,
            "application_name": self.application,
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        }


class AsyncLedgerConnection:
    """One permanent connection, used by one caller at a time; made on first use and again after it broke."""

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self._connection: psycopg.AsyncConnection | None = None
        self._lock = asyncio.Lock()

    async def fetch(self, query: Query[Row]) -> list[Row]:
        """Runs one statement. Raises LedgerUnavailable, PermissionDenied, SchemaMismatch, DataRefused."""
        with measured(query.sql):
            return await self._answered(lambda: self._run(query))

    async def in_transaction(self, work: Callable[[Fetch], Awaitable[Answer]]) -> Answer:
        """Runs `work` in one transaction, from its start again after 40001 and 40P01; an error in it rolls back."""

        async def whole() -> Answer:
            async with (await self._connected()).transaction():
                return await work(self._run)

        return await self._answered(whole)

    async def _answered(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        async with self._lock:
            try:
                with translated():
                    try:
                        return await ask()
                    except _ENDS:  # setting tenacity up for nothing takes longer than to send a statement (measured)
                        async for attempt in AsyncRetrying(**_RETRY):
                            with attempt:
                                return await ask()
            except (LedgerUnavailable, asyncio.CancelledError):
                # A cancelled or unanswered statement leaves the connection in an unknown state: drop it.
                await self._drop()
                raise
            raise AssertionError("unreachable: tenacity re-raises")

    async def _run(self, query: Query[Row]) -> list[Row]:
        async with (await self._connected()).cursor(row_factory=args_row(query.row)) as cursor:
            await cursor.execute(query.sql, query.params)
            return await cursor.fetchall()

    async def _connected(self) -> psycopg.AsyncConnection:
        if self._connection is None or self._connection.closed:
            self._connection = await CancellableConnection.connect(**self._options.arguments())
            await prepare_only_at_server(self._connection)
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        """Closes the connection; a later call makes a new one."""
        async with self._lock:
            await self._drop()


class LedgerConnection:
    """The same for a thread of its own, and for commands; a statement may take `answer_seconds`."""

    def __init__(self, options: ConnectOptions, *, answer_seconds: float = math.inf) -> None:
        self._options = options
        self._answer_seconds = answer_seconds
        self._connection: PatientConnection | None = None

    def fetch(self, query: Query[Row]) -> list[Row]:
        """Runs one statement. Raises LedgerUnavailable, PermissionDenied, SchemaMismatch, DataRefused."""
        with measured(query.sql):
            return self._answered(lambda: self._run(query))

    def in_transaction(self, work: Callable[[SyncFetch], Answer]) -> Answer:
        """Runs `work` in one transaction, from its start again after 40001 and 40P01; an error in it rolls back."""

        def whole() -> Answer:
            with self._connected().transaction():
                return work(self._run)

        return self._answered(whole)

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        try:
            with translated():
                for attempt in Retrying(**_RETRY):
                    with attempt:
                        return ask()
        except LedgerUnavailable:
            self.close()
            raise
        raise AssertionError("unreachable: tenacity re-raises")

    def _run(self, query: Query[Row]) -> list[Row]:
        with self._connected().cursor(row_factory=args_row(query.row)) as cursor:
            cursor.execute(query.sql, query.params)
            return cursor.fetchall()

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = PatientConnection.connect(**self._options.arguments())
            self._connection.answer_seconds = self._answer_seconds
            prepare_only_at_server_sync(self._connection)
        return self._connection

    def hurry(self, answer_seconds: float) -> None:
        """Waits no longer for any answer from now on, nor for the one that another thread waits for."""
        self._answer_seconds = answer_seconds
        if (connection := self._connection) is not None:
            connection.answer_seconds = answer_seconds

    def close(self) -> None:
        """Closes the connection; a later call makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_RETRY = cast(
    "dict[str, Any]",
    {
        "retry": retry_if_exception_type(_ENDS),
        "wait": wait_random_exponential(multiplier=0.01, max=0.5),
        "stop": stop_after_attempt(6),
        "reraise": True,
    },
)
