"""The program behind `brokerjobs coordinator`: the services under a login of their own, apart from any worker."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, cast

from uuid_utils.compat import uuid7

from brokerjobs.alive import AliveFile
from brokerjobs.broker.brokers import broker_at
from brokerjobs.coordinator.coordinator import Coordinator
from brokerjobs.coordinator.health import CoordinatorHealth
from brokerjobs.coordinator.routes import Queues
from brokerjobs.coordinator.service import Periods
from brokerjobs.errors import LedgerUnavailable, PermissionDenied
from brokerjobs.ledger import schema, services
from brokerjobs.ledger.calls import ProcessIdentity
from brokerjobs.ledger.clock_watch import ClockWatch
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.ledger.services import Heartbeat
from brokerjobs.telemetry.health_http import answering

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from uuid import UUID

    from brokerjobs.coordinator.sweeper import Sweeping

_JITTER: Final = 0.1
_GOODBYE: Final = timedelta(seconds=1)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """How the broker is reached, and what routes are declared as."""

    url: str = field(repr=False)
    queue_type: Literal["quorum", "classic"] = "quorum"
    delivery_limit: int = 20
    heartbeat: timedelta = timedelta(seconds=15)
    publish_timeout: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a coordinator process is told; several may run on one ledger."""

    ledger: ConnectOptions
    broker: BrokerOptions
    name: str | None = None
    """The name in the ledger, by default host and process id."""
    id: UUID = field(default_factory=uuid7)
    heartbeat: timedelta = timedelta(seconds=10)
    periods: Periods = field(default_factory=Periods)
    sweeping: Sweeping | None = None
    """How artifacts are removed from their store; None: not by this process."""
    clock_skew: timedelta = timedelta(seconds=1)
    """How far this host's clock may be from the ledger's before that is said."""
    alive_file: Path | None = None
    """Touched whenever the ledger has answered a heartbeat."""
    probe_host: str = "127.0.0.1"
    probe_port: int | None = None
    """Where `/livez`, `/readyz` and `/startupz` are answered; None: nowhere."""


def run(options: Options) -> int:
    """Run until SIGTERM or SIGINT, then hand over, and return exit code 0; raises as `serve`."""
    asyncio.run(_until_signalled(options))
    return 0


async def _until_signalled(options: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(options, stop)


async def serve(options: Options, stop: asyncio.Event) -> None:
    """Run until `stop` is set, then hand over and end.

    Raises LedgerUnavailable at the start only, SchemaMismatch, PermissionDenied if the login may run no service, and
    whatever else ended the services.
    """
    broker = options.broker
    rings = broker_at(broker.url).publisher(time_limit=broker.publish_timeout, heartbeat=broker.heartbeat)
    process = _identity(options)
    health = CoordinatorHealth(stop.is_set, options.heartbeat.total_seconds())
    pulse = Pulse(options, process, health)
    coordinator = Coordinator(
        ledger=options.ledger,
        publisher=rings,
        queues=Queues(broker.url, queue_type=broker.queue_type, delivery_limit=broker.delivery_limit),
        process=process,
        periods=options.periods,
        sweeping=options.sweeping,
    )
    try:
        with answering(health, options.probe_host, options.probe_port):
            await pulse.check_schema()
            _log.info("coordinator %s is up", process.name)
            # The relay may be in the middle of a batch; what it does not mark is rung again.
            await _together(coordinator, pulse, stop, broker.publish_timeout + _GOODBYE)
    except ExceptionGroup as group:
        raise _first(cast("Exception", group)) from group
    finally:
        await pulse.stop()
        await rings.close()


async def _together(coordinator: Coordinator, pulse: Pulse, stop: asyncio.Event, goodbye: timedelta) -> None:
    """Run services and heartbeats until `stop`, then hand over and let the services end within `goodbye`."""
    async with asyncio.TaskGroup() as group:
        services = group.create_task(coordinator.run(), name="coordinator")
        beating = group.create_task(pulse.run(coordinator), name="heartbeat")
        await _first_of(stop, services)
        await coordinator.hand_over()
        await asyncio.wait({services}, timeout=goodbye.total_seconds())
        services.cancel()
        beating.cancel()
    if not stop.is_set():
        message = "this database login may run no coordinator service; `brokerjobs setup --grant` gives roles"
        raise PermissionDenied(message)


async def _first_of(stop: asyncio.Event, services: asyncio.Task[None]) -> None:
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({stopping, services}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()


def _first(error: Exception) -> Exception:
    """Return the first error of a group: whoever maps errors to exit codes knows no groups."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _identity(options: Options) -> ProcessIdentity:
    return ProcessIdentity(options.id, name_of(options), socket.gethostname(), os.getpid())


def name_of(options: Options) -> str:
    """The name in the ledger and in log lines."""
    return options.name or f"coordinator@{socket.gethostname()}:{os.getpid()}"


class Pulse:
    """The heartbeats of a coordinator process, over a connection of their own."""

    def __init__(self, options: Options, process: ProcessIdentity, health: CoordinatorHealth) -> None:
        self._health = health
        self._ledger = AsyncLedgerConnection(options.ledger)
        self._alive = AliveFile(options.alive_file)
        self._clock = ClockWatch(options.clock_skew)
        self._process = process
        self._period_seconds = options.heartbeat.total_seconds()
        self._began = False

    async def check_schema(self) -> None:
        """Raise SchemaMismatch if the ledger's schema does not serve this code; LedgerUnavailable, PermissionDenied."""
        self._alive.begin()
        for version in await self._ledger.fetch(services.schema_version()):
            schema.check(version.schema_version, version.oldest_code)

    async def run(self, coordinator: Coordinator) -> None:
        """Beat, and tell the coordinator who leads; raises PermissionDenied."""
        while True:
            try:
                coordinator.hear(await self._beat("online"))
            except LedgerUnavailable:
                self._health.ledger.gave_no_answer()
            else:
                self._health.ledger.answered()
                self._alive.show()
            await asyncio.sleep(self._period_seconds * random.uniform(1 - _JITTER, 1 + _JITTER))

    async def stop(self) -> None:
        """Say goodbye within a second, and close."""
        with suppress(LedgerUnavailable, PermissionDenied, TimeoutError):
            async with asyncio.timeout(_GOODBYE.total_seconds()):
                if self._began:
                    await self._beat("stopped")
        await self._ledger.close()

    async def _beat(self, state: str) -> Sequence[services.Leader]:
        beat = Heartbeat(
            process=self._process,
            role="coordinator",
            namespace=None,
            types=(),
            routes=(),
            state=state,
            observed_at=datetime.now(UTC),
            detail={"clock_skew_seconds": self._clock.skew_seconds},
        )
        asked = time.monotonic()
        rows = await self._ledger.fetch(services.heartbeat(beat))
        self._clock.look(beat.observed_at, time.monotonic() - asked, rows[0].at)
        self._began = True
        return services.leaders(rows)
