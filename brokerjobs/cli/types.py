"""`brokerjobs types`: list job types, show one, pause and resume it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import decision, moments, options, output
from brokerjobs.cli.failures import NotFound, Refused, UsageError
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from brokerjobs.ledger.database import LedgerConnection

    Data = dict[str, Any]

app = typer.Typer(help="List job types, pause one, resume it.", add_completion=False, rich_markup_mode=None)

_HEADERS = ("TYPE", "QUEUE", "REPEATABLE", "PAUSED", "PARKED", "BY", "REASON")
_BATCH: Final = 200  # parked jobs that one statement rings
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

    ledger = decision.ledger_of(database_url, "brokerjobs types")
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
    ledger = decision.ledger_of(database_url, "brokerjobs types")
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
    ledger = decision.ledger_of(database_url, "brokerjobs types")
    try:
        where = _place(_found(ledger, job_type, namespace))
        [row] = decision.ask(ledger, pauses.pause_type(*where, asked), asked)
    finally:
        ledger.close()
    name, answer = "/".join(where), row.answer
    _check(answer, name)
    if answer["verdict"] == "already":
        message = f"{name} is paused already, by {answer['by']} since {answer['since']}: {answer['reason']}"
        raise Refused(message, hint=f"brokerjobs types resume {name}")
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.pause/1", "type": name, "verdict": "paused", **_facts(answer)})
    else:
        output.put(f"{name} is paused: its jobs are accepted and wait until `brokerjobs types resume {name}`")


@app.command("resume", short_help="Begin its jobs again.")
def resume(
    job_type: _Type,
    *,
    reason: Annotated[str | None, typer.Option("--reason", show_default=False, help="Why, for the record.")] = None,
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

    asked = decision.request_of(request, by, reason or "resumed")
    asked = replace(asked, reason=(reason or "").strip())
    ledger = decision.ledger_of(database_url, "brokerjobs types")
    try:
        where = _place(_found(ledger, job_type, namespace))
        [row] = decision.ask(ledger, pauses.resume_type(*where, asked), asked)
        name, answer = "/".join(where), row.answer
        _check(answer, name)
        rung = _ring(ledger, *where) if answer["verdict"] == "resumed" else 0
    finally:
        ledger.close()
    if output_format is output.Format.JSON:
        data = {"schema": "brokerjobs.resume/1", "type": name, "verdict": answer["verdict"], "rung": rung}
        output.put_json(data | _facts(answer))
    elif answer["verdict"] == "not_paused":
        output.put(f"{name} is not paused")
    else:
        output.put(f"{name} is resumed; {counted(rung, 'parked job was', 'parked jobs were')} rung")


def _ring(ledger: LedgerConnection, namespace: str, name: str) -> int:
    """Ring what is parked, in bounded statements; what is busy just now is left to the coordinator."""
    from brokerjobs.ledger import pauses  # noqa: PLC0415  # as above

    rung = 0
    while True:
        [step] = ledger.fetch(pauses.unpark(namespace, name, _BATCH))
        rung += step.rung
        if not step.taken:
            return rung
        if step.taken == _BATCH:
            output.say(f"{rung} parked jobs rung so far")


def _found(ledger: LedgerConnection, job_type: str, namespace: str | None) -> Data:
    """The one registered type of this name; raises NotFound, and UsageError if several namespaces have it."""
    from brokerjobs.ledger import pauses  # noqa: PLC0415  # slow: the driver

    said, name = options.type_of(job_type, namespace)
    found = [row.type for row in ledger.fetch(pauses.types(said, name))]
    if not found:
        where = f" in namespace {said!r}" if said else ""
        message = f"no job type {name!r} is registered{where}"
        raise NotFound(message, hint="brokerjobs types list")
    if len(found) > 1:
        names = ", ".join("/".join(_place(one)) for one in found)
        message = f"several namespaces have a job type {name!r}: {names}"
        raise UsageError(message, hint="write NAMESPACE/NAME")
    return found[0]


def _place(found: Data) -> tuple[str, str]:
    return found["namespace"], found["name"]


def _check(answer: Data, name: str) -> None:
    if answer["verdict"] == "unknown_type":
        message = f"no job type {name} is registered"
        raise NotFound(message, hint="brokerjobs types list")
    if answer["verdict"] == "request_reused":
        message = "--request was used for something else before"
        raise Refused(message, hint="leave it out: an id is made")


def _facts(answer: Data) -> Data:
    return {key: answer.get(key) for key in ("by", "reason", "since")}


def _as_json(found: Data) -> Data:
    return {"schema": "brokerjobs.type/1", **found}


def _cells(found: Data, now: datetime | None) -> tuple[str, ...]:
    """One line: type, queue, repeatable, paused since (an age on a terminal), parked, by, reason."""
    paused: Data = found["paused"] or {}
    since = str(paused.get("since", ""))
    if now is not None and since:
        since = moments.rough(now - datetime.fromisoformat(since))
    return (
        "/".join(_place(found)),
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
    lines = [
        f"{'/'.join(_place(found))} on {found['route']}, {'repeatable' if found['repeatable'] else 'not repeatable'}",
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
