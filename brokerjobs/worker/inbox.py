"""Deliveries that wait in this process for a free slot."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.broker.protocol import Delivery


class Inbox:
    """First come, first claimed; bounded by the prefetch of the routes."""

    def __init__(self) -> None:
        self._deliveries: deque[Delivery] = deque()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deliveries)

    def put(self, delivery: Delivery) -> None:
        """Takes a delivery from the consumer."""
        self._deliveries.append(delivery)
        self._some.set()

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Puts deliveries back in front: the ledger gave no answer to them."""
        self._deliveries.extendleft(reversed(deliveries))
        if deliveries:
            self._some.set()

    def take(self, limit: int) -> list[Delivery]:
        """Takes at most `limit` of the oldest deliveries."""
        taken = [self._deliveries.popleft() for _ in range(min(limit, len(self._deliveries)))]
        if not self._deliveries:
            self._some.clear()
        return taken

    async def some(self) -> None:
        """Waits until there is a delivery."""
        await self._some.wait()

    def oldest_age(self) -> float:
        """Seconds that the oldest delivery has waited; 0 if there is none."""
        return time.monotonic() - self._deliveries[0].received if self._deliveries else 0.0
