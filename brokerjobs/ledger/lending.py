"""Connections lent to handlers for their fenced transactions: on demand, bounded, closed when idle.

A waiting handler renews its lease meanwhile, so the wait for a connection is bounded by its time limit alone.
"""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from brokerjobs.errors import LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    import psycopg

    from brokerjobs.ledger.database import ConnectOptions

_WAIT_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 60.0


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
        self._async: AsyncConnectionPool[psycopg.AsyncConnection[Any]] = AsyncConnectionPool(**shape)
        self._sync: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(**shape)
        self._opening = threading.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
        """Lends an async connection; raises LedgerUnavailable if none can be had."""
        await self._async.open()
        try:
            connection = await self._async.getconn()
        except PoolTimeout as error:
            raise LedgerUnavailable(_NONE_FREE) from error
        try:
            yield connection
        finally:
            await self._async.putconn(connection)

    @contextmanager
    def sync_connection(self) -> Generator[psycopg.Connection[Any]]:
        """Lends a connection to a thread; raises LedgerUnavailable if none can be had."""
        with self._opening:
            self._sync.open()
        try:
            connection = self._sync.getconn()
        except PoolTimeout as error:
            raise LedgerUnavailable(_NONE_FREE) from error
        try:
            yield connection
        finally:
            self._sync.putconn(connection)

    async def close(self) -> None:
        """Closes both pools; lent connections are closed when they come back."""
        await self._async.close()
        self._sync.close(timeout=1.0)


_NONE_FREE = (
    f"no connection to the ledger for this handler within {_WAIT_SECONDS:.0f} s; "
    "PostgreSQL is away or out of connections"
)
