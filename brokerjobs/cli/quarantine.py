"""`brokerjobs quarantine`: what was recorded of messages that were not ours to run, and the messages themselves."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO, TypeAlias

import typer

from brokerjobs.cli import decision, moments, options, output
from brokerjobs.cli.failures import NotFound, Refused, UsageError
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.broker.taking import Taken
    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.ledger.operations import Quarantined

app = typer.Typer(
    help="List and export messages that were not ours to run.", add_completion=False, rich_markup_mode=None
)

_HEADERS = ("NUMBER", "AGE", "REASON", "ROUTE", "JOB", "WORKER")
_PAGE: Final = 1_000  # as many as one statement of the ledger answers
_Namespace: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", show_default=False, help="Only messages on routes of this namespace.")
]
_Reason: TypeAlias = Annotated[
    str | None, typer.Option("--reason", show_default=False, help="Only messages with this reason.")
]
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]


@app.command("list", short_help="List what went to quarantine, newest first.")
def list_messages(
    *,
    namespace: _Namespace = None,
    reason: _Reason = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, newest first.")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="NUMBER", show_default=False, help="Only those before this.")
    ] = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List what workers recorded of messages that they rejected: when, why, by which route, which job it named.

    What the broker itself put there, after too many deliveries, no worker could record: `doctor` counts those.
    """
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    ledger = decision.ledger_of(database_url, "brokerjobs quarantine")
    try:
        _print(_found(ledger, namespace, reason, before, limit), style, limit)
    finally:
        ledger.close()


@app.command("show", short_help="Show what was recorded of one message.")
def show(
    number: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="The number that `list` shows.")],
    *,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Show everything that was recorded of one message; its body is only at the broker."""
    ledger = decision.ledger_of(database_url, "brokerjobs quarantine")
    try:
        rows = list(_found(ledger, None, None, number + 1, 1))
    finally:
        ledger.close()
    if not rows or rows[0].id != number:
        message = f"no message with number {number} is recorded"
        raise NotFound(message, hint="brokerjobs quarantine list")
    found = _as_json(rows[0])
    if output_format is output.Format.JSON:
        output.put_json(found)
        return
    for key in ("at", "reason", "route", "worker", "job", "ticket", "body_sha256"):
        output.put(f"{key.replace('_', ' '):<12}{found[key] if found[key] is not None else '-'}")


@app.command("export", short_help="Export what was recorded, or the messages themselves.")
def export(
    *,
    namespace: _Namespace = None,
    reason: _Reason = None,
    take: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Take the messages out of the broker into this new file."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100_000,
    database_url: options.DatabaseUrl = None,
    broker_url: options.BrokerUrl = None,
) -> None:
    """Write JSON lines to stdout: what was recorded of each message, newest first; changes nothing.

    With --take the messages themselves leave the namespace's quarantine queue for a new file, the oldest first: each is
    acknowledged once its line is on the disk, so none is lost; interrupted, one may stand in two files.  Messages are
    not looked at and given back, since the broker drops what was given back too often.
    """
    if take is None:
        ledger = decision.ledger_of(database_url, "brokerjobs quarantine")
        try:
            for row in _found(ledger, namespace, reason, None, limit):
                output.put_json(_as_json(row))
        finally:
            ledger.close()
        return
    if namespace is None or reason is not None:
        message = "--take goes by the queue of one namespace: it wants --namespace, and knows no --reason"
        raise UsageError(message)
    settings = options.settings_of({"broker_url": broker_url})
    url = settings.need_broker_url()
    try:
        file = take.open("x", encoding="utf-8")
    except OSError as error:
        message = f"--take {str(take)!r} cannot be written: {error.strerror}"
        raise UsageError(message, hint="name a new file: what is in an old one is not written over") from None
    try:
        with file:
            taken = _take(url, namespace, file, limit)
    except OSError as error:
        message = (
            f"{take} cannot be written ({error.strerror}): what is in it was taken, the rest is still at the broker"
        )
        raise Refused(message, hint="the same command with a file where there is room takes the rest") from None
    if taken is None:
        take.unlink()
        message = f"the broker has no queue {namespace}.quarantine; nothing was taken"
        raise NotFound(message, hint="brokerjobs doctor names the queues in which messages lie")
    output.say(f"{counted(taken, 'message', 'messages')} taken out of quarantine into {take}")


def _take(url: str, namespace: str, file: TextIO, limit: int) -> int | None:
    from brokerjobs.broker import names, taking  # noqa: PLC0415  # slow: the broker's client

    def keep(message: Taken) -> None:
        data = {"schema": "brokerjobs.quarantined_message/1", **asdict(message)}
        file.write(output.json_escaped(json.dumps(data, ensure_ascii=False)) + "\n")
        file.flush()
        os.fsync(file.fileno())

    return asyncio.run(taking.take(url, names.quarantine_queue(namespace), keep, limit))


def _found(
    ledger: LedgerConnection, namespace: str | None, reason: str | None, before: int | None, limit: int
) -> Iterator[Quarantined]:
    """The records, page by page."""
    from brokerjobs.ledger import operations  # noqa: PLC0415  # slow: the driver

    left = limit
    while left > 0:
        rows = ledger.fetch(operations.quarantine_list(namespace, reason, before, min(left, _PAGE)))
        yield from rows
        if len(rows) < min(left, _PAGE):
            return
        left -= len(rows)
        before = rows[-1].id


def _print(rows: Iterator[Quarantined], style: output.ListFormat, limit: int) -> None:
    count, last = 0, None
    lines: list[tuple[str, ...]] = []
    now = datetime.now(UTC)
    for row in rows:
        count, last = count + 1, row.id
        job = str(row.job_id or "")
        match style:
            case output.ListFormat.JSON:
                output.put_json(_as_json(row))
            case output.ListFormat.TSV:
                at = moments.rfc3339(row.at) or ""
                output.put_tabs((str(row.id), at, row.reason, row.route, job, row.worker, str(row.ticket or "")))
            case output.ListFormat.TABLE:
                lines.append((str(row.id), moments.rough(now - row.at), row.reason, row.route, job, row.worker))
    if lines:
        output.put_table(_HEADERS, lines, whole={"NUMBER", "AGE"})
    if not count:
        output.say("nothing is recorded of messages in quarantine")
    elif count == limit:
        output.say(f"there may be older ones: --before {last}")


def _as_json(row: Quarantined) -> dict[str, Any]:
    return {
        "schema": "brokerjobs.quarantined/1",
        "number": str(row.id),
        "at": moments.rfc3339(row.at),
        "reason": row.reason,
        "route": row.route,
        "worker": row.worker,
        "ticket": None if row.ticket is None else str(row.ticket),
        "job": None if row.job_id is None else str(row.job_id),
        "body_sha256": row.digest,
    }
