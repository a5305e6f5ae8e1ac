"""`brokerjobs fence`: the fencing kit for another PostgreSQL database."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Annotated

import typer

from brokerjobs import errors
from brokerjobs.cli import options, output
from brokerjobs.cli.failures import Unreachable

if TYPE_CHECKING:
    from brokerjobs.ledger.fence_kit import Installed

app = typer.Typer(
    name="fence",
    help="Let another PostgreSQL database refuse what superseded attempts write.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def fence() -> None:
    """Let another PostgreSQL database refuse what superseded attempts write."""


@app.command("install")
def install(
    *,
    dsn: Annotated[str, typer.Option(metavar="DSN", help="That database, as postgresql://… or key=value words.")],
    schema: Annotated[str, typer.Option(help="The schema that gets the kit.")] = "public",
    grant: Annotated[
        list[str] | None,
        typer.Option(metavar="LOGIN", show_default=False, help="Let a login call it; may be repeated."),
    ] = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Make the kit, a table and a function, both named brokerjobs_fence; safe to repeat."""
    from brokerjobs.ledger import fence_kit  # noqa: PLC0415  # slow: the driver

    kit = (resources.files("brokerjobs") / "effects" / "kit" / "fence.sql").read_text()
    try:
        installed = fence_kit.install(dsn, kit, schema=schema, grant=grant or ())
    except errors.LoginRefused:
        raise
    except errors.LedgerUnavailable as error:
        message = str(error).replace("the ledger (PostgreSQL)", "the database of --dsn").split(";", 1)[0]
        raise Unreachable(message, hint="pg_isready --dbname DSN tells whether it answers") from error
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.fence/1", **_data(installed)})
    else:
        _say(installed)


def _data(installed: Installed) -> dict[str, object]:
    return {
        "database": installed.database,
        "in_schema": installed.schema,
        "made": installed.made,
        "granted": list(installed.granted),
    }


def _say(installed: Installed) -> None:
    done = "made" if installed.made else "was there, and is as this release has it"
    output.put(f"{installed.schema}.brokerjobs_fence (table and function) in {installed.database}: {done}")
    for login in installed.granted:
        output.put(f"granted to {login}")
    output.put(f"call it in your transaction: select {installed.schema}.brokerjobs_fence('RESOURCE', FENCING NUMBER)")
