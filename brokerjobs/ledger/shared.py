"""Connections to the ledger that threads share: each takes one for a statement or a transaction, and gives it back."""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from brokerjobs.errors import BrokerjobsError, ConfigurationError, LedgerUnavailable
from brokerjobs.ledger.database import LedgerConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from brokerjobs.ledger.database import ConnectOptions, Query, SyncFetch

Row = TypeVar("Row")
Answer = TypeVar("Answer")

CLOSED: Final = "the client is closed; make another one, or use it inside its `with` block"


class SharedConnections:
    """At most `limit` connections, made when they are needed; the one used last is taken first.

    A thread waits `patience_seconds` for one of them, and `answer_seconds` for what the server says to a statement.
    """

    def __init__(
        self, options: ConnectOptions, *, limit: int, patience_seconds: float, answer_seconds: float = math.inf
    ) -> None:
        self._options = options
        self._answer_seconds = answer_seconds
        self._limit = limit
        self._patience_seconds = patience_seconds
        self._places = threading.BoundedSemaphore(limit)
        self._guard = threading.Lock()
        self._idle: list[LedgerConnection] = []
        self._closed = False

    def fetch(self, query: Query[Row], /) -> list[Row]:
        """Runs one statement. Raises as `LedgerConnection.fetch`, and LedgerUnavailable if all are long in use."""
        with self._lent() as connection:
            return connection.fetch(query)

    def in_transaction(self, work: Callable[[SyncFetch], Answer]) -> Answer:
        """Runs `work` in one transaction, as `LedgerConnection.in_transaction`."""
        with self._lent() as connection:
            return connection.in_transaction(work)

    def close(self) -> None:
        """Closes all; those in use when they are given back."""
        with self._guard:
            self._closed = True
        self._close_idle()

    @contextmanager
    def _lent(self) -> Generator[LedgerConnection]:
        if not self._places.acquire(timeout=self._patience_seconds):
            busy = f"all {self._limit} connections to the ledger are in use"
            raise LedgerUnavailable(f"{busy}; the same call may be made again")
        try:
            connection = self._taken()
            try:
                yield connection
            except LedgerUnavailable:
                self._close_idle()  # those that were idle are hardly better
                raise
            except BrokerjobsError:
                raise
            except BaseException:
                connection.close()  # interrupted in the middle: in an unknown state
                raise
            finally:
                self._give_back(connection)
        finally:
            self._places.release()

    def _taken(self) -> LedgerConnection:
        with self._guard:
            if self._closed:
                raise ConfigurationError(CLOSED)
            if self._idle:
                return self._idle.pop()
            return LedgerConnection(self._options, answer_seconds=self._answer_seconds)

    def _give_back(self, connection: LedgerConnection) -> None:
        with self._guard:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _close_idle(self) -> None:
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
