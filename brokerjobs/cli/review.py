"""`brokerjobs review`: list what waits for a decision, show what is known, decide."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from brokerjobs.cli import apps, decision, options, output
from brokerjobs.cli.failures import NotFound, Refused, UsageError
from brokerjobs.errors import InvalidResult, ResultTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.ledger.decisions import Request, Resolution, ReviewShown

    Data = dict[str, Any]

app = typer.Typer(
    help="List and decide jobs whose outcome is unknown.",
    add_completion=False,
    rich_markup_mode=None,
)

_HEADERS = ("JOB", "TYPE", "OPEN FOR", "NOTED", "CAUSE")
_PAGE = 1_000  # as many as one statement of the ledger answers
_Id: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The id of the review, or of its job.")]
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]
_Result: TypeAlias = Annotated[
    str | None,
    typer.Option("--result", metavar="JSON|-|@FILE", show_default=False, help="With --happened: the job's result."),
]


@app.command("list", short_help="List open reviews, oldest first.")
def list_reviews(
    *,
    job_type: Annotated[
        str | None, typer.Option("--type", show_default=False, help="NAME or NAMESPACE/NAME of the job type.")
    ] = None,
    namespace: options.Namespace = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, oldest first.")] = 50,
    after: Annotated[str | None, typer.Option(metavar="ID", show_default=False, help="Only those after this.")] = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List open reviews, oldest first: a table on a terminal, tab-separated lines without a header when piped."""
    said, name = (namespace, None) if job_type is None else options.type_of(job_type, namespace)
    last = None if after is None else options.job_id_of(after)
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    ledger = decision.ledger_of(database_url, "brokerjobs review")
    try:
        _print(_found(ledger, said, name, last, limit), style, limit)
    finally:
        ledger.close()


