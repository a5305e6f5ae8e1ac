"""Threads that speak to a store, which may hang: so many at once, and whoever waits for them waits no longer than told.

A call that gets no answer keeps its thread until it gets one, so that a store which hangs costs a few threads and no
more; they keep no process from ending.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from brokerjobs.errors import ArtifactStoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

AT_ONCE: Final = 4


@dataclass
class Outcome(Generic[T]):
    """What became of the items; `left` were not tried, or have no answer yet."""

    done: list[T] = field(default_factory=list[T])
    failed: list[tuple[T, Exception]] = field(default_factory=list[tuple[T, Exception]])
    left: int = 0


class Hands:
    """The threads of one store."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._threads: list[threading.Thread] = []

    @property
    def hanging(self) -> int:
        """Calls that nobody waits for any more, and that have not ended."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return len(self._threads)

    async def each(self, work: Callable[[T], object], items: Sequence[T], seconds: float) -> Outcome[T]:
        """Does `work`, which may block, with each item, in no order, for `seconds` at most.

        After one that the store gave no answer to, no further one is begun: they would wait as long.
        """
        threads_free = min(self._at_once - self.hanging, len(items))
        if threads_free <= 0:
            return Outcome(left=len(items))
        outcome, stop, loop = Outcome[T](), threading.Event(), asyncio.get_running_loop()
        todo = deque(random.sample(items, len(items)))  # so that those behind one that always fails have their turn
        ended = asyncio.Semaphore(0)

        def run() -> None:
            try:
                _do(work, todo, outcome, stop)
            finally:
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(ended.release)

        threads = [threading.Thread(target=run, name="brokerjobs-sweep", daemon=True) for _ in range(threads_free)]
        self._threads += threads
        for thread in threads:
            thread.start()
        try:
            async with asyncio.timeout(seconds):
                for _ in threads:
                    await ended.acquire()
        except TimeoutError:
            pass
        finally:
            stop.set()
        # Copies: what a thread adds from now on is not told to anybody, and will be asked for again.
        done, failed = list(outcome.done), list(outcome.failed)
        return Outcome(done, failed, len(items) - len(done) - len(failed))


def _do(work: Callable[[T], object], todo: deque[T], outcome: Outcome[T], stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            item = todo.popleft()
        except IndexError:
            return
        try:
            work(item)
        except Exception as error:  # noqa: BLE001  # whatever it was, the object is asked for again
            outcome.failed.append((item, error))
            if isinstance(error, ArtifactStoreUnavailable):
                stop.set()
        else:
            outcome.done.append(item)
