"""Removes what has ended long ago: finished jobs past their horizon, old keys and evidence, months of events."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import retention

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.retention import Horizons, Removed
    from brokerjobs.ledger.ticks import Candidacy

NAME: Final = "retention"
# While there is more to remove it takes a third of the time: other services share its connection, and jobs the disk.
_REST: Final = 2
_SHORTEST_REST: Final = timedelta(milliseconds=20)
_AGAIN: Final = frozenset({"begun", "kept", "dropped"})
"""Steps after which the next one can be taken at once; the others wait for somebody else's transaction, or a month."""

_log = logging.getLogger(__name__)


class Retention:
    """The service that removes; its lead has to outlast its long delay."""

    name = NAME

    def __init__(
        self,
        ledger: AsyncLedgerConnection,
        candidacy: Candidacy,
        horizons: Horizons,
        periods: Periods,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._horizons = horizons
        self._batch = periods.batch
        self._delay = periods.retention
        self._monotonic = monotonic

    async def run_once(self) -> timedelta:
        """Remove one batch and take one step towards dropping a month of events; soon again if there is more."""
        began = self._monotonic()
        (removed,) = await self._ledger.fetch(retention.remove(self._candidacy, self._horizons, self._batch))
        if not removed.leading:
            return LED_ELSEWHERE
        self._tell(removed)
        (step,) = await self._ledger.fetch(retention.drop_events(self._horizons, self._batch))
        if step.step in {"dropped", "busy"}:
            _log.info("event partition %s is %s", step.name, step.step)
        if removed.largest() < self._batch and step.step not in _AGAIN:
            return self._delay
        rest = timedelta(seconds=(self._monotonic() - began) * _REST)
        return min(self._delay, max(_SHORTEST_REST, rest))

    def _tell(self, removed: Removed) -> None:
        if removed.largest():
            _log.info(
                "removed %s jobs with %s attempts, %s keys, %s reports of unknown jobs, %s processes, %s quarantine "
                "records",
                removed.jobs,
                removed.attempts,
                removed.keys,
                removed.late_reports,
                removed.processes,
                removed.quarantined,
            )
