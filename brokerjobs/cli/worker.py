"""`brokerjobs worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn, TypeAlias

import typer

from brokerjobs.cli import apps, logs, options

if TYPE_CHECKING:
    from collections.abc import Mapping

_Concurrency: TypeAlias = Annotated[
    int | None, typer.Option(show_default=False, help="How many async handlers run at once. [20]")
]
_Threads: TypeAlias = Annotated[
    int | None, typer.Option(show_default=False, help="How many sync handlers run at once. [8]")
]
_Processes: TypeAlias = Annotated[
    int | None, typer.Option(show_default=False, help="How many handlers in processes run at once. [cores]")
]
_Prefetch: TypeAlias = Annotated[
    int | None, typer.Option(show_default=False, help="Deliveries held at once. [2 x concurrency]")
]
_Name: TypeAlias = Annotated[str | None, typer.Option(show_default=False, help="The worker's name. [host:pid]")]
_Drain: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TIME", show_default=False, help="How long attempts may go on after SIGTERM. [25s]"),
]
_Capabilities: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--capability",
        metavar="NAME=VALUE",
        show_default=False,
        help="What the worker has, such as gpu=a100; may be repeated, also with the same name.",
    ),
]
_Coordinator: TypeAlias = Annotated[
    bool | None,
    typer.Option("--coordinator/--no-coordinator", show_default=False, help="Run a coordinator's services too. [yes]"),
]


def worker(
    application: options.Application = None,
    *,
    concurrency: _Concurrency = None,
    threads: _Threads = None,
    processes: _Processes = None,
    prefetch: _Prefetch = None,
    name: _Name = None,
    drain: _Drain = None,
    capability: _Capabilities = None,
    coordinator: _Coordinator = None,
    database_url: options.DatabaseUrl = None,
    broker_url: options.BrokerUrl = None,
    log_level: logs.LogLevel = logs.Level.INFO,
) -> None:
    """Run the jobs of an application until SIGTERM, then let what runs finish.

    Ends with 0 if everything was reported, 10 if something was given back at the limit, 11 if something is left to
    its lease.  A second SIGTERM goes straight to the limit.  Drains by itself and ends with 12, to be started again, if
    too many handlers could not be stopped.
    """
    flags = {
        "app": application,
        "database_url": database_url,
        "broker_url": broker_url,
        "worker.concurrency": concurrency,
        "worker.threads": threads,
        "worker.processes": processes,
        "worker.prefetch": prefetch,
        "worker.name": name,
        "worker.drain": drain,
        "worker.capabilities": options.capabilities_of(capability),
        "worker.coordinator": coordinator,
    }
    _run(flags, log_level)


def _run(flags: Mapping[str, object], log_level: logs.Level) -> NoReturn:
    logs.set_up(log_level)
    settings = options.settings_of(flags)
    from brokerjobs import wiring  # noqa: PLC0415  # slow: the drivers of both servers

    process = wiring.worker_identity(settings)
    logs.set_up(log_level, settings.log.format, process.name)
    app = apps.load(settings.need_app())
    raise typer.Exit(wiring.run_worker(app, settings, process))
