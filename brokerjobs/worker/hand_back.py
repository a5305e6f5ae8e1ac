"""Deliveries that find no free slot in time are given back: rung anew through the ledger, then acknowledged.

Another worker may have a slot, RabbitMQ would close the channel of one that keeps them, and lost doorbells are looked
for among jobs that no worker holds.  Requeueing them would count towards the delivery limit.  A ring goes to the end of
its queue, so a worker whose slots are all taken gets other deliveries in return, each of which waits as long: in that
time it gives back no more than its prefetch.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger import calls
from brokerjobs.ledger.group_commit import MAX_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from brokerjobs.broker.protocol import Delivery
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.worker.inbox import Inbox

log = logging.getLogger("brokerjobs.worker")

_PAUSE_SECONDS: Final = 1.0
_DRAIN_SECONDS: Final = 2.0  # at the end they are given back through the ledger, or just left at the broker


class HandBack:
    """Gives back what has waited in the inbox for `after`."""

    def __init__(
        self,
        inbox: Inbox,
        connection: AsyncLedgerConnection,
        settle: Callable[[Delivery], None],
        worker_name: str,
        after: timedelta,
    ) -> None:
        self._inbox = inbox
        self._connection = connection
        self._settle = settle
        self._worker_name = worker_name
        self._after_seconds = after.total_seconds()

    async def run(self) -> None:
        """Looks when the oldest delivery is due; ends only when it is cancelled."""
        while True:
            await self._inbox.some()
            rest = self._after_seconds - self._inbox.waited()
            if rest > 0:
                await asyncio.sleep(rest)
                continue
            overdue = self._inbox.take_overdue(self._after_seconds, MAX_ROWS)
            if not await self._give_back(overdue):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def drain(self) -> None:
        """Gives back everything that waits, within two seconds."""
        waiting = self._inbox.take_all()
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                given = await self._give_back(waiting)
        except TimeoutError:
            given = False
        if not given:
            log.warning("the ledger does not answer: %d unclaimed deliveries stay at the broker", len(waiting))

    async def _give_back(self, deliveries: Sequence[Delivery]) -> bool:
        """Rings and acknowledges; False if the ledger gave no answer, then they wait on."""
        if not deliveries:
            return True
        try:
            query = calls.hand_back(self._worker_name, [delivery.job_id for delivery in deliveries])
            (rung,) = await self._connection.fetch(query)
        except LedgerUnavailable as error:
            self._inbox.answered(deliveries, deliveries)
            log.info("%d unclaimed deliveries cannot be given back: %s", len(deliveries), error)
            return False
        self._inbox.answered(deliveries)
        for delivery in deliveries:
            self._settle(delivery)
        log.info("%d unclaimed deliveries are given back, %d jobs are rung for others", len(deliveries), rung.count)
        return True
