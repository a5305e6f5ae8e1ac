"""Slots: a claim is made only when what it brings could start at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokerjobs.handlers import RunsIn


class Slots:
    """Free places for async handlers, threads and processes; a kind that no handler here uses is not among them.

    The ledger grants a job before its type is known here, so a delivery is claimed only while each kind has a place.
    """

    def __init__(self, places: Mapping[RunsIn, int]) -> None:
        self.places: Final = {kind.value: count for kind, count in places.items()}
        self._free = dict(places)
        self._change = asyncio.Event()
        self._change.set()
        self.used = 0

    def taken(self) -> dict[str, tuple[int, int]]:
        """The places of each kind, and how many of them are taken."""
        return {
            kind.value: (self.places[kind.value], self.places[kind.value] - free) for kind, free in self._free.items()
        }

    def free(self) -> int:
        """How many deliveries may be claimed now."""
        return min(self._free.values())

    async def some(self) -> None:
        """Waits until a delivery may be claimed."""
        while self.free() <= 0:
            self._change.clear()
            await self._change.wait()

    def take(self, kind: RunsIn) -> None:
        """Takes a place for a granted attempt."""
        self._free[kind] -= 1
        self.used += 1

    def give(self, kind: RunsIn) -> None:
        """Gives the place back when the handler has really ended and its report is in the ledger."""
        self._free[kind] += 1
        self.used -= 1
        self._change.set()
