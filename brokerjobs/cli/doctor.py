"""`brokerjobs doctor`: everything that can be seen to be wrong, worst first, with what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from brokerjobs.cli import options, output
from brokerjobs.rules.texts import redacted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.cli.checkup.findings import Finding
    from brokerjobs.cli.failures import ExitCode

_ManagementUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", show_default=False, help="RabbitMQ's management API, as http://…, for policies."),
]


def doctor(
    *,
    database_url: options.DatabaseUrl = None,
    broker_url: options.BrokerUrl = None,
    management_url: _ManagementUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Say what is wrong with ledger, broker and processes, worst first, and what to do about it; changes nothing.

    Writes a probe object to the store of artifacts, if that is in use, and removes it.
    Any login that was granted a kind will do.  Ends with 0 if nothing fails, else with the code of the gravest failure.
    """
    flags = {"database_url": database_url, "broker_url": broker_url, "broker.management_url": management_url}
    if broker_url is not None:
        flags["coordinator.broker_url"] = broker_url
    settings = options.settings_of(flags)
    from brokerjobs.cli.checkup import examination, findings  # noqa: PLC0415  # slow: the drivers of both servers

    found = examination.examine(settings)
    code = findings.exit_code(found)
    if output_format is output.Format.JSON:
        _put_json(found, code)
    else:
        _put_lines(found)
    raise typer.Exit(code)


def _put_lines(found: Sequence[Finding]) -> None:
    width = max(len(one.check) for one in found)
    for one in found:
        next_ = f"; next: {one.next}" if one.next else ""
        output.put(redacted(f"{one.level.name.lower():<5} {one.check:<{width}}  {one.message}{next_}"))


def _put_json(found: Sequence[Finding], code: ExitCode) -> None:
    lines = [
        {
            "check": one.check,
            "level": one.level.name.lower(),
            "message": redacted(one.message),
            "next": redacted(one.next) or None,
        }
        for one in found
    ]
    output.put_json({"schema": "brokerjobs.doctor/1", "exit_code": int(code), "findings": lines})
