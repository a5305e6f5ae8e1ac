"""`brokerjobs jobs`: list, show, cancel, adopt."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from brokerjobs.cli import adoption, cancellation, explanation, moments, options, output
from brokerjobs.errors import JobNotFound
from brokerjobs.rules.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.ledger.inquiries import Filter, Listed

app = typer.Typer(
    help="List jobs, show what became of one, cancel one, adopt a late success.",
    add_completion=False,
    rich_markup_mode=None,
)

_HEADERS = ("ID", "TYPE", "STATE", "AGE", "ATTEMPTS", "KEY", "SUBMITTED BY")
_NARROW = 110  # columns of a terminal below which only the first four are shown
_PAGE = 1_000  # as many as one statement of the ledger answers
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]


@app.command("list", short_help="List jobs, newest first.")
def list_jobs(
    *,
    job_type: Annotated[
        str | None, typer.Option("--type", show_default=False, help="NAME or NAMESPACE/NAME of the job type.")
    ] = None,
    namespace: options.Namespace = None,
    state: Annotated[JobState | None, typer.Option(show_default=False, help="The state of the jobs.")] = None,
    key: Annotated[str | None, typer.Option(show_default=False, help="Their idempotency key.")] = None,
    tag: options.Tags = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, newest first.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", show_default=False, help="Only jobs before this.")] = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List jobs, newest first: a table on a terminal, tab-separated lines without a header when piped."""
    from brokerjobs.ledger.inquiries import Filter  # noqa: PLC0415  # slow: the driver

    said, name = (namespace, None) if job_type is None else options.type_of(job_type, namespace)
    wanted = Filter(
        namespace=said,
        type=name,
        state=state,
        key=key,
        tags=options.tags_of(tag) or None,
        before=None if before is None else options.job_id_of(before),
        limit=limit,
    )
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    ledger = _ledger(database_url)
    try:
        _print(_found(ledger, wanted), style, limit)
    finally:
        ledger.close()


@app.command("show", short_help="Show everything that was recorded about a job.")
def show(
    job_id: options.JobId,
    *,
    whole: Annotated[bool, typer.Option("--whole", help="Payload, results and tracebacks in full.")] = False,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Show everything that was recorded about a job, on a timeline; with -o json the whole record as one object."""
    from brokerjobs.ledger import operations  # noqa: PLC0415  # slow: the driver

    wanted = options.job_id_of(job_id)
    ledger = _ledger(database_url)
    try:
        [found] = ledger.fetch(operations.written_record(wanted))
    finally:
        ledger.close()
    if found.record is None:
        raise JobNotFound(job_id=wanted)
    if output_format is output.Format.JSON:
        output.put_json_text(found.record)
        return
    from brokerjobs.cli import job_page  # noqa: PLC0415  # slow: rich

    job_page.show(json.loads(found.record), found.read_at, output.console(), whole=whole)


app.command("explain", short_help="Say why a job waits.")(explanation.explain)
app.command("cancel", short_help="Cancel a job, or all queued jobs of a type.")(cancellation.cancel)
app.command("adopt", short_help="Take the success that came after a job had failed.")(adoption.adopt)


def _ledger(database_url: str | None) -> LedgerConnection:
    from brokerjobs.ledger.database import ConnectOptions, LedgerConnection  # noqa: PLC0415  # slow: the driver

    settings = options.settings_of({"database_url": database_url})
    return LedgerConnection(ConnectOptions(settings.need_database_url(), application="brokerjobs jobs"))


def _found(ledger: LedgerConnection, wanted: Filter) -> Iterator[Listed]:
    """The jobs, page by page."""
    from brokerjobs.ledger import inquiries  # noqa: PLC0415  # slow: the driver

    left = wanted.limit
    while left > 0:
        rows = ledger.fetch(inquiries.list_jobs(replace(wanted, limit=min(left, _PAGE))))
        yield from rows
        if len(rows) < min(left, _PAGE):
            return
        left -= len(rows)
        wanted = replace(wanted, before=rows[-1].job_id)


def _print(jobs: Iterator[Listed], style: output.ListFormat, limit: int) -> None:
    count, last = 0, None
    rows: list[tuple[str, ...]] = []
    for job in jobs:
        count, last = count + 1, job.job_id
        match style:
            case output.ListFormat.JSON:
                output.put_json(_as_json(job))
            case output.ListFormat.TSV:
                output.put_tabs(_line(job))
            case output.ListFormat.TABLE:
                rows.append(_short(job, datetime.now(UTC)))
    if rows:
        columns = len(_HEADERS) if output.console().width >= _NARROW else 4
        output.put_table(_HEADERS[:columns], [row[:columns] for row in rows], whole={"ID", "AGE"})
    if not count:
        output.say("no jobs found")
    elif count == limit:
        output.say(f"there may be older ones: --before {last}")


def _as_json(job: Listed) -> dict[str, Any]:
    failed = job.failure_class is not None
    waiting = {"for": job.waiting, "until": moments.rfc3339(job.wait_until)} if job.waiting else None
    return {
        "schema": "brokerjobs.jobs/1",
        "id": str(job.job_id),
        "namespace": job.namespace,
        "type": job.type,
        "state": job.state,
        "waiting": waiting,
        "past_deadline": job.past_deadline,
        "attempts_made": job.attempts,
        "key": job.key,
        "submitted_by": job.submitted_by,
        "tags": job.tags,
        "submitted_at": moments.rfc3339(job.submitted_at),
        "finished_at": moments.rfc3339(job.finished_at),
        "failure": {"class": job.failure_class, "reason": job.failure_reason} if failed else None,
    }


def _state(job: Listed) -> str:
    if job.past_deadline and job.state != "review":
        return f"{job.state} (past its deadline, not yet recorded)"
    return f"{job.state} ({job.failure_class})" if job.failure_class else job.state


def _line(job: Listed) -> tuple[str, ...]:
    """All of it for a program, times whole: id, type, state, waits for, until, attempts, submitted at, key, by."""
    return (
        str(job.job_id),
        f"{job.namespace}/{job.type}",
        _state(job),
        job.waiting or "",
        moments.rfc3339(job.wait_until) or "",
        str(job.attempts),
        moments.rfc3339(job.submitted_at) or "",
        job.key or "",
        job.submitted_by,
    )


def _short(job: Listed, now: datetime) -> tuple[str, ...]:
    """For a terminal: ages instead of times."""
    state = _state(job)
    if job.waiting and not job.past_deadline:
        until = f" {moments.rough(job.wait_until - now)}" if job.wait_until else ""
        state = f"queued: {job.waiting}{until}"
    age = moments.rough(now - job.submitted_at)
    return (
        str(job.job_id),
        f"{job.namespace}/{job.type}",
        state,
        age,
        str(job.attempts),
        job.key or "",
        job.submitted_by,
    )
