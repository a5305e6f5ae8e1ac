"""Rings doorbells behind the submissions: in batches, confirmed, and never in anybody's way.

What is not confirmed stays in the ledger's outbox, and the relay rings it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.errors import BrokerjobsError
from brokerjobs.ledger.group_commit import MAX_ROWS
from brokerjobs.ledger.services import outbox_done

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing, Publisher
    from brokerjobs.ledger.database import AsyncLedgerConnection

# For so long the relay leaves a doorbell to its client (`hold_until` of submit.sql); later it is the relay's.
HELD_SECONDS: Final = 2.0
# For so long a client that ends waits for what it has not rung yet.
LEAVE_SECONDS: Final = 1.0
# Twice what a client submits in that time; more are left to the relay, so that memory is bounded.
_MOST_WAITING: Final = 20_000

log = logging.getLogger("brokerjobs.client")


@dataclass(frozen=True, slots=True)
class _Ring:
    doorbell: Outgoing
    since: float = field(default_factory=time.monotonic)
    rung: asyncio.Future[bool] | None = None

    def settle(self, *, rung: bool) -> None:
        if self.rung is not None and not self.rung.done():
            self.rung.set_result(rung)


class Announcer:
    """Publishes doorbells and marks those that the broker confirmed; `run` is its loop."""

    def __init__(self, publisher: Publisher, ledger: AsyncLedgerConnection) -> None:
        self._publisher = publisher
        self._ledger = ledger
        self._waiting: deque[_Ring] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def announce(self, doorbells: Iterable[Outgoing]) -> None:
        """Rings them soon; those that cannot be rung within two seconds are left to the relay."""
        for doorbell in doorbells:
            self._add(_Ring(doorbell))

    async def announced(self, doorbell: Outgoing) -> bool:
        """Rings one; False if the broker did not confirm it, so that the relay has to ring."""
        ring = _Ring(doorbell, rung=asyncio.get_running_loop().create_future())
        self._add(ring)
        return ring.rung is not None and await ring.rung

    async def run(self) -> None:
        """Rings while anything waits; ends only when it is cancelled."""
        try:
            while True:
                await self._some.wait()
                if batch := self._next_batch():
                    await self._ring(batch)
                if not self._waiting:
                    self._some.clear()
                    self._idle.set()
        finally:
            for ring in self._waiting:
                ring.settle(rung=False)

    async def drain(self, limit_seconds: float) -> None:
        """Waits until all are rung or left to the relay, at most so long."""
        try:
            async with asyncio.timeout(limit_seconds):
                await self._idle.wait()
        except TimeoutError:
            log.info("the client ends; the relay rings what it could not", extra={"doorbells": len(self._waiting)})

    def _add(self, ring: _Ring) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            ring.settle(rung=False)
            return
        self._waiting.append(ring)
        self._idle.clear()
        self._some.set()

    def _next_batch(self) -> list[_Ring]:
        batch: dict[UUID, _Ring] = {}
        oldest = time.monotonic() - HELD_SECONDS
        while self._waiting and len(batch) < MAX_ROWS and self._waiting[0].doorbell.message_id not in batch:
            ring = self._waiting.popleft()
            if ring.since < oldest:
                ring.settle(rung=False)
            else:
                batch[ring.doorbell.message_id] = ring
        return list(batch.values())

    async def _ring(self, batch: list[_Ring]) -> None:
        confirmed: list[_Ring] = []
        try:
            outcomes = await self._publisher.publish([ring.doorbell for ring in batch])
            confirmed = [
                ring for ring, outcome in zip(batch, outcomes, strict=True) if outcome is PublishOutcome.CONFIRMED
            ]
            if confirmed:
                await self._ledger.fetch(outbox_done([ring.doorbell.message_id for ring in confirmed]))
        except BrokerjobsError as error:
            # Not marked, so the relay rings them once more: a second doorbell costs time, never a second result.
            log.warning("doorbells were rung but not marked: %s", error)
        finally:
            rung = {ring.doorbell.message_id for ring in confirmed}
            for ring in batch:
                ring.settle(rung=ring.doorbell.message_id in rung)
