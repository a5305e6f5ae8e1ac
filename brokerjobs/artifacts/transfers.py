"""Transfers: blocking work in threads of its own, few at once, that ends soon after nobody waits for it any more."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")

AT_ONCE: Final = 4
"""Transfers of one process: what bounds its memory."""
_PATIENCE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.25  # how often who waits for room looks whether it is to stop


def _nothing() -> None:
    return


class Stopped(Exception):
    """A transfer has ended because it was told to stop."""


class Stop:
    """Tells a transfer to stop, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = False
        self._callbacks: list[Callable[[], object]] = []

    def set(self) -> None:
        """Stops it; repeating it does nothing."""
        with self._lock:
            self._told = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def is_set(self) -> bool:
        """Was it told?"""
        return self._told

    def check(self) -> None:
        """Raises Stopped once it was told."""
        if self._told:
            raise Stopped

    @contextmanager
    def calls(self, callback: Callable[[], object]) -> Generator[None]:
        """Calls this, too, if it is told meanwhile or was before; it must not block."""
        with self._lock:
            told = self._told
            if not told:
                self._callbacks.append(callback)
        if told:
            callback()
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._callbacks.remove(callback)


class Room:
    """The room of one transfer."""

    def __init__(self, give_back: Callable[[], object]) -> None:
        self._give_back = [give_back]

    def leave(self) -> None:
        """Gives it back before the transfer has ended; repeating it does nothing."""
        with suppress(IndexError):
            self._give_back.pop()()


class Slots:
    """Room for so many transfers at once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._inside: contextvars.ContextVar[bool] = contextvars.ContextVar("inside", default=False)
        self.clear()

    def clear(self) -> None:
        """Has room for all of them: in a fork none goes on that was under way."""
        self._free = self._count
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, stop: Stop, check: Callable[[], object] = _nothing) -> Generator[Room]:
        """Waits for room, and has it; raises Stopped if it is told to stop before, and what `check` raises meanwhile.

        A transfer that the source of another one makes uses that one's room: else both would wait for ever.
        """
        if self._inside.get():
            yield Room(_nothing)
            return
        with stop.calls(self._wake), self._changed:
            while not self._changed.wait_for(lambda: self._free > 0 or stop.is_set(), _LOOK_SECONDS):
                check()
            stop.check()
            self._free -= 1
        room, token = Room(self._give_back), self._inside.set(True)
        try:
            yield room
        finally:
            self._inside.reset(token)
            room.leave()

    def _give_back(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


slots: Final = Slots(AT_ONCE)
"""Those of this process."""
os.register_at_fork(after_in_child=slots.clear)


async def in_thread(work: Callable[[Stop], T]) -> T:
    """Runs a transfer in a thread of its own, in the caller's context.

    If the caller is cancelled, the transfer is told to stop, and has a second for it before the cancellation goes on;
    it ends by itself then.  The thread keeps no process from ending.
    """
    stop = Stop()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to look at it
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(work, stop)
        except BaseException as error:  # noqa: BLE001  # whatever it was, the caller is told
            _tell(loop, future.set_exception, _fit(error))
        else:
            _tell(loop, future.set_result, result)

    threading.Thread(target=run, name="brokerjobs-transfer", daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({future}, timeout=_PATIENCE_SECONDS)
        raise


def _fit(error: BaseException) -> BaseException:
    """A future takes no StopIteration."""
    return RuntimeError("a source raised StopIteration") if isinstance(error, StopIteration) else error


def _tell(loop: asyncio.AbstractEventLoop, setter: Callable[[T], None], value: T) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(setter, value)
