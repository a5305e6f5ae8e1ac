"""Connections that do not wait for their server for ever.

A coroutine can be cancelled by whoever waits for it, a thread cannot: a server that is stopped, or a line that swallows
packets, would hold it up without a bound.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import waiting
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from collections.abc import Generator

    from psycopg.abc import PQGen

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.1  # as psycopg's own; `wait_async` by itself has 0, which never lets the event loop rest


class PatientConnection(psycopg.Connection[TupleRow]):
    """Closes itself and raises OperationalError if a statement has had no answer for `answer_seconds`."""

    answer_seconds: float = math.inf

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Waits as psycopg does, which looks up every tenth of a second."""
        return super().wait(self._until(gen, time.monotonic()), *args, **options)

    def _until(self, gen: PQGen[T], began: float) -> Generator[Any, Any, T]:
        ready: Any = None
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as answered:
                answer: T = answered.value
                return answer
            ready = yield wanted
            if not ready and time.monotonic() > began + self.answer_seconds:  # which another thread may shorten
                # In the middle of a statement: whatever runs next on this connection would wait for the same answer.
                self.close()
                message = f"the server has not answered within {self.answer_seconds:g} s"
                raise psycopg.OperationalError(message)


class CancellableConnection(psycopg.AsyncConnection[TupleRow]):
    """Ends with the cancellation of a statement, at once: psycopg waits ten seconds for what the server says to it."""

    async def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Waits as psycopg does."""
        if not args:
            options.setdefault("interval", _LOOK_SECONDS)
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, *args, **options)
        except asyncio.CancelledError:
            self.pgconn.finish()
            raise
