"""Settles deliveries: acknowledged after the commit (rule R4), and the ledger told that the ack was sent."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger import calls
from brokerjobs.telemetry import metrics
from brokerjobs.telemetry.events import Event
from brokerjobs.telemetry.tracing import tracing

if TYPE_CHECKING:
    from brokerjobs.broker.protocol import Consumer, Delivery
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.worker.attempt import Attempt

log = logging.getLogger("brokerjobs.worker")

_MOST_KEPT: Final = 10_000  # acks not yet recorded while the ledger is away: evidence, so the oldest may go


class Settlement:
    """Gathers the acks of one turn of the event loop, so that one frame can settle many."""

    def __init__(self, consumer: Consumer, connection: AsyncLedgerConnection) -> None:
        self._consumer = consumer
        self._connection = connection
        self._due: list[tuple[Delivery, Attempt | None]] = []
        self._sent: list[calls.SentAck] = []
        self._some_sent = asyncio.Event()
        self._recording = asyncio.Lock()

    def ack(self, delivery: Delivery, attempt: Attempt | None = None) -> None:
        """Acknowledges a delivery, at the end of this turn of the loop; `attempt` is what it was granted, if any."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self.flush)
        self._due.append((delivery, attempt))

    def ended(self, attempt: Attempt) -> None:
        """Tells how the lease of an attempt fared that was acknowledged when it was claimed."""
        attempt.span.end()
        self._sent.append(calls.SentAck(attempt.holding.attempt_id, datetime.now(UTC), attempt.lease_figures()))
        self._some_sent.set()

    def flush(self) -> None:
        """Sends what is due now."""
        due, self._due = self._due, []
        if not due:
            return
        began = tracing.now()
        lost = {id(delivery) for delivery in self._consumer.ack([delivery for delivery, _ in due])}
        if lost:
            # The broker delivers them again, and the ledger answers that.
            log.warning(
                "ack_lost: %d deliveries will come again, their channel is gone",
                len(lost),
                extra={"event": Event.ACK_LOST.value},
            )
        for delivery, attempt in due:
            if attempt is not None:
                attempt.span.acked(began, sent=id(delivery) not in lost, goes_on=attempt.acked_on_claim)
        metrics.settled("ack", len(due) - len(lost))
        metrics.settled("lost", len(lost))
        now = datetime.now(UTC)
        self._sent += [
            calls.SentAck(attempt.holding.attempt_id, now, attempt.lease_figures())
            for delivery, attempt in due
            if attempt is not None and id(delivery) not in lost
        ]
        if self._sent:
            self._some_sent.set()

    async def run(self) -> None:
        """Records sent acks in the ledger, as fast as it answers; ends only when it is cancelled."""
        while True:
            await self._some_sent.wait()
            await self.record()

    async def record(self) -> None:
        """Records all acks that were sent, also those whose record is under way; keeps them if the ledger is away."""
        async with self._recording:
            self._some_sent.clear()
            sent, self._sent = self._sent, []
            if not sent:
                return
            try:
                await self._connection.fetch(calls.acked(sent))
            except LedgerUnavailable:
                self._sent = (sent + self._sent)[-_MOST_KEPT:]
                await asyncio.sleep(1.0)
                self._some_sent.set()
