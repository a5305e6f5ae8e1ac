"""Settings become processes: a worker with its embedded coordinator, or a coordinator alone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from uuid_utils.compat import uuid7

from brokerjobs.artifacts.told import store_of, store_options
from brokerjobs.broker.brokers import broker_at
from brokerjobs.coordinator.coordinator import Coordinator
from brokerjobs.coordinator.process import BrokerOptions, Options
from brokerjobs.coordinator.routes import Queues
from brokerjobs.coordinator.service import Periods
from brokerjobs.coordinator.sweeper import Sweeping
from brokerjobs.errors import ConfigurationError
from brokerjobs.ledger.calls import ProcessIdentity
from brokerjobs.ledger.database import ConnectOptions
from brokerjobs.ledger.retention import Horizons
from brokerjobs.ledger.sweeping import Limits
from brokerjobs.rules import capabilities, secrets
from brokerjobs.telemetry.attempts import Topology
from brokerjobs.telemetry.configuration import configure, is_asked_for
from brokerjobs.telemetry.flushing import flush
from brokerjobs.worker.detection import detected
from brokerjobs.worker.options import Duty, WorkerOptions
from brokerjobs.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from brokerjobs.app import App
    from brokerjobs.broker.protocol import Publisher
    from brokerjobs.settings import Settings
    from brokerjobs.settings_values import SecretUrl

_FLUSH_SECONDS: Final = 3.0


def worker_identity(settings: Settings) -> ProcessIdentity:
    """Who this process is as a worker; a new id for each of its starts."""
    host, pid = socket.gethostname(), os.getpid()
    return ProcessIdentity(uuid7(), settings.worker.name or f"{host}:{pid}", host, pid)


def begin_telemetry(settings: Settings, service_name: str, process_id: UUID) -> bool:
    """Sets telemetry up if the standard's OTEL_ variables or the settings ask for it, and nobody has done so.

    Answers whether it did, so that what waits is sent at the exit.  Raises ConfigurationError.
    """
    told = settings.telemetry
    if told.metrics_port is not None:
        _ask_for_prometheus(told.metrics_host, told.metrics_port)
    return is_asked_for() and configure(service_name=service_name, instance_id=str(process_id))


def _ask_for_prometheus(host: str, port: int) -> None:
    """Says it in the variables, which go before the settings; what they say of other exporters stays."""
    variables = os.environ
    if not is_asked_for():
        variables.setdefault("OTEL_TRACES_EXPORTER", "none")
        variables.setdefault("OTEL_METRICS_EXPORTER", "prometheus")
    listed = [one.strip() for one in variables.get("OTEL_METRICS_EXPORTER", "otlp").split(",")]
    if "prometheus" not in listed:
        variables["OTEL_METRICS_EXPORTER"] = ",".join(
            [*(one for one in listed if one not in {"", "none"}), "prometheus"]
        )
    variables.setdefault("OTEL_EXPORTER_PROMETHEUS_HOST", host)
    variables.setdefault("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))


def run_worker(app: App, settings: Settings, process: ProcessIdentity | None = None) -> int:
    """Runs a worker until SIGTERM or SIGINT drains it; a second one goes straight to the limit.

    Answers the exit code: 0 everything reported, 10 something released at the limit, 11 something left to its lease, 12
    too many handlers could not be stopped.  Ends the process with it, at once, if handlers are left that cannot be
    stopped: the event loop and the interpreter would wait for them.
    Raises ConfigurationError, SchemaMismatch, PermissionDenied, LedgerUnavailable.
    """
    process = process or worker_identity(settings)
    sent_at_exit = begin_telemetry(settings, app.namespace, process.id)
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        return runner.run(_run_worker(app, settings, process, sent_at_exit=sent_at_exit))


def _leave(code: int) -> NoReturn:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop, if the extra `speed` is installed."""
    try:
        import uvloop  # noqa: PLC0415  # an extra
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _run_worker(app: App, settings: Settings, process: ProcessIdentity, *, sent_at_exit: bool) -> int:
    publisher = broker_at(coordinator_logins(settings)[1]).publisher(
        time_limit=settings.broker.publish_timeout, heartbeat=settings.broker.heartbeat
    )
    worker = worker_of(app, settings, publisher, process)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.drain)
    try:
        code = await worker.run()
    finally:
        await publisher.close()
        if worker.has_leaks or not sent_at_exit:  # `_leave` goes without an exit
            flush(_FLUSH_SECONDS)
    if worker.has_leaks:
        _leave(code)
    return code


