"""Declares new routes at the broker, so that workers and producers need no right to."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from brokerjobs.broker import topology
from brokerjobs.broker.brokers import broker_at
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable, PermissionDenied, TopologyMismatch
from brokerjobs.ledger import services, ticks
from brokerjobs.rules import names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.services import Route
    from brokerjobs.ledger.ticks import Candidacy

    DeclareError: TypeAlias = TopologyMismatch | PermissionDenied
    Declare: TypeAlias = Callable[[Sequence[Route]], Awaitable[Mapping[str, DeclareError]]]

NAME: Final = "routes"
_RETRY_SECONDS: Final = 60.0
_MOST_SAID: Final = 100

_log = logging.getLogger(__name__)


class Queues:
    """Makes and deletes the queues of routes at the broker of `url`.

    Both methods raise BrokerUnavailable and ConfigurationError.
    """

    def __init__(self, url: str, *, queue_type: topology.QueueType = "quorum", delivery_limit: int = 20) -> None:
        self._broker = broker_at(url)
        self._queue_type: topology.QueueType = queue_type
        self._delivery_limit = delivery_limit

    async def declare(self, routes: Sequence[Route]) -> dict[str, DeclareError]:
        """Declare routes, each apart, and tell by name why one could not be."""
        errors: dict[str, DeclareError] = {}
        for route in routes:
            wanted = topology.Topology(
                routes=frozenset({route.name}), queue_type=self._queue_type, delivery_limit=self._delivery_limit
            )
            try:
                await self._broker.declare(wanted)
            except* (TopologyMismatch, PermissionDenied) as group:
                errors[route.name] = _worst(group, route.name)
        return errors

    async def remove(self, route: str) -> None:
        """Delete the queue of a route, with what is in it; raises PermissionDenied, too."""
        await self._broker.remove_queue(route)


async def record(ledger: AsyncLedgerConnection, wanted: Sequence[Route], errors: Mapping[str, DeclareError]) -> None:
    """Record in the ledger which routes are there now, and what stands in the way of which."""
    declared = [route.name for route in wanted if route.name not in errors]
    if declared:
        await ledger.fetch(services.routes_declared(declared))
        _log.info("declared %s", ", ".join(declared))
    troubles = {name: error.as_data() for name, error in errors.items() if isinstance(error, TopologyMismatch)}
    if troubles:
        await ledger.fetch(services.routes_refused(troubles))


class Routes:
    """The service that declares routes."""

    name = NAME

    def __init__(
        self,
        ledger: AsyncLedgerConnection,
        candidacy: Candidacy,
        declare: Declare,
        periods: Periods,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._declare = declare
        self._tick = periods.tick
        self._monotonic = monotonic
        self._not_before: dict[str, float] = {}
        self._abstains_until = monotonic()
        self._said: set[str] = set()

    async def run_once(self) -> timedelta:
        """Declare the routes that are not yet; one that cannot be is tried again a minute later and stops no other.

        Raises BrokerUnavailable, also if this login may declare none of them: another process's login may, so this one
        then does not lead for a minute.
        """
        if self._monotonic() < self._abstains_until:
            return LED_ELSEWHERE
        rows = await self._ledger.fetch(ticks.wanted_routes(self._candidacy))
        if not rows[0].leading:
            return LED_ELSEWHERE
        now = self._monotonic()
        wanted = [route for row in rows if (route := row.route()) is not None and self._is_due(route, now)]
        if wanted:
            await self._make(wanted, now)
        return self._tick

    async def _make(self, wanted: Sequence[Route], now: float) -> None:
        errors = await self._declare(wanted)
        denied = [error for error in errors.values() if isinstance(error, PermissionDenied)]
        if len(denied) == len(wanted):
            self._abstains_until = now + _RETRY_SECONDS
            raise BrokerUnavailable(str(denied[0]))
        await record(self._ledger, wanted, errors)
        self._note(errors, now)

    def _is_due(self, route: Route, now: float) -> bool:
        if problem := _problem(route):
            self._say(f"route {route.name!r} cannot be declared: {problem}")
            return False
        return self._not_before.get(route.name, now) <= now

    def _note(self, errors: Mapping[str, DeclareError], now: float) -> None:
        self._not_before = {name: at for name, at in self._not_before.items() if at > now}
        for name, error in errors.items():
            self._not_before[name] = now + _RETRY_SECONDS
            self._say(f"route {name!r} is not declared: {error}")

    def _say(self, what: str) -> None:
        if what not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(what)
            _log.warning("%s", what)


def _problem(route: Route) -> str | None:
    """Return what is wrong with names that came into the ledger by plain SQL, or None."""
    return names.route_problem(route.namespace, route.name)


def _flat(group: BaseExceptionGroup[DeclareError]) -> Iterator[DeclareError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


def _worst(group: BaseExceptionGroup[DeclareError], route: str) -> DeclareError:
    """Return the error about the route's own queue, else the first one."""
    errors = list(_flat(group))
    return next((error for error in errors if isinstance(error, TopologyMismatch) and error.queue == route), errors[0])
