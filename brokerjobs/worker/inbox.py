"""Deliveries that wait in this process for a free slot."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.broker.protocol import Delivery


class Inbox:
    """First come, first claimed; bounded by the prefetch of the routes.

    What was taken out counts as unclaimed until the ledger has answered: the lease keeper's thread tells with each
    heartbeat how old the oldest of all these is.
    """

    def __init__(self) -> None:
        self._deliveries: deque[Delivery] = deque()
        self._in_hand: dict[int, float] = {}
        self._lock = threading.Lock()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deliveries)

    def put(self, delivery: Delivery) -> None:
        """Takes a delivery from the consumer."""
        with self._lock:
            self._deliveries.append(delivery)
        self._some.set()

    def take(self, limit: int) -> list[Delivery]:
        """Takes at most `limit` of the oldest deliveries in hand; `answered` must follow."""
        with self._lock:
            taken = [self._deliveries.popleft() for _ in range(min(limit, len(self._deliveries)))]
            self._in_hand |= {id(delivery): delivery.received for delivery in taken}
        if not self._deliveries:
            self._some.clear()
        return taken

    def take_overdue(self, seconds: float, limit: int) -> list[Delivery]:
        """As `take`, but only of those that have waited so long."""
        received_by = time.monotonic() - seconds
        overdue = 0
        for delivery in self._deliveries:
            if overdue == limit or delivery.received > received_by:
                break
            overdue += 1
        return self.take(overdue)

    def answered(self, taken: Sequence[Delivery], again: Sequence[Delivery] = ()) -> None:
        """Lets go of what was taken, but for `again`: the ledger gave no answer to these, so they come in front."""
        with self._lock:
            self._deliveries.extendleft(reversed(again))
            for delivery in taken:
                self._in_hand.pop(id(delivery), None)
        if again:
            self._some.set()

    async def some(self) -> None:
        """Waits until there is a delivery."""
        await self._some.wait()

    def waited(self) -> float:
        """How many seconds the oldest delivery has waited; 0 if none waits."""
        return time.monotonic() - self._deliveries[0].received if self._deliveries else 0.0

    def oldest_unclaimed(self) -> float | None:
        """How many seconds ago the oldest unclaimed delivery came, None if there is none; any thread may ask."""
        with self._lock:
            received = [*self._in_hand.values(), *(delivery.received for delivery in islice(self._deliveries, 1))]
        return max(0.0, time.monotonic() - min(received)) if received else None
