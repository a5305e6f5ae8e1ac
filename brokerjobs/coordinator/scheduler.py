"""Ends the waiting of jobs that are due, rung again or ended as lost, and jobs whose deadline has passed."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import ticks
from brokerjobs.telemetry import reviews

if TYPE_CHECKING:
    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy

NAME: Final = "scheduler"

_log = logging.getLogger(__name__)


class Scheduler:
    """The service that ends waiting."""

    name = NAME

    def __init__(self, ledger: AsyncLedgerConnection, candidacy: Candidacy, periods: Periods) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._periods = periods

    async def run_once(self) -> timedelta:
        """End the waiting of one batch, and what is past its deadline; a full one is followed at once.

        It looks twice a tick, so that a deadline is kept within a whole one.
        """
        rows = await self._ledger.fetch(ticks.schedule(self._candidacy, self._periods.batch))
        if not rows[0].leading:
            return LED_ELSEWHERE
        for row in rows:
            reviews.tell(_log, row.opened)
        ended = sum(row.job_id is not None for row in rows)
        return timedelta(0) if ended >= self._periods.batch else self._periods.tick / 2
