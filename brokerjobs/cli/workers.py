"""`brokerjobs workers`: who runs jobs, with what, and since when nothing was heard of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import decision, moments, options, output
from brokerjobs.rules import capabilities

if TYPE_CHECKING:
    from collections.abc import Mapping

    Data = Mapping[str, Any]

_HEADERS: Final = ("WORKER", "STATE", "RUNNING", "SLOTS", "HEARTBEAT", "CLOCK", "CAPABILITIES", "ROUTES")
# Detected of every host, so that they tell least: a narrow table cuts these first.
_DETECTED: Final = frozenset({"arch", "cpu", "memory", "os", "python"})
_DAY: Final = timedelta(days=1)
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]


def workers(
    *,
    namespace: options.Namespace = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", show_default=False, help='How far back lost ones are shown: "7d". [1d]'
        ),
    ] = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List workers: those that live, and those that stopped or were lost within a day; a lost one is never just gone.

    CLOCK is how far its clock is from the ledger's.  The JSON has ids, routes, handlers and every figure.
    """
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    back = _DAY if since is None else moments.span_of(since, "--since")
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    ledger = decision.ledger_of(database_url, "brokerjobs workers")
    try:
        found = [row.worker for row in ledger.fetch(queues.workers(namespace, back))]
    finally:
        ledger.close()
    match style:
        case output.ListFormat.JSON:
            for one in found:
                output.put_json({"schema": "brokerjobs.worker/1", **one})
        case output.ListFormat.TSV:
            for one in found:
                output.put_tabs(_cells(one))
        case output.ListFormat.TABLE if found:
            output.put_table(_HEADERS, [_cells(one, declared_first=True) for one in found], whole=set(_HEADERS[:6]))
        case _:
            pass
    if not found:
        output.say("no worker has said anything within that time; start one: brokerjobs worker MODULE:APP")


def _cells(worker: Data, *, declared_first: bool = False) -> tuple[str, ...]:
    slots: Mapping[str, int] = worker["slots"] or {}
    leaked = f" ({worker['leaked']} leaked)" if worker["leaked"] else ""
    return (
        str(worker["name"]),
        str(worker["state"]),
        f"{worker['running']}{leaked}",
        " ".join(f"{kind}:{count}" for kind, count in slots.items()),
        f"{moments.rough(timedelta(seconds=worker['heartbeat_age_seconds']))} ago",
        _signed(worker["clock_offset_seconds"]),
        _has(worker["capabilities"] or {}, declared_first=declared_first),
        ", ".join(worker["routes"]),
    )


def _has(said: Data, *, declared_first: bool) -> str:
    ordered = sorted(said, key=lambda name: (declared_first and name in _DETECTED, name))
    return ", ".join(filter(None, (str(capabilities.from_data({name: said[name]})) for name in ordered)))


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{moments.rough(timedelta(seconds=abs(seconds)))}"
