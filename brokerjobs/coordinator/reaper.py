"""Gives up attempts whose lease is over; the ledger decides which, and where their jobs go."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger import ticks
from brokerjobs.ledger.attempt_spans import tell_expired, traced_attempts
from brokerjobs.telemetry import reviews
from brokerjobs.telemetry.events import Event
from brokerjobs.telemetry.instruments import measuring
from brokerjobs.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy

# The ledger's `lease_is_over` looks for this name, and takes five seconds without its tick for a gap, after which
# every attempt is spared for one lease more: however slow reaping is, ticks must be closer together.
NAME: Final = "reaper"
_LONGEST_DELAY: Final = timedelta(seconds=2)
# Under a long-held snapshot dead rows make the search slow: what finds little may take a fiftieth of the time.  A full
# batch is no such search: then many workers have died, and their jobs wait for nothing but the reaper.
_REST: Final = 50
_REST_AFTER_FULL: Final = 1
# One slow answer, as the first on a new connection or of a busy server, must not put recovery off for longer.
_LONGEST_REST_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Reaper:
    """The service that expires leases."""

    name = NAME

    def __init__(
        self,
        ledger: AsyncLedgerConnection,
        candidacy: Candidacy,
        periods: Periods,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._batch = periods.batch
        self._tick = min(periods.tick, _LONGEST_DELAY)
        self._monotonic = monotonic
        self._rests_until = monotonic()

    async def run_once(self) -> timedelta:
        """Expire one batch, then rest fifty times as long (5 s at most), after a full one only as long as it took.

        While it rests a tick only keeps the lead.
        """
        began = self._monotonic()
        resting = began < self._rests_until
        rows = await self._ledger.fetch(ticks.reap(self._candidacy, 0 if resting else self._batch))
        if not rows[0].leading:
            return LED_ELSEWHERE
        expired = [row for row in rows if row.job_id is not None]
        for row in expired:
            about = {"event": Event.LEASE_EXPIRED.value, "job_id": str(row.job_id), "attempt_id": str(row.attempt_id)}
            _log.info("job %s is %s: attempt %s lost its lease", row.job_id, row.state, row.attempt_id, extra=about)
            reviews.tell(_log, row.opened)
        await self._tell({row.attempt_id: row.job_id for row in expired if row.job_id is not None})
        now = self._monotonic()
        full = len(expired) >= self._batch
        if not resting:
            took = (now - began) * (_REST_AFTER_FULL if full else _REST)
            self._rests_until = now + min(took, _LONGEST_REST_SECONDS)
        rest = timedelta(seconds=max(0.0, self._rests_until - now))
        return min(self._tick, rest) if full or resting else self._tick

    async def _tell(self, expired: Mapping[UUID | None, UUID]) -> None:
        """Tells of the attempts that were just given up: of many there is nobody else who could."""
        if not expired or (tracing.look() is None and measuring.look() is None):
            return
        try:
            found = await self._ledger.fetch(traced_attempts(list(expired.values())))
        except LedgerUnavailable as error:  # they are given up all the same
            _log.debug("no spans of %d attempts that lost their lease: %s", len(expired), error)
            return
        for one in found:
            if one.attempt_id in expired:
                tell_expired(one)
