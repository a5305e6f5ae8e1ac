"""`brokerjobs worker`."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated, NoReturn

import typer

from brokerjobs.cli import apps, failures, logs, options


def worker(
    application: options.Application = None,
    *,
    concurrency: Annotated[
        int | None, typer.Option(show_default=False, help="How many async handlers run at once. [20]")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(show_default=False, help="How many sync handlers run at once. [8]")
    ] = None,
    prefetch: Annotated[
        int | None, typer.Option(show_default=False, help="Deliveries held at once. [2 x concurrency]")
    ] = None,
    name: Annotated[
        str | None, typer.Option(show_default=False, help="The worker's name in records. [host:pid]")
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(metavar="TIME", show_default=False, help="How long attempts may go on after SIGTERM. [25s]"),
    ] = None,
    coordinator: Annotated[
        bool | None,
        typer.Option("--coordinator/--no-coordinator", show_default=False, help="Run the services of time too. [yes]"),
    ] = None,
    database_url: options.DatabaseUrl = None,
    broker_url: options.BrokerUrl = None,
    log_level: logs.LogLevel = logs.Level.INFO,
) -> None:
    """Run the jobs of an application until SIGTERM, then let what runs finish.

    Ends with 0 if everything was reported, 10 if something was given back at the limit, 11 if something is left to
    its lease.  A second SIGTERM goes straight to the limit.
    """
    logs.set_up(log_level)
    settings = options.settings_of(
        {
            "app": application,
            "database_url": database_url,
            "broker_url": broker_url,
            "worker.concurrency": concurrency,
            "worker.threads": threads,
            "worker.prefetch": prefetch,
            "worker.name": name,
            "worker.drain": drain,
            "worker.coordinator": coordinator,
        }
    )
    app = apps.load(settings.need_app())
    from brokerjobs import wiring  # noqa: PLC0415  # slow: the drivers of both servers

    code = wiring.run_worker(app, settings)
    if code == failures.ExitCode.LEFT_TO_LEASE:
        _leave(code)
    raise typer.Exit(code)


def _leave(code: int) -> NoReturn:
    """End at once: the interpreter would wait for the threads of handlers that cannot be stopped."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
