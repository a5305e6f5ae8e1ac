"""`brokerjobs coordinator`."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from brokerjobs.cli import logs, options
from brokerjobs.errors import BrokerUnavailable

_log = logging.getLogger(__name__)


def coordinator(
    *,
    name: Annotated[str | None, typer.Option(show_default=False, help="The name in records. [host:pid]")] = None,
    database_url: options.DatabaseUrl = None,
    broker_url: options.BrokerUrl = None,
    log_level: logs.LogLevel = logs.Level.INFO,
) -> None:
    """Run the services that ring, retry, expire and clean up, until SIGTERM; any number of coordinators may run."""
    logs.set_up(log_level)
    # Before the services' own URLs of variables and file, not only before those that they share with workers.
    settings = options.settings_of({"coordinator.database_url": database_url, "coordinator.broker_url": broker_url})
    import asyncio  # noqa: PLC0415  # slow

    from brokerjobs import wiring  # noqa: PLC0415  # slow: the drivers of both servers
    from brokerjobs.coordinator import process  # noqa: PLC0415  # ditto

    told = wiring.coordinator_options(settings, name)
    logs.set_up(log_level, settings.log.format, process.name_of(told))
    wiring.begin_telemetry(settings, "brokerjobs-coordinator", told.id)
    asyncio.run(_log_in(told.broker.url))
    raise typer.Exit(process.run(told))


async def _log_in(url: str) -> None:
    """Find out at the start whether the broker refuses the login: the relay logs in when it has something to ring.

    Raises PermissionDenied, ConfigurationError; a broker that is away may come back.
    """
    from brokerjobs.broker.brokers import broker_at  # noqa: PLC0415  # slow

    try:
        await broker_at(url).product()
    except BrokerUnavailable as error:
        _log.warning("%s", error)
