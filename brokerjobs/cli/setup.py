"""`brokerjobs setup`: brings ledger and broker to what this code and an application need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from brokerjobs.cli import apps, options, output
from brokerjobs.cli.failures import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_GRANT_HELP = "Let a login act as producer, worker, coordinator, reader or operator; may be repeated."
_RECREATE_HELP = "Delete a queue and make it anew: for changed arguments; its jobs are rung again. May be repeated."


def setup(
    application: options.Application = None,
    *,
    grant: Annotated[list[str] | None, typer.Option(metavar="KIND=LOGIN", show_default=False, help=_GRANT_HELP)] = None,
    recreate: Annotated[
        list[str] | None, typer.Option(metavar="QUEUE", show_default=False, help=_RECREATE_HELP)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Recreate also a queue whose messages are then lost.")] = False,
    database_url: options.DatabaseUrl = None,
    broker_url: options.BrokerUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Bring ledger and broker up to date; safe to repeat, and says what it changed.

    Applies the ledger's schema.  With an application it registers its job types (the one way to change their terms:
    each difference is printed, old and new) and declares its exchanges and routes at the broker.
    """
    flags = {"app": application, "database_url": database_url, "broker_url": broker_url}
    settings = options.settings_of(flags)
    grants = _grants(grant)
    app = None if settings.app is None else apps.load(settings.app)
    if recreate and app is None:
        message = "--recreate needs the application, which says what the queue shall be"
        raise UsageError(message, hint="brokerjobs setup MODULE:APP --recreate QUEUE")
    from brokerjobs.cli import setup_steps  # noqa: PLC0415  # slow: the drivers of both servers

    plan = setup_steps.Plan(
        settings=settings, app=app, grants=grants, recreate=tuple(recreate or ()), lose_messages=yes
    )
    tell = setup_steps.Told(say=None if output_format is output.Format.JSON else output.put)
    setup_steps.carry_out(plan, tell)
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.setup/1", **tell.done})


def _grants(given: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """The kinds and logins that KIND=LOGIN texts are; raises UsageError."""
    grants: list[tuple[str, str]] = []
    for one in given or ():
        kind, equals, login = one.partition("=")
        if not (kind and equals and login):
            message = f"--grant {one!r} is not of the form KIND=LOGIN, such as producer=orders"
            raise UsageError(message)
        grants.append((kind, login))
    return tuple(grants)
