"""Says why jobs wait that no living worker can run, and ends those that have waited past their placement deadline.

A tick looks at workers and routes, never at jobs: what holds for a route and a job type holds for all such jobs.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import placing
from brokerjobs.ledger.placing import Explanation
from brokerjobs.rules import needs
from brokerjobs.rules.capabilities import from_data
from brokerjobs.rules.explanation import Seen, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy

    Data = Mapping[str, Any]

T = TypeVar("T")

NAME: Final = "explainer"
# Waiting jobs that one tick looks at for their placement deadline, while a route has no worker.
_ROWS: Final = 5_000
_WOKEN: Final = 1_000  # parked jobs that a new worker is asked for; their own timers (30 s at most) ring the others

_log = logging.getLogger(__name__)


class Explainer:
    """The service that explains."""

    name = NAME

    def __init__(self, ledger: AsyncLedgerConnection, candidacy: Candidacy, periods: Periods) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._periods = periods
        self._after: UUID | None = None
        self._known: frozenset[str] | None = None

    async def run_once(self) -> timedelta:
        """Record what has changed, and end jobs that nobody could place in time."""
        [found] = await self._ledger.fetch(placing.placement(self._candidacy))
        if not found.leading:
            return LED_ELSEWHERE
        changed = list(changes(found.workers or (), found.routes or ()))
        if changed:
            await self._ledger.fetch(placing.explained(changed))
            for one in changed:
                _tell(one)
        await self._wake(found.workers or ())
        if any(one["report"] and one["report"]["because"] for one in found.routes or ()):
            [walked] = await self._ledger.fetch(placing.end_unplaceable(self._after, _ROWS))
            self._after = walked.last
            if walked.ended:
                _log.warning("%d jobs failed as unplaceable: their placement deadline has passed", walked.ended)
        return self._periods.tick

    async def _wake(self, workers: Sequence[Data]) -> None:
        """Have those that have just come asked for what was parked: what submissions added is known at claims alone."""
        known, self._known = self._known, frozenset(worker["id"] for worker in workers)
        if known is None:
            return
        for worker in workers:
            if worker["id"] not in known:
                query = placing.wake_placement(worker["namespace"], worker["types"], _WOKEN)
                [woken] = await self._ledger.fetch(query)
                if woken.count:
                    _log.info("%s is new: %d jobs that wait for placement are rung", worker["name"], woken.count)


def changes(workers: Sequence[Data], routes: Sequence[Data]) -> Iterator[Explanation]:
    """Yield what is to be said of which route and job type now, where that differs from what was said last.

    A report is kept while some living worker does not qualify.  Whether those that do are busy is left out: they come
    back to their jobs, and the ledger would be written at every tick.
    """
    said: dict[tuple[str, str, str], dict[str, Any] | None] = {}
    seen = Workers(workers)
    for route in routes:
        needed = json.dumps(route["needs"])
        key = route["namespace"], route["type"], needed if seen.all_tell(route["namespace"]) else route["route"]
        if key not in said:
            wanted = needs.from_data(route["needs"])
            report = explain(wanted, seen.seen_by(route, busy=False), job_type=f"{route['namespace']}/{route['type']}")
            said[key] = report.as_data() if report.because or report.unmet or report.no_handler else None
        if said[key] != route["report"]:
            yield Explanation(route["route"], route["type"], said[key])


class Workers:
    """The living workers; what is equal of them is made once and shared."""

    def __init__(self, workers: Sequence[Data]) -> None:
        self._shared: dict[str, Any] = {}
        self._by_namespace: dict[str, list[_Known]] = {}
        for worker in workers:
            self._by_namespace.setdefault(worker["namespace"], []).append(self._known(worker))

    def all_tell(self, namespace: str) -> bool:
        """Whether all of them tell capabilities; older code only consumes routes without needs, of the lane normal."""
        return all(known.tells for known in self._by_namespace.get(namespace, ()))

    def seen_by(self, job: Data, *, busy: bool) -> list[Seen]:
        """The workers as a job of this route and type sees them, with or without a look at free slots."""
        seen = [known.seen_by(job) for known in self._by_namespace.get(job["namespace"], ())]
        return seen if busy else [one if one.free else one._replace(free=True) for one in seen]

    def _known(self, worker: Data) -> _Known:
        free = worker["free"] is None or worker["free"] > 0
        seen = Seen(
            name=worker["name"],
            capabilities=self._once(worker["capabilities"], from_data),
            handles=True,
            draining=worker["state"] == "draining",
            free=free,
        )
        return _Known(
            able=seen,
            unable=seen._replace(handles=False),
            types=self._once(worker["types"], frozenset),
            routes=self._once(worker["routes"], frozenset),
            tells=worker["capabilities"] is not None,
        )

    def _once(self, data: Any, made: Callable[[Any], T]) -> T:
        """What is made of data, one for all that are equal."""
        key = f"{made.__name__} {json.dumps(data, sort_keys=True)}"
        if key not in self._shared:
            self._shared[key] = made(data)
        return cast("T", self._shared[key])


@dataclass(frozen=True, slots=True)
class _Known:
    """A worker, as jobs of types see it that it has a handler for, and as others do."""

    able: Seen
    unable: Seen
    types: frozenset[str]
    routes: frozenset[str]
    tells: bool

    def seen_by(self, job: Data) -> Seen:
        handles = job["type"] in self.types and (self.tells or job["route"] in self.routes)
        return self.able if handles else self.unable


def _tell(change: Explanation) -> None:
    what = f"{change.type} by {change.route}"
    if change.report is None or change.report["because"] is None:
        _log.info("placeable: a living worker can run %s", what)
    else:
        _log.info("unplaceable: %s: %s", what, change.report["text"])
