"""The context in which the libraries run for us: apart from their callers, and apart from other users of the libraries.

aiormq starts tasks that live as long as a connection.  They keep the context of whoever came first, so ours are started
in an empty one: no trace and no variable of a caller lives on in them.  And they have a mark, by which what we change
about the libraries is changed for our connections alone.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, TypeVar

from brokerjobs.telemetry.attaching import suppressed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

T = TypeVar("T")

_ours: ContextVar[bool] = ContextVar("brokerjobs_ours", default=False)


def is_ours() -> bool:
    """Return whether this code runs for one of our connections."""
    return _ours.get()


@contextmanager
def ours() -> Generator[None]:
    """Mark what runs inside, and the tasks that it starts, as ours; instrumentations of the libraries are silent."""
    token = _ours.set(True)
    try:
        with suppressed():
            yield
    finally:
        _ours.reset(token)


async def apart(operation: Awaitable[T]) -> T:
    """Await `operation` in an empty context with the mark."""

    async def marked() -> T:
        with ours():
            return await operation

    try:
        return await asyncio.get_running_loop().create_task(marked(), context=Context())
    finally:
        # A task that is cancelled before its first step never comes to its operation.
        if inspect.iscoroutine(operation) and inspect.getcoroutinestate(operation) == inspect.CORO_CREATED:
            operation.close()
