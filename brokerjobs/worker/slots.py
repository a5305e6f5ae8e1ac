"""Slots: a claim is made only when what it brings could start at once."""

from __future__ import annotations

import asyncio


class Slots:
    """Free places for async handlers and for threads; a kind that no handler of this process uses does not count.

    The ledger grants a job before its type is known here, so a delivery is claimed only while either kind has a place.
    """

    def __init__(self, *, tasks: int | None, threads: int | None) -> None:
        self._free = {True: tasks, False: threads}
        self._change = asyncio.Event()
        self._change.set()
        self.used = 0

    def free(self) -> int:
        """How many deliveries may be claimed now."""
        return min(free for free in self._free.values() if free is not None)

    async def some(self) -> None:
        """Waits until a delivery may be claimed."""
        while self.free() <= 0:
            self._change.clear()
            await self._change.wait()

    def take(self, *, is_async: bool) -> None:
        """Takes a place for a granted attempt."""
        self._move(-1, is_async=is_async)

    def give(self, *, is_async: bool) -> None:
        """Gives the place back when the handler has really ended and its report is in the ledger."""
        self._move(1, is_async=is_async)

    def _move(self, by: int, *, is_async: bool) -> None:
        free = self._free[is_async]
        if free is not None:
            self._free[is_async] = free + by
        self.used -= by
        self._change.set()
