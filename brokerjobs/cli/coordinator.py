"""`brokerjobs coordinator`."""

from __future__ import annotations

from typing import Annotated

import typer

from brokerjobs.cli import logs, options


def coordinator(
    *,
    name: Annotated[str | None, typer.Option(show_default=False, help="The name in records. [host:pid]")] = None,
    database_url: options.DatabaseUrl = None,
    broker_url: options.BrokerUrl = None,
    log_level: logs.LogLevel = logs.Level.INFO,
) -> None:
    """Run the services of time and failure (relay, reaper, scheduler …) until SIGTERM; any number may run."""
    logs.set_up(log_level)
    settings = options.settings_of({"database_url": database_url, "broker_url": broker_url})
    from brokerjobs import wiring  # noqa: PLC0415  # slow: the drivers of both servers
    from brokerjobs.coordinator import process  # noqa: PLC0415  # ditto

    raise typer.Exit(process.run(wiring.coordinator_options(settings, name)))
