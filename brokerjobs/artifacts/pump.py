"""Async sources, read on their event loop for a thread that takes what they give."""

from __future__ import annotations

import asyncio
import queue
from concurrent.futures import CancelledError
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, cast

from brokerjobs.artifacts.transfers import Stop, Stopped

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Iterator

PIECE: Final = 64 * 1024
"""Bytes that are read, hashed and written at once: what was just hashed is still in the processor's cache, and buffers
are memory that was just given back.  With 1 MiB a file of 1 GiB took up to twice as long.
"""
_REFILLED: Final = (bytearray, memoryview)
_AHEAD: Final = 2  # chunks that wait to be taken


class _End:
    """What ends an async source: an error, or none."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Pump:
    """An async source as an iterator for a thread.

    One task reads all of it, as a handler would: a time limit or a task group belongs to the task that it began in.
    """

    def __init__(self, source: AsyncIterable[Any], stop: Stop, loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._stop = stop
        self._loop = loop
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(_AHEAD)
        self._closing = ExitStack()

    def __iter__(self) -> Iterator[Any]:
        """What the source gives, and its error; Stopped if it was cancelled."""
        pumping = asyncio.run_coroutine_threadsafe(self._pump(), self._loop)
        self._closing.callback(pumping.cancel)
        self._closing.enter_context(self._stop.calls(pumping.cancel))
        while not isinstance(chunk := self._given.get(), _End):
            yield chunk
            self._loop.call_soon_threadsafe(self._room.release)
        if chunk.error is not None:
            raise Stopped if isinstance(chunk.error, CancelledError | asyncio.CancelledError) else chunk.error

    def close(self) -> None:
        """Ends the task, if it has not ended."""
        self._closing.close()

    async def _pump(self) -> None:
        iterator: Any = None
        error: BaseException | None = None
        try:
            iterator = aiter(self._source)
            await self._room.acquire()
            async for chunk in iterator:
                # It is taken later, and whoever gave a buffer may have filled it again by then.
                self._given.put(bytes(cast("bytes", chunk)) if isinstance(chunk, _REFILLED) else chunk)
                await self._room.acquire()
        except BaseException as raised:
            error = raised
            if not isinstance(raised, Exception):
                raise
        finally:
            self._given.put(_End(error))
            if (close := getattr(iterator, "aclose", None)) is not None:
                await close()


async def reads(source: Any) -> AsyncGenerator[Any]:
    """What an async `read` gives."""
    while got := await source.read(PIECE):
        yield got
