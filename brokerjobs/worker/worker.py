"""One worker process: wires the steps of the hot path, registers itself, and drains in order."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from brokerjobs.alive import AliveFile
from brokerjobs.broker.brokers import broker_at
from brokerjobs.errors import LedgerUnavailable
from brokerjobs.handlers import RunsIn
from brokerjobs.ledger import schema, services
from brokerjobs.ledger.clock_watch import ClockWatch
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, LedgerConnection
from brokerjobs.ledger.lending import Lending
from brokerjobs.rules.line import Line
from brokerjobs.rules.stock import Stock
from brokerjobs.rules.texts import counted
from brokerjobs.telemetry.attaching import apart
from brokerjobs.telemetry.health_http import answering
from brokerjobs.worker.claims import Answers, Claims
from brokerjobs.worker.completions import Completions
from brokerjobs.worker.context import Doors
from brokerjobs.worker.hand_back import HandBack
from brokerjobs.worker.health import WorkerHealth
from brokerjobs.worker.inbox import Inbox
from brokerjobs.worker.leases import Calls, LeaseKeeper
from brokerjobs.worker.options import check
from brokerjobs.worker.probes import Probes
from brokerjobs.worker.processes import Processes
from brokerjobs.worker.quarantine import Quarantine
from brokerjobs.worker.reconcilers import Reconcilers
from brokerjobs.worker.reserving import Reserving
from brokerjobs.worker.route_check import check_routes
from brokerjobs.worker.routes import Routes
from brokerjobs.worker.runner import Places, Runner
from brokerjobs.worker.running import Running
from brokerjobs.worker.settlement import Settlement
from brokerjobs.worker.slots import Slots
from brokerjobs.worker.traces import Traces
from brokerjobs.worker.uploads import Uploads
from brokerjobs.worker.vital_signs import VitalSigns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.broker.protocol import Delivery, Probe, Unreadable
    from brokerjobs.worker.attempt import Attempt
    from brokerjobs.worker.options import Duty, Services, WorkerOptions

log = logging.getLogger("brokerjobs.worker")

_LAST_RECORD_SECONDS: Final = 2.0


class DrainedWith(enum.IntEnum):
    """How a drain ended, as the exit code says it; the last one began by itself: too much could not be stopped."""

    EVERYTHING_REPORTED = 0
    SOMETHING_RELEASED = 10
    SOMETHING_LEFT_TO_ITS_LEASE = 11
    TO_BE_REPLACED = 12


class Worker:
    """Runs the job types of its duty until it is told to drain; made on the event loop that it runs on."""

    def __init__(self, duty: Duty, options: WorkerOptions, services: Services | None = None) -> None:
        check(duty, options)
        self._duty = duty
        self._options = options
        self._services = services
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()
        self._recycling = False
        self._clock = ClockWatch(options.clock_skew)
        self._registered = False
        self._wire()

    def _wire(self) -> None:
        options, duty = self._options, self._duty
        ledger = ConnectOptions(options.database_url, application=f"brokerjobs {duty.process.name}"[:63])
        self._handlers = {name: one.handled_by for name, one in duty.types.items() if one.handled_by is not None}
        handlers = self._handlers.values()
        self._claiming = AsyncLedgerConnection(ledger)
        self._reporting = AsyncLedgerConnection(ledger)
        self._lending = Lending(ledger, limit=options.concurrency)
        self._threads = ThreadPoolExecutor(options.threads, thread_name_prefix="brokerjobs-handler")
        self._uploads = Uploads(self._reporting)
        self._processes = Processes(duty.types.values(), options.processes, self._uploads, options.artifacts)
        stock = Stock(options.capabilities)
        line: Line[Delivery] = Line(stock, early=options.hand_back.total_seconds())
        self._inbox = Inbox(line)
        used = {one.runs_in for one in handlers}
        places = {
            RunsIn.TASK: options.concurrency,
            RunsIn.THREAD: options.threads,
            RunsIn.PROCESS: options.processes,
        }
        self._slots = Slots({kind: places[kind] for kind in used})
        self._reserving = Reserving(line, stock, self._inbox, self._slots)
        self._consumer = broker_at(options.broker_url).consumer(
            {},
            self._inbox.put,
            self._unreadable,
            on_probe=self._probed,
            heartbeat=options.broker_heartbeat,
        )
        self._quarantine = Quarantine(self._consumer, self._claiming, duty.process.name)
        self._probes = Probes(self._consumer, self._claiming, duty.process.name)
        self._routes = Routes(self._consumer, self._inbox, options.capabilities, stock, options.deliveries)
        self._settlement = Settlement(self._consumer, self._claiming)
        self._hand_back = HandBack(
            self._inbox, self._claiming, self._settlement.ack, duty.process.name, options.hand_back
        )
        self._completions = Completions(self._reporting)
        self._runner = Runner(
            self._completions,
            self._settlement,
            Doors(self._lending, self._completions, self._uploads, options.artifacts),
            Places(self._threads, self._processes),
        )
        self._attempts = Running(
            self._runner,
            self._slots,
            self._reserving,
            grace=options.stop_grace,
            limit=options.leaks_at_most,
            at_limit=self._recycle,
        )
        self._traces = Traces(duty, options, self._claiming)
        self._claims = Claims(
            duty,
            self._claiming,
            self._inbox,
            self._slots,
            Answers(self._granted, self._not_granted, self._strange, self._routes.met),
            self._traces,
        )
        self._reconcilers = Reconcilers(duty, ledger, options.reconcile)
        self._keeping = LedgerConnection(ledger)
        self._keeper = LeaseKeeper(
            self._keeping,
            asyncio.get_running_loop(),
            renewal=options.renewal,
            heartbeat=options.heartbeat,
            calls=Calls(self._beat, self._attempts.stopping.cancel, lambda: self._routes.stand_still),
        )
        self._health = WorkerHealth(
            self._keeper, self._consumer, self._routes, self._draining.is_set, options.heartbeat.total_seconds()
        )
        self._vital_signs = VitalSigns(
            duty, options, self._consumer, self._inbox, self._slots, self._attempts, self._clock
        )
        self._alive = AliveFile(options.alive_file)

    @property
    def unclaimed(self) -> int:
        """How many deliveries wait in this process for a free slot."""
        return len(self._inbox)

    @property
    def has_leaks(self) -> bool:
        """Are there handlers that cannot be stopped? Then the interpreter would wait for them at its end."""
        return self._attempts.go_on + len(self._attempts) > 0

    def drain(self) -> None:
        """Stops taking jobs and lets running attempts finish; a second call goes straight to the limit."""
        if self._draining.is_set():
            self._hurry.set()
        self._draining.set()

    async def run(self) -> DrainedWith:
        """Runs until `drain`; raises SchemaMismatch (TopologyMismatch), PermissionDenied, LedgerUnavailable."""
        with answering(self._health, self._options.probe_host, self._options.probe_port):
            return await self._run()

    async def _run(self) -> DrainedWith:
        try:
            self._alive.begin()
            await self._register()
            async with asyncio.TaskGroup() as self._group:
                reporting = (self._completions.run, self._uploads.run, self._settlement.run, self._traces.run)
                steps = (self._consumer.run, self._claims.run, *reporting)
                asides = (self._quarantine.run, self._probes.run, self._routes.run, self._hand_back.run)
                keeping = (self._keeper.run, self._attempts.run, self._processes.run)
                loops = (*steps, *asides, *keeping)
                tasks = [self._group.create_task(run(), context=apart(copy_context())) for run in loops]
                tasks.append(self._group.create_task(self._reconcilers.run()))  # of the user's code, as handlers
                services = self._group.create_task(self._services.run()) if self._services else None
                log.info(
                    "worker %s is up for %s and connects to the broker",
                    self._duty.process.name,
                    ", ".join(self._routes.names) or "no route yet",
                )
                await self._draining.wait()
                drained = await self._drain(services)
                for task in tasks:
                    task.cancel()
            return drained
        finally:
            await self._close()

    async def _register(self) -> None:
        """Checks the schema and registers what this worker handles."""
        (version,) = await self._claiming.fetch(services.schema_version())
        schema.check(version.schema_version, version.oldest_code)
        types = [job_type.as_data() for job_type in self._duty.types.values()]
        for registered in await self._claiming.fetch(
            services.register_types(self._duty.namespace, types, change=False)
        ):
            if registered.verdict == "differs":
                log.warning(
                    "job type %r has other terms in the ledger: %s there, %s here; "
                    "`brokerjobs setup module:app` changes them",
                    registered.name,
                    registered.was,
                    registered.wanted,
                )
        (found,) = await self._claiming.fetch(services.routes_of_types(self._duty.namespace, sorted(self._duty.types)))
        await self._routes.begin(found.routes)
        await check_routes(self._claiming, self._routes.names, self._services)
        self._registered = True
        # Before its first claim: that one is granted by, and recorded with, what the ledger knows of this worker.
        await asyncio.to_thread(self._beat, self._keeping, 0.0)

    def _unreadable(self, message: Unreadable) -> None:
        self._quarantine.put(message, message.reason)

    def _probed(self, probe: Probe) -> None:
        self._probes.put(probe)

    def _granted(self, attempt: Attempt) -> None:
        """Starts a granted attempt."""
        self._attempts.start(attempt, self._handlers[attempt.job_type.name], self._keeper)
        longest = self._options.consumer_timeout.total_seconds() / 2
        if attempt.waits or attempt.claimed.time_limit_seconds > longest:
            # The broker would close the channel under it; the ledger keeps the job under its lease (rule R4).
            attempt.acked_on_claim = True
            self._settlement.ack(attempt.delivery, attempt)

    def _not_granted(self, delivery: Delivery) -> None:
        self._reserving.release(delivery)
        self._settlement.ack(delivery)

    def _strange(self, delivery: Delivery, reason: str) -> None:
        self._reserving.release(delivery)
        self._quarantine.put(delivery, reason)

    def _recycle(self) -> None:
        """Ends this process in order, so that its supervisor starts one with all its places free."""
        if not self._recycling:
            self._recycling = True
            log.error(
                "%s that cannot be stopped: this worker drains and ends with code %d, to be started again",
                counted(self._attempts.leaked, "place is held by a handler", "places are held by handlers"),
                DrainedWith.TO_BE_REPLACED,
            )
            self._draining.set()

    async def _drain(self, services: asyncio.Task[None] | None) -> DrainedWith:
        """In order, each step bounded: what is not claimed, what runs, what leads, what is acknowledged."""
        running = counted(len(self._attempts), "attempt runs", "attempts run")
        log.info("draining: %s, limit %g s", running, self._options.drain.total_seconds())
        await self._consumer.stop_consuming()
        unknown = await self._claims.stop()
        await self._hand_back.drain()
        left = unknown + await self._attempts.drain(self._options.drain, self._hurry, self._keeper)
        if self._services is not None and services is not None:
            await self._services.hand_over()
            services.cancel()
        self._settlement.flush()
        await self._consumer.flush()
        with contextlib.suppress(TimeoutError):  # the ledger does not answer: what was acknowledged is not said there
            async with asyncio.timeout(_LAST_RECORD_SECONDS):
                await self._settlement.record()
        await self._consumer.close()
        if left:
            log.warning(
                "drained: %s", counted(left, "attempt is left to its lease", "attempts are left to their leases")
            )
        else:
            log.info("drained: nothing is left to its lease, %d given back", self._attempts.released)
        if self._recycling:
            return DrainedWith.TO_BE_REPLACED
        if left:
            return DrainedWith.SOMETHING_LEFT_TO_ITS_LEASE
        return DrainedWith.SOMETHING_RELEASED if self._attempts.released else DrainedWith.EVERYTHING_REPORTED

    def _beat(self, connection: LedgerConnection, loop_silent_seconds: float) -> None:
        """Sends one heartbeat; called by the lease keeper's thread."""
        try:
            self._send_beat(connection, "draining" if self._draining.is_set() else "online", loop_silent_seconds)
        except LedgerUnavailable:
            self._health.ledger.gave_no_answer()
            raise
        self._health.ledger.answered()
        if loop_silent_seconds < self._options.heartbeat.total_seconds():
            self._alive.show()

    def _send_beat(self, connection: LedgerConnection, state: str, loop_silent_seconds: float) -> None:
        beat = services.Heartbeat(
            self._duty.process,
            "worker",
            self._duty.namespace,
            sorted(self._duty.types),
            self._routes.names,
            state,
            datetime.now(UTC),
            self._vital_signs.as_data(loop_silent_seconds),
        )
        asked = time.monotonic()
        (said,) = connection.fetch(services.worker_beat(beat))
        self._clock.look(beat.observed_at, time.monotonic() - asked, said.at)
        self._keeper.loop.call_soon_threadsafe(self._routes.hear, said.routes, said.paused, said.paused_queues)
        if self._services is not None:
            asyncio.run_coroutine_threadsafe(_told(self._services, said.who_leads()), self._keeper.loop)

    async def _close(self) -> None:
        await self._attempts.close()
        await asyncio.to_thread(self._keeper.stop)
        if self._registered:
            await asyncio.to_thread(self._send_last_beat)
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._lending.close()
        await self._claiming.close()
        await self._reporting.close()

    def _send_last_beat(self) -> None:
        services, self._services = self._services, None
        try:
            self._send_beat(self._keeping, "stopped", 0.0)
        except LedgerUnavailable:
            log.debug("no last heartbeat")
        finally:
            self._services = services
            self._keeping.close()


async def _told(services: Services, leaders: Sequence[services.Leader]) -> None:
    services.hear(leaders)
