"""Deliveries that wait in this process for a free slot, and for the quantities that they need."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from brokerjobs.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from brokerjobs.broker.protocol import Delivery
    from brokerjobs.rules.line import Line, Place


class Inbox:
    """Claimed in the order of the line; bounded by the prefetch of the routes.

    What was taken out counts as unclaimed until the ledger has answered: the lease keeper's thread tells with each
    heartbeat how old the oldest of all these is.
    """

    def __init__(self, line: Line[Delivery]) -> None:
        self._line = line
        self._in_hand: dict[int, float] = {}
        self._lock = threading.Lock()
        self._some = asyncio.Event()
        self._claimable = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._line)

    def put(self, delivery: Delivery) -> None:
        """Takes a delivery from the consumer."""
        metrics.arrived(delivery.route)
        with self._lock:
            self._line.put(delivery)
        self._some.set()
        self._claimable.set()

    def take(self, limit: int) -> list[Delivery]:
        """Takes at most `limit` deliveries in hand that may be claimed now; `answered` must follow."""
        now = time.monotonic()
        with self._lock:
            taken = self._line.take(limit, now)
            self._in_hand |= {id(delivery): delivery.received for delivery in taken}
            left = len(self._line)
        if not left:
            self._some.clear()
        if not left or len(taken) < limit:
            self._claimable.clear()
            self._wake_at(self._line.opens_at(now))
        return taken

    def take_overdue(self, seconds: float, limit: int) -> list[Delivery]:
        """Takes those that have waited so long, the oldest first, but for the one that holds the line."""
        with self._lock:
            taken = self._line.take_older(time.monotonic() - seconds, limit)
            self._in_hand |= {id(delivery): delivery.received for delivery in taken}
        if not len(self._line):
            self._some.clear()
        return taken

    def take_all(self) -> list[Delivery]:
        """Takes everything in hand."""
        with self._lock:
            taken = self._line.take_all()
            self._in_hand |= {id(delivery): delivery.received for delivery in taken}
        self._some.clear()
        self._claimable.clear()
        return taken

    def place(self, places: Mapping[str, Place]) -> None:
        """Says in which lanes the deliveries of routes wait, and what they need."""
        with self._lock:
            self._line.place(places)

    def answered(self, taken: Sequence[Delivery], again: Sequence[Delivery] = ()) -> None:
        """Lets go of what was taken, but for `again`: the ledger gave no answer to these, so they come in front."""
        with self._lock:
            self._line.put_back(again)
            for delivery in taken:
                self._in_hand.pop(id(delivery), None)
        if again:
            self._some.set()
            self._claimable.set()

    def look(self) -> None:
        """Something came free: what could not be claimed before may be now."""
        if len(self._line):
            self._claimable.set()

    async def some(self) -> None:
        """Waits until there is a delivery."""
        await self._some.wait()

    async def claimable(self) -> None:
        """Waits until there may be a delivery that can be claimed."""
        await self._claimable.wait()

    def waited(self) -> float:
        """How many seconds the oldest delivery has waited that is given back for that; 0 if none waits."""
        oldest = self._line.oldest(but_holder=True)
        return 0.0 if oldest is None else time.monotonic() - oldest.received

    def oldest_unclaimed(self) -> float | None:
        """How many seconds ago the oldest unclaimed delivery came, None if there is none; any thread may ask."""
        with self._lock:
            oldest = self._line.oldest()
            received = [*self._in_hand.values(), *([] if oldest is None else [oldest.received])]
        return max(0.0, time.monotonic() - min(received)) if received else None

    def _wake_at(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if when is not None:
            self._timer = asyncio.get_running_loop().call_later(when - time.monotonic(), self._claimable.set)
