"""All services of a coordinator in one process, over one ledger connection that is open only while one is led."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from brokerjobs.coordinator import (
    explainer,
    monitor,
    partitions,
    reaper,
    reconcile,
    relay,
    retention,
    retirement,
    retry_budget,
    routes,
    scheduler,
    sweeper,
)
from brokerjobs.coordinator.service import Candidate, Owner, Periods
from brokerjobs.errors import BrokerUnavailable, LedgerUnavailable, PermissionDenied, TopologyMismatch
from brokerjobs.ledger import ticks
from brokerjobs.ledger.database import AsyncLedgerConnection
from brokerjobs.ledger.ticks import Candidacy
from brokerjobs.telemetry.instruments import measuring

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from brokerjobs.broker.protocol import Publisher
    from brokerjobs.coordinator.routes import Queues
    from brokerjobs.coordinator.service import Service
    from brokerjobs.coordinator.sweeper import Sweeping
    from brokerjobs.ledger.calls import ProcessIdentity
    from brokerjobs.ledger.database import ConnectOptions
    from brokerjobs.ledger.services import Leader, Route

_HAND_OVER_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Coordinator:
    """The services of one process; it works on nothing before it has heard who leads."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        ledger: ConnectOptions,
        publisher: Publisher,
        queues: Queues,
        process: ProcessIdentity,
        periods: Periods | None = None,
        sweeping: Sweeping | None = None,
    ) -> None:
        self._ledger = AsyncLedgerConnection(ledger)
        self._process = process
        self._queues = queues
        owner = Owner(process=process, resign=self._resign, rest=self._rest)
        services = _services(self._ledger, process, publisher, queues, periods or Periods())
        if sweeping is not None:
            services.append(sweeper.Sweeper(self._ledger, process, sweeping, periods or Periods()))
        self._candidates = [Candidate(service, owner) for service in services]
        self._denied = False

    @property
    def services(self) -> frozenset[str]:
        """The services for whose lead this process stands."""
        return frozenset(candidate.name for candidate in self._candidates)

    def hear(self, leaders: Sequence[Leader]) -> None:
        """Take in the answer to a heartbeat of this process: who leads which service, for how long yet."""
        by_service = {leader.service: leader for leader in leaders}
        for candidate in self._candidates:
            candidate.hear(by_service.get(candidate.name))

    async def declare(self, wanted: Sequence[Route]) -> Sequence[TopologyMismatch]:
        """Declare routes at once, whoever leads, and return what stands in the way.

        What this process may not or cannot do is left to the service.
        """
        errors: Mapping[str, routes.DeclareError] = {}
        try:
            errors = await self._queues.declare(wanted)
            await routes.record(self._ledger, wanted, errors)
        except (BrokerUnavailable, LedgerUnavailable, PermissionDenied) as error:
            _log.info("this process leaves its routes to others: %s", error)
        await self._rest()
        return [error for error in errors.values() if isinstance(error, TopologyMismatch)]

    async def run(self) -> None:
        """Run the services until `hand_over`, or until each was found to be denied to this login, which is said once.

        An error that is no matter of a server being away ends all of them and is raised, in an ExceptionGroup.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for candidate in self._candidates:
                    group.create_task(self._run(candidate), name=f"coordinator {candidate.name}")
        finally:
            await self._ledger.close()

    async def hand_over(self) -> None:
        """End `run` once its statements under way have ended, and give up its leads; within a second, never fails."""
        active = [candidate.name for candidate in self._candidates if candidate.active]
        for candidate in self._candidates:
            candidate.leave()
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                await self._resign(active)
                await self._ledger.close()
        except TimeoutError:
            # The statement that was cut off, or the end of `run`, has closed the connection.
            _log.info("the leads of this process run out by themselves: the ledger did not answer in time")

    async def _run(self, candidate: Candidate) -> None:
        try:
            await candidate.run()
        except PermissionDenied as error:
            # What this login lacks for one service it usually lacks for all: that is said once.
            level = logging.DEBUG if self._denied else logging.WARNING
            self._denied = True
            _log.log(level, "coordinator service %s is not run by this process: %s", candidate.name, error)
            candidate.leave()

    async def _resign(self, services: Sequence[str]) -> None:
        if services:
            try:
                await self._ledger.fetch(ticks.give_up(self._process, services))
            except (LedgerUnavailable, PermissionDenied) as error:
                _log.info("the lead of %s runs out by itself: %s", ", ".join(services), error)

    async def _rest(self) -> None:
        if not any(candidate.active for candidate in self._candidates):
            await self._ledger.close()


def service_names(*, removing: bool) -> frozenset[str]:
    """The services that a coordinator runs, with or without retention.

    The sweeper of its store comes to them, and the monitor where somebody takes metrics.
    """
    always = (relay, reaper, scheduler, explainer, routes, retirement, partitions, reconcile, retry_budget)
    names = {service.NAME for service in always}
    return frozenset(names | {retention.NAME} if removing else names)


def _services(
    ledger: AsyncLedgerConnection, process: ProcessIdentity, publisher: Publisher, queues: Queues, periods: Periods
) -> list[Service]:
    def candidacy(service: str, lead: timedelta = periods.service_lease) -> Candidacy:
        return Candidacy(service, process, lead.total_seconds())

    services: list[Service] = [
        relay.Relay(ledger, candidacy(relay.NAME), publisher, periods),
        reaper.Reaper(ledger, candidacy(reaper.NAME), periods),
        scheduler.Scheduler(ledger, candidacy(scheduler.NAME), periods),
        explainer.Explainer(ledger, candidacy(explainer.NAME), periods),
        routes.Routes(ledger, candidacy(routes.NAME), queues.declare, periods),
        retirement.Retirement(
            ledger,
            candidacy(retirement.NAME, retirement.delay_of(periods) + periods.service_lease),
            queues.remove,
            periods,
        ),
        partitions.Partitions(ledger, candidacy(partitions.NAME, periods.partitions + periods.service_lease), periods),
        reconcile.Reconcile(
            ledger, candidacy(reconcile.NAME, periods.reconcile + periods.service_lease), publisher, periods
        ),
        retry_budget.RetryBudget(
            ledger, candidacy(retry_budget.NAME, retry_budget.delay_of(periods) + periods.service_lease), periods
        ),
    ]
    if periods.horizons is not None:
        lead = candidacy(retention.NAME, periods.retention + periods.service_lease)
        services.append(retention.Retention(ledger, lead, periods.horizons, periods))
    if measuring.look() is not None:
        services.append(
            monitor.Monitor(ledger, candidacy(monitor.NAME, monitor.DELAY + periods.service_lease), periods)
        )
    return services
