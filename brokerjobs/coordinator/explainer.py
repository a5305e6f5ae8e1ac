"""Says why jobs wait that no living worker can run, and ends those that have waited past their placement deadline.

A tick looks at workers and routes, never at jobs: what holds for a route and a job type holds for all such jobs.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import placing
from brokerjobs.ledger.placing import Explanation
from brokerjobs.rules import needs
from brokerjobs.rules.capabilities import Capabilities, from_data
from brokerjobs.rules.explanation import Report, Seen, explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy

    Data = Mapping[str, Any]

NAME: Final = "explainer"
# Waiting jobs that one tick looks at for their placement deadline, while a route has no worker.
_ROWS: Final = 5_000

_log = logging.getLogger(__name__)


class Explainer:
    """The service that explains."""

    name = NAME

    def __init__(self, ledger: AsyncLedgerConnection, candidacy: Candidacy, periods: Periods) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._periods = periods
        self._after: UUID | None = None

    async def run_once(self) -> timedelta:
        """Record what has changed, and end jobs that nobody could place in time; twice a tick, as the scheduler."""
        [found] = await self._ledger.fetch(placing.placement(self._candidacy))
        if not found.leading:
            return LED_ELSEWHERE
        changed = list(changes(found.workers or (), found.routes or ()))
        if changed:
            await self._ledger.fetch(placing.explained(changed))
            for one in changed:
                _tell(one)
        if any(one["report"] for one in found.routes or ()):
            [walked] = await self._ledger.fetch(placing.end_unplaceable(self._after, _ROWS))
            self._after = walked.last
            if walked.ended:
                _log.warning("%d jobs failed as unplaceable: their placement deadline has passed", walked.ended)
        return self._periods.tick / 2


def changes(workers: Sequence[Data], routes: Sequence[Data]) -> Iterator[Explanation]:
    """Yield what is to be said of which route and job type now, where that differs from what was said last.

    A report is kept only while no living worker that stays qualifies; a busy one comes back to its jobs.
    """
    said: dict[tuple[str, str, str], dict[str, Any] | None] = {}
    seen = Workers(workers)
    for route in routes:
        needed = json.dumps(route["needs"])
        key = route["namespace"], route["type"], needed if seen.all_tell(route["namespace"]) else route["route"]
        if key not in said:
            report = report_of(route, seen)
            said[key] = report.as_data() if report.because in ("none", "draining") else None
        if said[key] != route["report"]:
            yield Explanation(route["route"], route["type"], said[key])


def report_of(route: Data, workers: Workers) -> Report:
    """Why jobs of the route's type wait: `route` has namespace, route, type and needs."""
    job_type = f"{route['namespace']}/{route['type']}"
    return explain(needs.from_data(route["needs"]), workers.seen_by(route), job_type=job_type)


class Workers:
    """The living workers, those with equal capabilities sharing them."""

    def __init__(self, workers: Sequence[Data]) -> None:
        shared: dict[str, Capabilities] = {}
        self._by_namespace: dict[str, list[tuple[Data, Capabilities]]] = {}
        self._silent: set[str] = set()
        for worker in workers:
            text = json.dumps(worker["capabilities"], sort_keys=True)
            if text not in shared:
                shared[text] = from_data(worker["capabilities"])
            self._by_namespace.setdefault(worker["namespace"], []).append((worker, shared[text]))
            if worker["capabilities"] is None:
                self._silent.add(worker["namespace"])

    def all_tell(self, namespace: str) -> bool:
        """Whether all of them tell capabilities; older code only consumes routes without needs, of the lane normal."""
        return namespace not in self._silent

    def seen_by(self, route: Data) -> list[Seen]:
        """The workers as a job of this route and type sees them."""
        return [
            Seen(
                name=worker["name"],
                capabilities=capabilities,
                handles=route["type"] in worker["types"]
                and (worker["capabilities"] is not None or route["route"] in worker["routes"]),
                draining=worker["state"] == "draining",
                free=worker["free"] is None or worker["free"] > 0,
            )
            for worker, capabilities in self._by_namespace.get(route["namespace"], ())
        ]


def _tell(change: Explanation) -> None:
    what = f"{change.type} by {change.route}"
    if change.report is None:
        _log.info("placeable: a living worker can run %s now", what)
    else:
        _log.warning("unplaceable: %s: %s", what, change.report["text"])
