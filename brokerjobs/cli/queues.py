"""`brokerjobs queues`: list queues, show one with its routes, pause and resume it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import decision, moments, options, output, queue_page
from brokerjobs.cli.failures import NotFound, Refused, UsageError
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from brokerjobs.ledger.database import LedgerConnection

    Data = dict[str, Any]

app = typer.Typer(
    help="List queues, pause one, resume it.", add_completion=False, rich_markup_mode=None, invoke_without_command=True
)

_BATCH: Final = 200  # parked jobs that one statement rings
_Queue: TypeAlias = Annotated[str, typer.Argument(metavar="QUEUE", help="NAME or NAMESPACE/NAME of the queue.")]
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]


@app.callback()
def alone(
    context: typer.Context,
    *,
    namespace: options.Namespace = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List queues, as `brokerjobs queues list`; or pause one, resume it."""
    if context.invoked_subcommand is None:
        list_queues(namespace=namespace, database_url=database_url, output_format=output_format)


@app.command("list", short_help="List queues.")
def list_queues(
    *,
    namespace: options.Namespace = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List queues: what waits and runs, who serves them, who paused them, and which needs no worker meets."""
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    ledger = decision.ledger_of(database_url, "brokerjobs queues")
    try:
        found = [row.queue for row in ledger.fetch(queues.queues(namespace))]
    finally:
        ledger.close()
    match style:
        case output.ListFormat.JSON:
            for one in found:
                output.put_json(_as_json(one))
        case output.ListFormat.TSV:
            for one in found:
                output.put_tabs(queue_page.cells(one, None))
        case output.ListFormat.TABLE if found:
            rows = [queue_page.cells(one, datetime.now(UTC)) for one in found]
            output.put_table(queue_page.HEADERS, rows, whole={"QUEUE", "WAITING", "RUNNING", "WORKERS", "PAUSED"})
        case _:
            pass
    if not found:
        output.say("no job type is registered, so there is no queue")


@app.command("show", short_help="Show the routes of a queue, and who paused it.")
def show(
    queue: _Queue,
    *,
    namespace: options.Namespace = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Show a queue's routes, one a lane and a set of needs, with their jobs and workers, and its last pauses."""
    ledger = decision.ledger_of(database_url, "brokerjobs queues")
    try:
        found = _found(ledger, queue, namespace)
    finally:
        ledger.close()
    if output_format is output.Format.JSON:
        output.put_json(_as_json(found))
        return
    for line in queue_page.page(found):
        output.put(line)


@app.command("pause", short_help="Begin none of its jobs from now on.")
def pause(
    queue: _Queue,
    *,
    reason: decision.Reason,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", show_default=False, help='When it ends by itself, or after: "30m".'),
    ] = None,
    namespace: options.Namespace = None,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Pause a queue: jobs are accepted and wait, those that run go on; cancels and deadlines hold as ever."""
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    asked = decision.request_of(request, by, reason)
    end = moments.moment_of(until, "--until")
    ledger = decision.ledger_of(database_url, "brokerjobs queues")
    try:
        where = _place(_found(ledger, queue, namespace))
        [row] = decision.ask(ledger, queues.pause_queue(*where, asked, end), asked)
    finally:
        ledger.close()
    name, answer = "/".join(where), row.answer
    _check(answer, name)
    if answer["verdict"] == "past":
        message = f"--until {until!r} has passed, by the database's clock"
        raise UsageError(message)
    if answer["verdict"] == "already":
        message = f"queue {name} is paused already, by {answer['by']} since {answer['since']}: {answer['reason']}"
        raise Refused(message, hint=f"brokerjobs queues resume {name}")
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.pause/1", "queue": name, "verdict": "paused", **_facts(answer)})
    else:
        ends = f"until {answer['until']}, or " if answer["until"] else "until "
        output.put(f"queue {name} is paused: its jobs are accepted and wait {ends}`brokerjobs queues resume {name}`")


@app.command("resume", short_help="Begin its jobs again.")
def resume(
    queue: _Queue,
    *,
    reason: Annotated[str | None, typer.Option("--reason", show_default=False, help="Why, for the record.")] = None,
    namespace: options.Namespace = None,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """End the pause of a queue, and ring those of its jobs whose doorbells were acknowledged meanwhile.

    Workers consume it again after their next heartbeat.  If it is interrupted a coordinator rings the rest.
    """
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    asked = decision.request_of(request, by, reason or "resumed")
    asked = replace(asked, reason=(reason or "").strip())
    ledger = decision.ledger_of(database_url, "brokerjobs queues")
    try:
        where = _place(_found(ledger, queue, namespace))
        [row] = decision.ask(ledger, queues.resume_queue(*where, asked), asked)
        name, answer = "/".join(where), row.answer
        _check(answer, name)
        rung = _ring(ledger, *where) if answer["verdict"] == "resumed" else 0
    finally:
        ledger.close()
    if output_format is output.Format.JSON:
        data = {"schema": "brokerjobs.resume/1", "queue": name, "verdict": answer["verdict"], "rung": rung}
        output.put_json(data | _facts(answer))
    elif answer["verdict"] == "not_paused":
        output.put(f"queue {name} is not paused")
    else:
        output.put(f"queue {name} is resumed; {counted(rung, 'parked job was', 'parked jobs were')} rung")


def _ring(ledger: LedgerConnection, namespace: str, queue: str) -> int:
    """Ring what is parked, in bounded statements; what is busy just now is left to the coordinator."""
    from brokerjobs.ledger import queues  # noqa: PLC0415  # as above

    rung = 0
    while True:
        [step] = ledger.fetch(queues.unpark_queue(namespace, queue, _BATCH))
        rung += step.rung
        if not step.taken:
            return rung


def _found(ledger: LedgerConnection, queue: str, namespace: str | None) -> Data:
    """The one queue of this name; raises NotFound, and UsageError if several namespaces have it."""
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    said, name = options.type_of(queue, namespace)
    found = [row.queue for row in ledger.fetch(queues.queues(said, name))]
    if not found:
        where = f" in namespace {said!r}" if said else ""
        message = f"no job type uses a queue {name!r}{where}"
        raise NotFound(message, hint="brokerjobs queues list")
    if len(found) > 1:
        names = ", ".join("/".join(_place(one)) for one in found)
        message = f"several namespaces have a queue {name!r}: {names}"
        raise UsageError(message, hint="write NAMESPACE/NAME")
    return found[0]


def _place(found: Data) -> tuple[str, str]:
    return found["namespace"], found["queue"]


def _check(answer: Data, name: str) -> None:
    if answer["verdict"] == "unknown_queue":
        message = f"no job type uses queue {name}"
        raise NotFound(message, hint="brokerjobs queues list")
    if answer["verdict"] == "request_reused":
        message = "--request was used for something else before"
        raise Refused(message, hint="leave it out: an id is made")


def _facts(answer: Data) -> Data:
    return {key: answer.get(key) for key in ("by", "reason", "since", "until")}


def _as_json(found: Data) -> Data:
    return {"schema": "brokerjobs.queue/1", **found}
