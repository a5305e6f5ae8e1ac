"""`brokerjobs dead`: failed jobs in groups; show one, let them run again, discard them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import decision, moments, options, output
from brokerjobs.cli.failures import NotFound, UsageError
from brokerjobs.errors import JobNotFound
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.ledger.decisions import Group

app = typer.Typer(
    help="List failed jobs in groups, let them run again, or discard them.",
    add_completion=False,
    rich_markup_mode=None,
)

_HEADERS = ("GROUP", "JOBS", "LAST", "FIRST", "TYPE", "CLASS", "ERROR")
_GROUP: Final = re.compile(r"[0-9a-f]{12}")
_GroupOrId: TypeAlias = Annotated[
    str, typer.Argument(metavar="GROUP|ID", help="A group of `dead list`, or a job's id.")
]
_Ids: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="The jobs' ids.")]
_GroupFlag: TypeAlias = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", show_default=False, help="All jobs of a group.")
]
_Rate: TypeAlias = Annotated[float, typer.Option(min=0.01, help="At most so many jobs a second.")]
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]


@app.command("list", short_help="List failed jobs, in groups that failed in the same way.")
def list_groups(
    *,
    job_type: Annotated[
        str | None, typer.Option("--type", show_default=False, help="NAME or NAMESPACE/NAME of the job type.")
    ] = None,
    namespace: options.Namespace = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many groups at most.")] = 50,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List failed jobs that nobody has discarded, in groups of one type, failure class and error, the latest first."""
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # slow: the driver

    said, name = (namespace, None) if job_type is None else options.type_of(job_type, namespace)
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    ledger = decision.ledger_of(database_url, "brokerjobs dead")
    try:
        groups = ledger.fetch(decisions.dead_list(said, name, None, limit))
    finally:
        ledger.close()
    _print(groups, style, limit)


