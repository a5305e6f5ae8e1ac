"""Stretches the delays of retries in a storm: counts them against a tenth of the first attempts of each queue."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import budgets

if TYPE_CHECKING:
    from datetime import timedelta

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy

NAME: Final = "retry-budget"
# A budget counts for half a minute in the ledger, so that it outlives a change of the leader and no longer outage.
_TICKS: Final = 5
# Attempts that one count looks at: 8 000 a second.  What is beyond them is a sample's rest, and the ratio stays.
_LIMIT: Final = 40_000

_log = logging.getLogger(__name__)


class RetryBudget:
    """The service that writes by how much retries are stretched; failures only read it."""

    name = NAME

    def __init__(self, ledger: AsyncLedgerConnection, candidacy: Candidacy, periods: Periods) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._delay = delay_of(periods)
        self._stretched: frozenset[str] = frozenset()

    async def run_once(self) -> timedelta:
        """Count once; a queue that comes to be stretched, or is no more, is said in the log."""
        rows = await self._ledger.fetch(budgets.stretch_retries(self._candidacy, _LIMIT))
        if not rows[0].leading:
            return LED_ELSEWHERE
        stretched = {row.route: row for row in rows if row.route is not None}
        for route in sorted(stretched.keys() - self._stretched):
            row = stretched[route]
            _log.warning(
                "%s: %d retries and %d first attempts in five minutes; new retries wait up to %.1f times as long",
                *(route, row.retries, row.first_attempts, row.stretch),
            )
        for route in sorted(self._stretched - stretched.keys()):
            _log.info("%s: retries are within their budget again", route)
        self._stretched = frozenset(stretched)
        return self._delay


def delay_of(periods: Periods) -> timedelta:
    """How often retries are counted."""
    return periods.tick * _TICKS
