"""Makes the months of the event table ahead of time: without one no transition could be recorded, so none be made."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import ticks

if TYPE_CHECKING:
    from datetime import timedelta

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy

NAME: Final = "partitions"
MONTHS_AHEAD: Final = 3

_log = logging.getLogger(__name__)


class Partitions:
    """The service that makes event partitions; its lead has to outlast its long delay."""

    name = NAME

    def __init__(self, ledger: AsyncLedgerConnection, candidacy: Candidacy, periods: Periods) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._delay = periods.partitions

    async def run_once(self) -> timedelta:
        """Make the partitions that are missing up to three months ahead."""
        rows = await self._ledger.fetch(ticks.partition(self._candidacy, MONTHS_AHEAD))
        if not rows[0].leading:
            return LED_ELSEWHERE
        made = [row.name for row in rows if row.name is not None]
        if made:
            _log.info("made the event partitions %s", ", ".join(made))
        return self._delay
