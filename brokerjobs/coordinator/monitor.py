"""Tells of jobs, queues, workers and services in metrics: the one process that is elected for it."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import figures
from brokerjobs.telemetry import metrics
from brokerjobs.telemetry.catalogue import METRICS, Source

if TYPE_CHECKING:
    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy
    from brokerjobs.telemetry.catalogue import Metric
    from brokerjobs.telemetry.instruments import Values

NAME: Final = "monitor"
DELAY: Final = timedelta(seconds=15)
# Rows of each kind that one look reads at most: what is beyond is told as "so many at least".
_LOOK: Final = 10_000
_METRICS: Final = {metric.name: metric for metric in METRICS if metric.source is Source.MONITOR}


class Monitor:
    """The service that sets the gauges; run only where somebody takes metrics, so that it costs nothing elsewhere."""

    name = NAME

    def __init__(self, ledger: AsyncLedgerConnection, candidacy: Candidacy, periods: Periods) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._objective_seconds = periods.latency_objective.total_seconds()

    async def run_once(self) -> timedelta:
        """Look once, and tell; a process that does not lead tells nothing."""
        rows = await self._ledger.fetch(figures.monitored(self._candidacy, _LOOK, self._objective_seconds))
        if not rows[0].leading:
            metrics.resigned()
            return LED_ELSEWHERE
        found: dict[Metric, list[tuple[Values, float]]] = defaultdict(list)
        for row in rows:
            # Of a newer schema there may be what this code does not know.
            if row.metric is not None and row.value is not None and (metric := _METRICS.get(row.metric)) is not None:
                found[metric].append((tuple(row.labels or ()), row.value))
        metrics.monitored(found)
        return DELAY
