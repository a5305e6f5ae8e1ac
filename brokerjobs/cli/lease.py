"""`brokerjobs lease`: which lease, renewal interval and time limit the recorded attempts speak for."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import typer

from brokerjobs.cli import decision, lease_page, moments, options, output
from brokerjobs.cli.failures import NotFound

app = typer.Typer(
    help="Advise on leases, renewals and time limits, from recorded attempts.",
    add_completion=False,
    rich_markup_mode=None,
)

_WEEK: Final = timedelta(days=7)


@app.callback()
def group() -> None:
    """Advise on leases, renewals and time limits, from recorded attempts."""


@app.command("advise", short_help="Say which lease and time limit the recorded attempts speak for.")
def advise(
    *,
    job_type: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", show_default=False, help="Only this type: NAME or NAMESPACE/NAME."),
    ] = None,
    namespace: options.Namespace = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", show_default=False, help='How far back attempts count: "12h". [7d]'),
    ] = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Say which lease, renewal interval and time limit the recorded attempts of each job type speak for.

    It says what these, the current ones, shorter and longer ones would have meant for those attempts, and what is not
    recorded.  It changes nothing.
    """
    from brokerjobs.ledger.lease_history import lease_history  # noqa: PLC0415  # slow: the driver
    from brokerjobs.rules import lease_advice  # noqa: PLC0415  # the one command that has it

    back = _WEEK if since is None else moments.span_of(since, "--since")
    said, name = (namespace, None) if job_type is None else options.type_of(job_type, namespace)
    ledger = decision.ledger_of(database_url, "brokerjobs lease")
    try:
        found = ledger.fetch(lease_history(said, name, back))
    finally:
        ledger.close()
    if name is not None and not found:
        where = f" in namespace {said!r}" if said else ""
        raise NotFound(f"no job type {name!r} is registered{where}", hint="brokerjobs types list")
    for place, history in enumerate(found):
        terms = lease_advice.Current(history.lease_seconds, history.time_limit_seconds, history.repeatable)
        advice = lease_advice.advise(terms, history.attempts())
        if output_format is output.Format.JSON:
            output.put_json(lease_page.as_json(history, advice))
            continue
        if place:
            output.put("")
        for line in lease_page.page(history, advice, back):
            output.put(line)
    if not found:
        output.say("no job types are registered")
