"""Connections lent to handlers for their fenced transactions: on demand, bounded, closed when idle.

A waiting handler renews its lease meanwhile, so the wait for a connection is bounded by its time limit alone.
"""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg import Error, IsolationLevel
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from brokerjobs.errors import LedgerUnavailable, StaleAttempt
from brokerjobs.ledger.database import unavailable
from brokerjobs.ledger.pooler import prepare_only_at_server, prepare_only_at_server_sync
from brokerjobs.ledger.raised import raised_by_ledger

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence
    from uuid import UUID

    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
    from psycopg.abc import Params, QueryNoTemplate
    from psycopg.rows import TupleRow

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.database import ConnectOptions

_WAIT_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 60.0


class _Opened:
    """A user's fenced transaction on a connection of ours: holds the result until its end."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self.given = False
        self.value: object = None

    def complete(self, result: object) -> None:
        """Sets the result; the end of the block records it, with the job's row locked last."""
        self.given = True
        self.value = result

    def _params(self, extra: Sequence[Any]) -> list[Any]:
        return [*_names(self._holding), *extra]


class Transaction(_Opened):
    """For async handlers."""

    def __init__(self, holding: Holding, connection: AsyncConnection[TupleRow]) -> None:
        super().__init__(holding)
        self.connection = connection

    async def execute(self, query: QueryNoTemplate, params: Params | None = None) -> AsyncCursor[TupleRow]:
        """Runs one statement."""
        return await self.connection.execute(query, params)

    async def end(self, statement: LiteralString, extra: Sequence[Any]) -> None:
        """Runs the last statement: `fence_v1` or `complete_v1`."""
        await self.connection.execute(statement, self._params(extra))


class SyncTransaction(_Opened):
    """For handlers in threads."""

    def __init__(self, holding: Holding, connection: Connection[TupleRow]) -> None:
        super().__init__(holding)
        self.connection = connection

    def execute(self, query: QueryNoTemplate, params: Params | None = None) -> Cursor[TupleRow]:
        """Runs one statement."""
        return self.connection.execute(query, params)

    def end(self, statement: LiteralString, extra: Sequence[Any]) -> None:
        """Runs the last statement: `fence_v1` or `complete_v1`."""
        self.connection.execute(statement, self._params(extra))


class Lending:
    """Two pools that start empty: one for async handlers, one for those in threads."""

    def __init__(self, options: ConnectOptions, *, limit: int) -> None:
        arguments = options.arguments() | {"autocommit": False}
        shape: dict[str, Any] = {
            "conninfo": arguments.pop("conninfo"),
            "kwargs": arguments,
            "min_size": 0,
            "max_size": limit,
            "open": False,
            "timeout": _WAIT_SECONDS,
            "max_idle": _IDLE_SECONDS,
            "name": "brokerjobs-handlers",
        }
        self._async: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            configure=prepare_only_at_server, **shape
        )
        self._sync: ConnectionPool[Connection[Any]] = ConnectionPool(configure=prepare_only_at_server_sync, **shape)
        self._opening = threading.Lock()

    @asynccontextmanager
    async def transaction(self, holding: Holding, *, running: bool) -> AsyncGenerator[Transaction]:
        """Lends a connection for one READ COMMITTED transaction, unless the attempt has lost its place.

        Raises LedgerUnavailable if none can be had or the COMMIT got no answer, and what the ledger raised inside;
        the user's own errors pass as they are.
        """
        await self._async.open()
        try:
            async with self._async.connection() as connection:
                await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
                async with connection.transaction():
                    cursor = await connection.execute(_STANDING, [*_names(holding), running])
                    _check_standing(holding, await cursor.fetchone())
                    yield Transaction(holding, connection)
        except PoolTimeout as error:
            raise LedgerUnavailable(_NONE_FREE) from error
        except Error as error:
            raise _ours(error, holding) or error from error

    @contextmanager
    def sync_transaction(self, holding: Holding, *, running: bool) -> Generator[SyncTransaction]:
        """As `transaction`, for a thread."""
        with self._opening:
            self._sync.open()
        try:
            with self._sync.connection() as connection:
                connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
                with connection.transaction():
                    _check_standing(holding, connection.execute(_STANDING, [*_names(holding), running]).fetchone())
                    yield SyncTransaction(holding, connection)
        except PoolTimeout as error:
            raise LedgerUnavailable(_NONE_FREE) from error
        except Error as error:
            raise _ours(error, holding) or error from error

    async def close(self) -> None:
        """Closes both pools; lent connections are closed when they come back."""
        await self._async.close()
        self._sync.close(timeout=1.0)


_NONE_FREE = (
    f"no connection to the ledger for this handler within {_WAIT_SECONDS:.0f} s; "
    "PostgreSQL is away or out of connections"
)


def _ours(error: Error, holding: Holding) -> Exception | None:
    """Our error behind the driver's; None for the user's own."""
    return raised_by_ledger(error, *_names(holding)) or unavailable(error)


_STANDING: Final = "select brokerjobs.standing(%s, %s, %s, %s)"


def _check_standing(holding: Holding, row: TupleRow | None) -> None:
    """Fails early, without a lock: the last statement decides."""
    if row is None or not row[0]:
        job_id, attempt_id, number = _names(holding)
        raise StaleAttempt(job_id=job_id, attempt_id=attempt_id, fencing_number=number, reason="superseded")


def _names(holding: Holding) -> tuple[UUID, UUID, int]:
    return holding.job_id, holding.attempt_id, holding.fencing_number