@app.command("show", short_help="Show what is known, and what is not.")
def show(
    review_id: _Id,
    *,
    whole: Annotated[bool, typer.Option("--whole", help="Payload, results and tracebacks in full.")] = False,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Show a review and the record of its job, and the version that a decision names."""
    ledger = decision.ledger_of(database_url, "brokerjobs review")
    try:
        shown = _shown(ledger, options.job_id_of(review_id))
    finally:
        ledger.close()
    if output_format is output.Format.JSON:
        output.put_json_text(shown.review)
    else:
        _show_page(shown, whole=whole)


@app.command("resolve", short_help="Decide: it happened, it did not (retry), or give up.")
def resolve(
    review_id: _Id,
    *,
    reason: decision.Reason,
    happened: Annotated[bool, typer.Option("--happened", help="It happened: the job has succeeded.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="It did not happen: run the job again.")] = False,
    give_up: Annotated[bool, typer.Option("--give-up", help="Nobody will know: the job has failed.")] = False,
    reference: Annotated[
        str | None, typer.Option(show_default=False, help="With --happened: what proves it outside; wanted.")
    ] = None,
    result: _Result = None,
    app_target: options.ApplicationFlag = None,
    version: Annotated[
        int | None, typer.Option(show_default=False, help="The version that was read; asks for nothing then.")
    ] = None,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Decide a review as it was read; refused if its record has moved since.

    With --version it is decided without a question; on a terminal the review is shown and a yes wanted.
    """
    wanted = options.job_id_of(review_id)
    said = _said(happened=happened, retry=retry, give_up=give_up)
    _check_evidence(said, reference, result)
    asked = decision.request_of(request, by, reason)
    settings = options.settings_of({"app": app_target, "database_url": database_url})
    ledger = decision.ledger_of(database_url, "brokerjobs review")
    try:
        shown = _shown(ledger, wanted)
        review: Data = json.loads(shown.review)
        resolution = _resolution(said, reference, result, review, settings.app, asked_for=app_target is not None)
        if version is None:
            version = _confirmed(shown, review, resolution)
        answer = _resolved(ledger, wanted, version, resolution, asked)
    finally:
        ledger.close()
    _check(answer, wanted)
    _say(answer, resolution, output_format)


def _said(*, happened: bool, retry: bool, give_up: bool) -> str:
    chosen = [name for name, given in (("happened", happened), ("retry", retry), ("give_up", give_up)) if given]
    if len(chosen) != 1:
        message = f"{'none' if not chosen else 'more than one'} of --happened, --retry and --give-up is given"
        raise UsageError(message, hint="brokerjobs review resolve --help")
    return chosen[0]


def _check_evidence(said: str, reference: str | None, result: str | None) -> None:
    """Raise UsageError for "it happened" without a reference, and for evidence of anything else."""
    if said == "happened" and not (reference or "").strip():
        message = "--happened needs --reference: what proves it in the world outside, such as a receipt's number"
        raise UsageError(message, hint="brokerjobs review resolve --help")
    if said != "happened" and (reference is not None or result is not None):
        message = "--reference and --result belong to --happened"
        raise UsageError(message, hint="brokerjobs review resolve --help")


def _resolution(
    said: str, reference: str | None, result: str | None, review: Data, target: str | None, *, asked_for: bool
) -> Resolution:
    """The decision, its result checked by the model of its type if an application is at hand."""
    from brokerjobs.ledger.decisions import Resolution  # noqa: PLC0415  # slow: the driver

    if result is None:
        return Resolution(decision=said, reference=reference)
    from brokerjobs.cli import payloads, submission  # noqa: PLC0415  # slow: pydantic

    text = payloads.text_of(result, "result")
    value = payloads.value_of(text, "result")
    namespace, name = review["namespace"], review["type"]
    declared = None if target is None else apps.declared_type(target, namespace, name, asked_for=asked_for)
    try:
        if declared is not None:
            text = declared.encode_result(declared.decode_result(text)).decode()
        else:
            submission.unchecked_type(namespace, name).encode_result(value)
    except (InvalidResult, ResultTooLarge) as error:
        raise Refused(str(error), hint="mend it and decide again: nothing was recorded") from error
    return Resolution(decision=said, reference=reference, result=text, checked=declared is not None)


def _confirmed(shown: ReviewShown, review: Data, resolution: Resolution) -> int:
    """The version that a person has just seen and said yes to; raises Refused."""
    number = int(review["version"])
    flag = resolution.decision.replace("_", "-")
    hint = f"read it with brokerjobs review show {review['job']}, then say --version {number}"
    if output.is_terminal() and output.has_keyboard() and review["closed"] is None:
        _show_page(shown, whole=False)
    ends = f", which ends the job as {review['retry_ends_as']}" if flag == "retry" and _noted(review) else ""
    if review["closed"] is None:
        decision.confirm(f"decide review {review['id']} by --{flag}{ends}", yes=False, hint=hint)
    return number


def _resolved(
    ledger: LedgerConnection, wanted: UUID, version: int, resolution: Resolution, asked: Request
) -> dict[str, Any]:
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # slow: the driver

    [row] = decision.ask(ledger, decisions.review_resolve(wanted, version, resolution, asked), asked)
    return row.answer


def _check(answer: Data, wanted: UUID) -> None:
    """Raise Refused or NotFound unless it was decided."""
    show_it = f"brokerjobs review show {wanted}"
    match answer["verdict"]:
        case "decided":
            return
        case "closed":
            from brokerjobs.cli.review_page import closed_words  # noqa: PLC0415  # slow: rich

            message = f"the review is decided already: {closed_words(answer['closed'])}; nothing was changed"
            raise Refused(message, hint=show_it)
        case "moved":
            message = f"the record has moved since it was read: it is at version {answer['version']} now"
            raise Refused(message, hint=f"{show_it}, then decide again")
        case "too_large":
            message = f"the result is {answer['size']} bytes of JSON, over the limit of {answer['limit']} of its type"
            raise Refused(message, hint="decide without --result, and let --reference say where it is")
        case "request_reused":
            message = (
                f"--request was used by {answer['by']} at {answer['at']} for something else: {answer['command']}; "
                "nothing was changed"
            )
            raise Refused(message, hint="leave --request out, or make a new UUID")
        case _:
            raise _not_found(wanted)


def _say(answer: Data, resolution: Resolution, output_format: output.Format) -> None:
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.resolve/1", **answer, "result_checked": resolution.checked})
        return
    again = " (already, by this request)" if answer.get("repeated") else ""
    output.put(f"job {answer['job']} is {answer['state']}{again}")
    if resolution.decision == "retry" and answer["state"] != "queued":
        why = "a cancel was noted" if answer["state"] == "cancelled" else "its deadline has passed"
        output.say(f"it is not run again: {why}")
    if resolution.result is not None and not resolution.checked:
        output.say("its result was checked by no model; --app MODULE:APP checks it before anything is recorded")
    elif resolution.decision == "happened" and resolution.result is None:
        output.say("without a result: whoever waits for it is told DecidedByPerson")


def _shown(ledger: LedgerConnection, wanted: UUID) -> ReviewShown:
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # slow: the driver

    rows = ledger.fetch(decisions.review_show(wanted))
    if not rows:
        raise _not_found(wanted)
    return rows[0]


def _not_found(wanted: UUID) -> NotFound:
    return NotFound(f"{wanted} is no review, and no job that was ever in review", hint="brokerjobs review list")


def _show_page(shown: ReviewShown, *, whole: bool) -> None:
    from brokerjobs.cli import review_page  # noqa: PLC0415  # slow: rich

    review_page.show(json.loads(shown.review), json.loads(shown.record), shown.read_at, output.console(), whole=whole)


def _found(
    ledger: LedgerConnection, namespace: str | None, name: str | None, after: UUID | None, limit: int
) -> Iterator[Data]:
    """Open reviews, page by page."""
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # slow: the driver

    while limit > 0:
        rows = ledger.fetch(decisions.review_list(namespace, name, after, min(limit, _PAGE)))
        yield from (row.review for row in rows)
        if len(rows) < min(limit, _PAGE):
            return
        limit -= len(rows)
        after = rows[-1].review["id"]


def _print(reviews: Iterator[Data], style: output.ListFormat, limit: int) -> None:
    from brokerjobs.cli import review_page  # noqa: PLC0415  # slow: rich

    count, last = 0, None
    rows: list[tuple[str, ...]] = []
    for review in reviews:
        count, last = count + 1, review["id"]
        match style:
            case output.ListFormat.JSON:
                output.put_json(review)
            case output.ListFormat.TSV:
                output.put_tabs(review_page.line(review))
            case output.ListFormat.TABLE:
                rows.append(review_page.short(review))
    if rows:
        output.put_table(_HEADERS, rows, whole={"JOB", "OPEN FOR"})
    if not count:
        output.say("no open reviews found")
    elif count == limit:
        output.say(f"there may be later ones: --after {last}")


def _noted(review: Data) -> bool:
    return review["cancel"] is not None or bool(review["past_deadline"])
