"""Quantities: what attempts have reserved, from the claim until their handlers have really ended.

What a route needs is reserved with the claim.  An attempt whose submission added to that learns it with the answer: it
gives back what it has, and waits in its turn for all of it at once before its handler begins.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from brokerjobs.rules import needs
from brokerjobs.rules.stock import NOTHING

if TYPE_CHECKING:
    from brokerjobs.broker.protocol import Delivery
    from brokerjobs.rules.line import Line
    from brokerjobs.rules.stock import Stock
    from brokerjobs.worker.attempt import Attempt
    from brokerjobs.worker.inbox import Inbox
    from brokerjobs.worker.slots import Slots


class Reserving:
    """The line as attempts use it; made and called on the event loop."""

    def __init__(self, line: Line[Delivery], stock: Stock, inbox: Inbox, slots: Slots) -> None:
        self._line = line
        self._stock = stock
        self._inbox = inbox
        self._slots = slots
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def granted(self, attempt: Attempt) -> bool:
        """Takes note of a granted attempt: True if it has all that it needs; else `wait` must follow."""
        said = [one for one in attempt.claimed.needs or () if one["kind"] == "at_least"]
        amounts = self._stock.amounts(needs.from_data(said)) if said else NOTHING
        if self._line.wait(attempt.delivery, amounts):
            return True
        self._waiting[id(attempt.delivery)] = asyncio.get_running_loop().create_future()
        return False

    async def wait(self, attempt: Attempt) -> None:
        """Waits until all that the attempt needs is reserved; cancelled, it has nothing and waits no longer."""
        future = self._waiting.get(id(attempt.delivery))
        self._admit()
        try:
            if future is not None:  # else it was its turn before it began to wait
                await future
        except asyncio.CancelledError:
            self.release(attempt.delivery)
            raise

    def release(self, delivery: Delivery, ran: float | None = None) -> None:
        """It was not granted, or its handler has really ended, after so many seconds if it began."""
        self._waiting.pop(id(delivery), None)
        self._line.release(delivery, ran)
        if self._waiting:
            self._admit()
        self._inbox.look()

    def _admit(self) -> None:
        now = time.monotonic()
        for delivery in self._line.admit(now, has_slot=self._slots.free() > 0):
            if not (future := self._waiting.pop(id(delivery))).done():
                future.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (when := self._line.opens_at(now)) is not None:
            self._timer = asyncio.get_running_loop().call_later(when - now, self._admit)
