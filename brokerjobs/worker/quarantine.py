"""Messages that are not ours to run: recorded with the reason, then rejected to the namespace's quarantine."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from brokerjobs.broker.protocol import Delivery
from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger import calls

if TYPE_CHECKING:
    from brokerjobs.broker.protocol import Consumer, Unreadable
    from brokerjobs.ledger.database import AsyncLedgerConnection

log = logging.getLogger("brokerjobs.worker")

_PAUSE_SECONDS = 1.0
_AT_ONCE = 50


class Quarantine:
    """A bounded batch at a time: a flood of strange messages takes neither the ledger nor its route from the jobs."""

    def __init__(self, consumer: Consumer, connection: AsyncLedgerConnection, worker_name: str) -> None:
        self._consumer = consumer
        self._connection = connection
        self._worker_name = worker_name
        self._waiting: deque[tuple[Delivery | Unreadable, str]] = deque()
        self._some = asyncio.Event()

    def put(self, message: Delivery | Unreadable, reason: str) -> None:
        """Takes a message to be recorded and rejected."""
        self._waiting.append((message, reason))
        self._some.set()

    async def run(self) -> None:
        """Records and rejects; ends only when it is cancelled."""
        while True:
            await self._some.wait()
            batch = list(islice(self._waiting, _AT_ONCE))
            try:
                await self._connection.fetch(calls.quarantine(self._worker_name, *map(_strange, batch)))
            except LedgerUnavailable:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            for message, reason in batch:
                self._waiting.popleft()
                self._consumer.reject(message)
                log.warning("message on %s goes to quarantine: %s", message.route, reason)
            if not self._waiting:
                self._some.clear()


def _strange(rejected: tuple[Delivery | Unreadable, str]) -> calls.Strange:
    message, reason = rejected
    digest = None if isinstance(message, Delivery) else message.body_digest
    return calls.Strange(message.route, reason, message.ticket, message.job_id, digest)