def worker_of(app: App, settings: Settings, publisher: Publisher, process: ProcessIdentity | None = None) -> Worker:
    """A worker of the app's types that have a handler here; with coordinator services unless the settings say no."""
    secrets.own.hide_variables(os.environ)  # errors of handlers are stored, and tell of what handlers use
    database_url, broker_url = database_and_broker(settings)
    process = process or worker_identity(settings)
    duty = Duty(process, app.namespace, {name: one for name, one in app.types.items() if one.handled_by is not None})
    options = WorkerOptions(
        database_url=database_url,
        broker_url=broker_url,
        concurrency=settings.worker.concurrency,
        threads=settings.worker.threads,
        deliveries=settings.worker.deliveries,
        renewal=settings.worker.renewal,
        processes=settings.worker.processes or os.cpu_count() or 1,
        stop_grace=settings.worker.stop_grace,
        leaked_threads=settings.worker.leaked_threads,
        drain=settings.worker.drain,
        heartbeat=settings.worker.heartbeat,
        broker_heartbeat=settings.broker.heartbeat,
        consumer_timeout=settings.broker.consumer_timeout,
        hand_back=settings.broker.hand_back_after,
        clock_skew=settings.worker.clock_skew,
        reconcile=settings.worker.reconcilers,
        capabilities=detected().overridden_by(capabilities.of(settings.worker.capabilities)),
        artifacts=store_options(settings.artifacts),
        probe_host=settings.worker.probe_host,
        probe_port=settings.worker.probe_port,
        topology=Topology(settings.telemetry.topology),
        join_window=settings.telemetry.join_window,
        alive_file=settings.worker.alive_file,
    )
    if not settings.worker.coordinator:
        return Worker(duty, options)
    services_database_url, services_broker_url = coordinator_logins(settings)
    services = Coordinator(
        ledger=ConnectOptions(services_database_url, application="brokerjobs coordinator"),
        publisher=publisher,
        queues=Queues(
            services_broker_url, queue_type=settings.broker.queue_type, delivery_limit=settings.broker.delivery_limit
        ),
        process=process,
        periods=periods(settings),
        sweeping=sweeping(settings),
    )
    return Worker(duty, options, services)


def coordinator_options(settings: Settings, name: str | None = None) -> Options:
    """What a coordinator process of its own is told (`coordinator.process.run`)."""
    database_url, broker_url = coordinator_logins(settings)
    broker = BrokerOptions(
        url=broker_url,
        queue_type=settings.broker.queue_type,
        delivery_limit=settings.broker.delivery_limit,
        heartbeat=settings.broker.heartbeat,
        publish_timeout=settings.broker.publish_timeout,
    )
    ledger = ConnectOptions(database_url, application="brokerjobs coordinator")
    return Options(
        ledger=ledger,
        broker=broker,
        name=name,
        heartbeat=settings.worker.heartbeat,
        periods=periods(settings),
        sweeping=sweeping(settings),
        clock_skew=settings.worker.clock_skew,
        alive_file=settings.worker.alive_file,
        probe_host=settings.worker.probe_host,
        probe_port=settings.worker.probe_port,
    )


def periods(settings: Settings) -> Periods:
    """The periods of coordinator services."""
    told = settings.coordinator
    return Periods(
        service_lease=told.service_lease,
        relay_poll=told.relay_poll,
        tick=told.tick,
        reconcile=told.reconcile,
        probe_timeout=told.probe_timeout,
        hand_back=settings.broker.hand_back_after,
        retention=settings.retention.tick,
        retire_routes_after=told.retire_routes_after,
        latency_objective=settings.telemetry.latency_objective,
        horizons=horizons(settings),
        batch=told.batch,
    )


def horizons(settings: Settings) -> Horizons | None:
    """For how long retention keeps things; None if it is switched off."""
    told = settings.retention
    if not told.enabled:
        return None
    return Horizons(
        succeeded=told.succeeded,
        ended=told.ended,
        keys=told.keys,
        processes=told.processes,
        quarantine=told.quarantine,
    )


def sweeping(settings: Settings) -> Sweeping | None:
    """How artifacts are removed from the store that the settings name; None if there is none.

    Raises ConfigurationError: a store that a coordinator cannot speak to would fill up silently.
    """
    told = settings.artifacts
    if (store := store_of(told)) is None:
        return None
    return Sweeping(
        store=store,
        limits=Limits(incomplete=told.incomplete, rejected=told.keep_rejected, grace=told.grace),
        every=told.sweep,
        remove_orphans_after=told.remove_orphans_after,
    )


def coordinator_logins(settings: Settings) -> tuple[str, str]:
    """Both URLs of the services: their own, else those of their process; raises ConfigurationError."""
    own = settings.coordinator
    return (
        _url(own.database_url or settings.database_url, "database_url"),
        _url(own.broker_url or settings.broker_url, "broker_url"),
    )


def database_and_broker(settings: Settings) -> tuple[str, str]:
    """Both URLs whole; raises ConfigurationError that names what is missing."""
    return _url(settings.database_url, "database_url"), _url(settings.broker_url, "broker_url")


def _url(given: SecretUrl | None, key: str) -> str:
    if given is None:
        message = f"{key} is not set; set BROKERJOBS_{key.upper()}, or {key} in brokerjobs.toml"
        raise ConfigurationError(message)
    return given.get_secret_value()
