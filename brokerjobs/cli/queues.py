"""`brokerjobs queues`: list queues, show one with its routes, pause and resume it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import decision, moments, options, output, pausing, queue_page
from brokerjobs.cli.failures import UsageError

if TYPE_CHECKING:
    from brokerjobs.ledger.database import LedgerConnection

    Data = dict[str, Any]

app = typer.Typer(
    help="List queues, pause one, resume it.", add_completion=False, rich_markup_mode=None, invoke_without_command=True
)

QUEUES: Final = pausing.Kind("queue", "queue ", "no job type uses a queue {}", "brokerjobs queues", ("until",))
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

    ledger = decision.ledger_of(database_url, QUEUES.command)
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
    ledger = decision.ledger_of(database_url, QUEUES.command)
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
    ledger = decision.ledger_of(database_url, QUEUES.command)
    try:
        where = QUEUES.place(_found(ledger, queue, namespace))
        answer = pausing.pause(QUEUES, ledger, where, asked, queues.pause_queue(*where, asked, end))
    finally:
        ledger.close()
    if answer["verdict"] == "past":
        message = f"--until {until!r} has passed, by the database's clock"
        raise UsageError(message)
    pausing.put_paused(QUEUES, where, answer, output_format)


@app.command("resume", short_help="Begin its jobs again.")
def resume(
    queue: _Queue,
    *,
    reason: pausing.Why = None,
    namespace: options.Namespace = None,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """End the pause of a queue, and ring those of its jobs whose doorbells were acknowledged meanwhile.

    A worker whose queue stood still for it consumes that again within three seconds.  If it is interrupted a
    coordinator rings the rest.
    """
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    asked = pausing.why_resumed(decision.request_of(request, by, reason or "resumed"), reason)
    ledger = decision.ledger_of(database_url, QUEUES.command)
    try:
        where = QUEUES.place(_found(ledger, queue, namespace))
        answer = pausing.resume(QUEUES, ledger, where, asked, queues.resume_queue(*where, asked))
        rung = pausing.ring(ledger, partial(queues.unpark_queue, *where)) if answer else 0
    finally:
        ledger.close()
    pausing.put_resumed(QUEUES, where, answer, rung, output_format)


def _found(ledger: LedgerConnection, queue: str, namespace: str | None) -> Data:
    """The one queue of this name; raises NotFound, and UsageError if several namespaces have it."""
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    said, name = options.type_of(queue, namespace)
    found = [row.queue for row in ledger.fetch(queues.queues(said, name))]
    return QUEUES.only(found, name, said)


def _as_json(found: Data) -> Data:
    return {"schema": "brokerjobs.queue/1", **found}