@app.command("show", short_help="Show the jobs of a group, or why one failed.")
def show(
    group_or_id: _GroupOrId,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Of a group: how many jobs at most.")] = 20,
    whole: Annotated[bool, typer.Option("--whole", help="Of a job: payload and tracebacks in full.")] = False,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Show a group with its first jobs and what each said, or the group and the record of one failed job."""
    from brokerjobs.cli import dead_page  # noqa: PLC0415  # slow: rich
    from brokerjobs.ledger import decisions, operations  # noqa: PLC0415  # slow: the driver

    wanted = None if _GROUP.fullmatch(group_or_id) else _job_id_of(group_or_id)
    as_json = output_format is output.Format.JSON
    ledger = decision.ledger_of(database_url, "brokerjobs dead")
    try:
        if wanted is None:
            group = _group(ledger, group_or_id)
            jobs = ledger.fetch(decisions.dead_jobs(group_or_id, None, limit))
            if as_json:
                output.put_json(group_json(group) | {"jobs_shown": [dead_page.job_json(one) for one in jobs]})
            else:
                dead_page.show_group(group, jobs, output.console())
            return
        [found] = ledger.fetch(operations.written_record(wanted))
        if found.record is None:
            raise JobNotFound(job_id=wanted)
        places = ledger.fetch(decisions.dead_show(wanted))
        if not places:
            message = f"job {wanted} has not failed: it is {json.loads(found.record)['state']}"
            raise NotFound(message, hint=f"brokerjobs jobs show {wanted}")
        if as_json:
            output.put_json(dead_page.place_json(wanted, places[0]))
        else:
            dead_page.show_job(places[0], json.loads(found.record), found.read_at, output.console(), whole=whole)
    finally:
        ledger.close()


@app.command("replay", short_help="Let failed jobs run again, with their history.")
def replay(
    ids: _Ids = None,
    *,
    reason: decision.Reason,
    group: _GroupFlag = None,
    attempts: Annotated[
        int | None, typer.Option(min=1, max=100, show_default=False, help="Attempts to grant. [as their retry policy]")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", show_default=False, help="A new deadline, or a time from now.")
    ] = None,
    rate: _Rate = 100,
    yes: decision.Yes = False,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Let failed jobs run again: the same jobs, with more attempts; every earlier attempt is fenced off for good.

    A group is counted first and wants a yes. A job whose deadline has passed is left alone, unless it gets a new one.
    """
    from brokerjobs.cli import dead_work  # noqa: PLC0415  # slow: the driver
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # ditto

    until = moments.moment_of(deadline, "--deadline")
    asked = decision.request_of(request, by, reason)
    wanted = _wanted(ids, group)
    ledger = decision.ledger_of(database_url, "brokerjobs dead")
    try:
        jobs = dead_work.Jobs(ledger, wanted, group)
        if group is not None:
            _confirm_group("replay", _group(ledger, group), yes=yes)
        pace = dead_work.Pace(rate)
        tally = dead_work.carry_out(
            jobs, pace, asked, lambda some: decisions.dead_replay(some, attempts, until, asked), "replayed"
        )
    finally:
        ledger.close()
    dead_work.tell(tally, asked, output_format, schema="brokerjobs.replay/1", done="replayed")


@app.command("discard", short_help="Take failed jobs out of the list; their records stay.")
def discard(
    ids: _Ids = None,
    *,
    reason: decision.Reason,
    group: _GroupFlag = None,
    yes: decision.Yes = False,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Take failed jobs out of the list of the dead: somebody has looked at them. Their records stay until retention."""
    from brokerjobs.cli import dead_work  # noqa: PLC0415  # slow: the driver
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # ditto

    asked = decision.request_of(request, by, reason)
    wanted = _wanted(ids, group)
    ledger = decision.ledger_of(database_url, "brokerjobs dead")
    try:
        jobs = dead_work.Jobs(ledger, wanted, group)
        if group is not None:
            _confirm_group("discard", _group(ledger, group), yes=yes)
        tally = dead_work.carry_out(
            jobs, dead_work.Pace(None), asked, lambda some: decisions.dead_discard(some, asked), "discarded"
        )
    finally:
        ledger.close()
    dead_work.tell(tally, asked, output_format, schema="brokerjobs.discard/1", done="discarded")


def _wanted(ids: Sequence[str] | None, group: str | None) -> list[UUID]:
    """The jobs that are named by id; raises UsageError."""
    if bool(ids) == (group is not None):
        message = "name jobs by their ids, or one group with --group"
        raise UsageError(message, hint="brokerjobs dead list")
    if group is not None and not _GROUP.fullmatch(group):
        message = f"{group!r} is no group: groups are twelve hexadecimal digits"
        raise UsageError(message, hint="brokerjobs dead list")
    return [options.job_id_of(one) for one in ids or ()]


def _job_id_of(text: str) -> UUID:
    try:
        return options.job_id_of(text)
    except UsageError:
        message = f"{text!r} is neither a group of `dead list` (12 hexadecimal digits) nor a job id (a UUID)"
        raise UsageError(message, hint="brokerjobs dead list") from None


def _group(ledger: LedgerConnection, group: str) -> Group:
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # slow: the driver

    found = ledger.fetch(decisions.dead_list(None, None, group, 1))
    if not found:
        raise NotFound(f"there is no group {group!r} (any more)", hint="brokerjobs dead list")
    return found[0]


def _confirm_group(verb: str, group: Group, *, yes: bool) -> None:
    jobs = counted(group.jobs, "job", "jobs")
    question = f"{verb} {jobs} of {group.namespace}/{group.type}, {group.failure_class}: {group.message}"
    decision.confirm(question, yes=yes, hint=f"brokerjobs dead {verb} --group {group.group_id} … --yes")


def _print(groups: Sequence[Group], style: output.ListFormat, limit: int) -> None:
    from brokerjobs.cli import dead_page  # noqa: PLC0415  # slow: rich

    match style:
        case output.ListFormat.JSON:
            for group in groups:
                output.put_json(group_json(group))
        case output.ListFormat.TSV:
            for group in groups:
                output.put_tabs(dead_page.line(group))
        case output.ListFormat.TABLE if groups:
            rows = [dead_page.short(group) for group in groups]
            output.put_table(_HEADERS, rows, whole={"GROUP", "JOBS", "LAST", "FIRST"})
        case output.ListFormat.TABLE:
            pass
    if not groups:
        output.say("no failed jobs found")
    elif len(groups) == limit:
        output.say(f"there may be more: --limit {limit * 2}")


def group_json(group: Group) -> dict[str, Any]:
    """A group as JSON."""
    return {
        "schema": "brokerjobs.dead/1",
        "group": group.group_id,
        "namespace": group.namespace,
        "type": group.type,
        "failure": {"class": group.failure_class, "error_type": group.error_type, "message": group.message},
        "jobs": group.jobs,
        "first_at": moments.rfc3339(group.first_at),
        "last_at": moments.rfc3339(group.last_at),
        "example": str(group.example),
    }
