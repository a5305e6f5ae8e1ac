"""The one shape of a service, and its loop in a process that may or may not lead it.

Any number of copies may run.  So that idle ones cost nothing, a service is led: its tick takes or keeps the lead in its
own statement, and whoever does not lead asks nothing of the ledger until a heartbeat has answered that nobody does.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from brokerjobs.errors import (
    ArtifactStoreRefused,
    ArtifactStoreUnavailable,
    BrokerUnavailable,
    LedgerUnavailable,
    PermissionDenied,
)
from brokerjobs.ledger.retention import Horizons

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from brokerjobs.ledger.calls import ProcessIdentity
    from brokerjobs.ledger.services import Leader

LED_ELSEWHERE: Final = timedelta.max
"""The delay of a service that another process leads: until nobody is heard to lead it."""

# While the ledger gives no answer: doubling, with jitter so that copies do not ask in step.
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """How often services work, how much at once, and what they leave alone."""

    service_lease: timedelta = timedelta(seconds=4)
    """How long a lead lasts after a tick; at least twice `tick` and `relay_poll`."""
    relay_poll: timedelta = timedelta(milliseconds=50)
    tick: timedelta = timedelta(seconds=1)
    partitions: timedelta = timedelta(hours=1)
    reconcile: timedelta = timedelta(seconds=30)
    """How often the ledger is searched for lost doorbells, and at most how often probes are sent."""
    probe_timeout: timedelta = timedelta(minutes=10)
    """After what time without its return a probe is followed by another."""
    hand_back: timedelta = timedelta(minutes=5)
    """For how long a worker keeps a delivery that it cannot claim (the workers' own setting)."""
    retention: timedelta = timedelta(minutes=1)
    """How often the ledger is searched for what can be removed, while there is nothing."""
    retire_routes_after: timedelta = timedelta(hours=24)
    """After what time without a job a route is retired."""
    latency_objective: timedelta = timedelta(seconds=60)
    """How long a job may wait in a queue, as the monitor tells it to whoever alerts."""
    horizons: Horizons | None = field(default_factory=Horizons)
    """For how long what has ended is kept; None: nothing is removed."""
    batch: int = 200
    """Rows that one tick takes at most."""


class Service(Protocol):
    """Bounded work whose every tick is safe beside any number of copies."""

    @property
    def name(self) -> str:
        """The service's name in the ledger."""
        ...

    async def run_once(self) -> timedelta:
        """Do one tick and return after what time the next is due, or `LED_ELSEWHERE`.

        Raises LedgerUnavailable, PermissionDenied, and, if another process should try, BrokerUnavailable or what a
        store of artifacts says.
        """
        ...


@dataclass(frozen=True, slots=True)
class Owner:
    """What a candidate needs of the process that runs it."""

    process: ProcessIdentity
    resign: Callable[[Sequence[str]], Awaitable[None]]
    """Gives up the lead of services, if the ledger answers."""
    rest: Callable[[], Awaitable[None]]
    """Called when a service has come to be led elsewhere."""


class Candidate:
    """One service in one process: a candidate while nobody else is known to lead it, the leader after a tick."""

    def __init__(self, service: Service, owner: Owner) -> None:
        self._service = service
        self._owner = owner
        self._may_lead = asyncio.Event()
        self._leaving = asyncio.Event()
        self._failures = 0
        self._leads = False
        self._trouble = ""

    @property
    def name(self) -> str:
        """The service's name."""
        return self._service.name

    @property
    def active(self) -> bool:
        """Whether the service asks the ledger for anything."""
        return self._may_lead.is_set() and not self._leaving.is_set()

    def hear(self, leader: Leader | None) -> None:
        """Take in what a heartbeat said of this service; `leader` is None if it never had one."""
        if leader is None or leader.holder == self._owner.process.id or leader.seconds_left <= 0:
            self._may_lead.set()
        elif not self._leaving.is_set():
            self._may_lead.clear()

    def leave(self) -> None:
        """End `run` after the statement that it is in."""
        self._leaving.set()
        self._may_lead.set()

    async def run(self) -> None:
        """Tick whenever it is due and nobody else leads; until `leave`.

        Raises PermissionDenied, after giving up the lead, and whatever is no matter of a server being away.
        """
        await self._may_lead.wait()
        while not self._leaving.is_set():
            delay = await self._tick()
            if delay != LED_ELSEWHERE:
                await self._pause(delay)
            elif not self._leaving.is_set():
                self._may_lead.clear()
            await self._follow()

    async def _tick(self) -> timedelta:
        try:
            delay = await self._service.run_once()
        except LedgerUnavailable as error:
            return self._back_off(error)
        except (BrokerUnavailable, ArtifactStoreUnavailable, ArtifactStoreRefused) as error:
            if self._trouble != str(error):
                self._trouble = str(error)
                _log.warning("%s gives up its lead, since another process may do better: %s", self.name, error)
            return await self._step_down()
        except PermissionDenied:
            await self._step_down()
            raise
        self._failures = 0
        self._say(leads=delay != LED_ELSEWHERE)
        return delay

    def _back_off(self, error: LedgerUnavailable) -> timedelta:
        if self._failures == 0:
            _log.warning("%s waits for the ledger: %s", self.name, error)
        self._failures += 1
        return pause_after(self._failures, random.random())

    async def _step_down(self) -> timedelta:
        if self._leads:
            self._say(leads=False)
            await self._owner.resign([self.name])
        return LED_ELSEWHERE

    async def _follow(self) -> None:
        """Wait for as long as another process leads."""
        if not self._may_lead.is_set():
            self._say(leads=False)
            await self._owner.rest()
            await self._may_lead.wait()

    async def _pause(self, delay: timedelta) -> None:
        try:
            async with asyncio.timeout(delay.total_seconds()):
                await self._leaving.wait()
        except TimeoutError:
            pass

    def _say(self, *, leads: bool) -> None:
        if leads != self._leads:
            self._leads = leads
            _log.info("%s %s %s", self._owner.process.name, "leads" if leads else "no longer leads", self.name)


def pause_after(failures: int, jitter: float) -> timedelta:
    """Return how long to leave the ledger alone after so many calls in a row without an answer; jitter is 0 to 1."""
    doubled: int = 2 ** min(failures - 1, 10)
    return timedelta(seconds=min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * doubled) * (0.5 + jitter / 2))
