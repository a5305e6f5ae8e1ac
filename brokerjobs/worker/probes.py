"""Probes: reported to the ledger the moment they come, then acknowledged; never in the inbox, never in a slot."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import LedgerUnavailable, PermissionDenied
from brokerjobs.ledger import calls

if TYPE_CHECKING:
    from brokerjobs.broker.protocol import Consumer, Probe
    from brokerjobs.ledger.database import AsyncLedgerConnection

log = logging.getLogger("brokerjobs.worker")

_PAUSE_SECONDS: Final = 1.0


class Probes:
    """Reports one after the other; there is hardly ever more than one a route."""

    def __init__(self, consumer: Consumer, connection: AsyncLedgerConnection, worker_name: str) -> None:
        self._consumer = consumer
        self._connection = connection
        self._worker_name = worker_name
        self._waiting: deque[Probe] = deque()
        self._some = asyncio.Event()
        self._denied = False

    def put(self, probe: Probe) -> None:
        """Takes a probe to be reported."""
        self._waiting.append(probe)
        self._some.set()

    async def run(self) -> None:
        """Reports and acknowledges; ends only when it is cancelled."""
        while True:
            await self._some.wait()
            probe = self._waiting[0]
            try:
                (answer,) = await self._connection.fetch(
                    calls.probe_returned(self._worker_name, probe.route, probe.ticket)
                )
            except LedgerUnavailable:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            except PermissionDenied as error:
                self._say_denied(error)
            else:
                log.debug("probe %s on %s: %s", probe.ticket, probe.route, "ours" if answer.known else "not known")
            self._waiting.popleft()
            self._consumer.ack([probe])
            if not self._waiting:
                self._some.clear()

    def _say_denied(self, error: PermissionDenied) -> None:
        if not self._denied:
            self._denied = True
            log.warning("lost doorbells cannot be found while this worker may not report probes: %s", error)
