"""`brokerjobs types`: list job types, show one, pause and resume it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import decision, moments, options, output, pausing
from brokerjobs.rules.durations import show_duration

if TYPE_CHECKING:
    from brokerjobs.ledger.database import LedgerConnection

    Data = dict[str, Any]

app = typer.Typer(help="List job types, pause one, resume it.", add_completion=False, rich_markup_mode=None)

_HEADERS = ("TYPE", "QUEUE", "REPEATABLE", "PAUSED", "PARKED", "BY", "REASON")
TYPES: Final = pausing.Kind("type", "", "no job type {} is registered", "brokerjobs types")
_COUNTED: Final = 10_000  # as far as the ledger counts
_Type: TypeAlias = Annotated[str, typer.Argument(metavar="TYPE", help="NAME or NAMESPACE/NAME of the job type.")]
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]


@app.command("list", short_help="List job types.")
def list_types(
    *,
    namespace: options.Namespace = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List registered job types: a table on a terminal, tab-separated lines without a header when piped."""
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    from brokerjobs.ledger import pauses  # noqa: PLC0415  # slow: the driver

    ledger = decision.ledger_of(database_url, TYPES.command)
    try:
        found = [row.type for row in ledger.fetch(pauses.types(namespace))]
    finally:
        ledger.close()
    match style:
        case output.ListFormat.JSON:
            for one in found:
                output.put_json(_as_json(one))
        case output.ListFormat.TSV:
            for one in found:
                output.put_tabs(_cells(one, None))
        case output.ListFormat.TABLE if found:
            now = datetime.now(UTC)
            output.put_table(_HEADERS, [_cells(one, now) for one in found], whole={"TYPE", "PAUSED", "PARKED"})
        case _:
            pass
    if not found:
        output.say("no job types are registered")


@app.command("show", short_help="Show the terms of a job type, and who paused it.")
def show(
    job_type: _Type,
    *,
    namespace: options.Namespace = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Show a job type's terms, whether it is paused, and its last pauses."""
    ledger = decision.ledger_of(database_url, TYPES.command)
    try:
        found = _found(ledger, job_type, namespace)
    finally:
        ledger.close()
    if output_format is output.Format.JSON:
        output.put_json(_as_json(found))
        return
    for line in _page(found):
        output.put(line)


@app.command("pause", short_help="Begin none of its jobs from now on.")
def pause(
    job_type: _Type,
    *,
    reason: decision.Reason,
    namespace: options.Namespace = None,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Pause a job type: jobs are accepted and wait, those that run go on; cancels and deadlines hold as ever."""
    from brokerjobs.ledger import pauses  # noqa: PLC0415  # slow: the driver

    asked = decision.request_of(request, by, reason)
    ledger = decision.ledger_of(database_url, TYPES.command)
    try:
        where = TYPES.place(_found(ledger, job_type, namespace))
        answer = pausing.pause(TYPES, ledger, where, asked, pauses.pause_type(*where, asked))
    finally:
        ledger.close()
    pausing.put_paused(TYPES, where, answer, output_format)


@app.command("resume", short_help="Begin its jobs again.")
def resume(
    job_type: _Type,
    *,
    reason: pausing.Why = None,
    namespace: options.Namespace = None,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """End the pause of a job type, and ring those of its jobs whose doorbells were acknowledged meanwhile.

    A worker whose queue stood still for it consumes that again within three seconds.  If it is interrupted a
    coordinator rings the rest.
    """
    from brokerjobs.ledger import pauses  # noqa: PLC0415  # slow: the driver

    asked = pausing.why_resumed(decision.request_of(request, by, reason or "resumed"), reason)
    ledger = decision.ledger_of(database_url, TYPES.command)
    try:
        where = TYPES.place(_found(ledger, job_type, namespace))
        answer = pausing.resume(TYPES, ledger, where, asked, pauses.resume_type(*where, asked))
        rung = pausing.ring(ledger, partial(pauses.unpark, *where)) if answer else 0
    finally:
        ledger.close()
    pausing.put_resumed(TYPES, where, answer, rung, output_format)


def _found(ledger: LedgerConnection, job_type: str, namespace: str | None) -> Data:
    """The one registered type of this name; raises NotFound, and UsageError if several namespaces have it."""
    from brokerjobs.ledger import pauses  # noqa: PLC0415  # slow: the driver

    said, name = options.type_of(job_type, namespace)
    found = [row.type for row in ledger.fetch(pauses.types(said, name))]
    return TYPES.only(found, name, said)


def _as_json(found: Data) -> Data:
    return {"schema": "brokerjobs.type/1", **found}


def _cells(found: Data, now: datetime | None) -> tuple[str, ...]:
    """One line: type, queue, repeatable, paused since (an age on a terminal), parked, by, reason."""
    paused: Data = found["paused"] or {}
    since = str(paused.get("since", ""))
    if now is not None and since:
        since = moments.rough(now - datetime.fromisoformat(since))
    return (
        "/".join(TYPES.place(found)),
        str(found["queue"]),
        "yes" if found["repeatable"] else "no",
        since,
        _many(found["parked"]) if paused or found["parked"] else "",
        str(paused.get("by", "")),
        str(paused.get("reason", "")),
    )


def _page(found: Data) -> list[str]:
    def span(seconds: float) -> str:
        return show_duration(timedelta(seconds=float(seconds)))

    retry, paused = found["retry"], found["paused"]
    tries = (
        f"up to {retry['attempts']} attempts within {span(retry['elapsed_seconds'])}, "
        f"{span(retry['first_delay_seconds'])} to {span(retry['max_delay_seconds'])} apart, "
        f"each {retry['factor']:g} times as far"
    )
    repeatable = "repeatable" if found["repeatable"] else "not repeatable"
    lines = [
        f"{'/'.join(TYPES.place(found))} on {found['route']}, {repeatable}",
        f"lease {span(found['lease_seconds'])}, time limit {span(found['time_limit_seconds'])}",
        tries,
        f"registered by {found['registered_by']} at {found['registered_at']}",
        f"paused by {paused['by']} since {paused['since']}: {paused['reason']}" if paused else "not paused",
    ]
    if found["parked"]:
        lines.append(f"{_many(found['parked'])} parked: their doorbells were acknowledged, a resume rings them")
    lines += [
        f"was paused by {one['paused_by']} at {one['paused_at']}: {one['reason']}; resumed by {one['resumed_by']} at "
        f"{one['resumed_at']}{': ' if one['resumed_why'] else ''}{one['resumed_why'] or ''}"
        for one in found["pauses"]
        if one["resumed_at"] is not None
    ]
    return lines


def _many(count: int) -> str:
    return f"{count} or more" if count >= _COUNTED else str(count)
