"""Deletes the queues of routes that have had no job for a day, so that old needs and unused lanes cost nothing.

A ring that finds no queue asks for its route again, and a route that is made again rings what it had lost: no job is.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable, PermissionDenied
from brokerjobs.ledger import placing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy

    Remove: TypeAlias = Callable[[str], Awaitable[None]]

NAME: Final = "retirement"
_BATCH: Final = 10  # at a tick: looking for unfinished jobs of a route walks through all unfinished jobs

_log = logging.getLogger(__name__)


def delay_of(periods: Periods) -> timedelta:
    """How often routes are looked at: sixty times in the time after which one is retired, at most once a tick."""
    return min(timedelta(minutes=10), max(periods.tick, periods.retire_routes_after / 60))


class Retirement:
    """The service that retires routes."""

    name = NAME

    def __init__(self, ledger: AsyncLedgerConnection, candidacy: Candidacy, remove: Remove, periods: Periods) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._remove = remove
        self._periods = periods

    async def run_once(self) -> timedelta:
        """Retire what is due, and delete the queues that no worker serves any more.

        Raises BrokerUnavailable, also if this login may not delete: another process's login may.
        """
        rows = await self._ledger.fetch(placing.retire(self._candidacy, self._periods.retire_routes_after, _BATCH))
        if not rows[0].leading:
            return LED_ELSEWHERE
        for name in (row.name for row in rows if row.name is not None):
            try:
                await self._remove(name)
            except PermissionDenied as error:
                raise BrokerUnavailable(str(error)) from error
            await self._ledger.fetch(placing.routes_removed([name]))
            _log.info("retired %s: it has had no job for %s, and its queue is deleted", name, self._idle())
        return delay_of(self._periods)

    def _idle(self) -> str:
        return f"{self._periods.retire_routes_after.total_seconds():g} s"
