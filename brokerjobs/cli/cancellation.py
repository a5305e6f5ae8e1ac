"""`brokerjobs jobs cancel`: one job by its id, or all queued jobs of a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from brokerjobs.cli import decision, options, output
from brokerjobs.cli.failures import UsageError
from brokerjobs.errors import JobNotFound, RefusedMove
from brokerjobs.rules.states import JobState

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.cli.bulk_cancel import Wanted
    from brokerjobs.ledger.decisions import Request

# What a recorded cancel means for a job in this state.
_ASKED: Final = {
    "running": (
        "running: the cancel is recorded, and obeyed when its attempt ends; its handler is told at the next renewal of "
        "its lease"
    ),
    "review": (
        "in review: the cancel is recorded, a late success of its attempt is no longer accepted, and a retry would end "
        "it as cancelled (brokerjobs review list)"
    ),
    # The same cancel asked again, after the end of the job.
    "cancelled": "cancelled: this cancel had been recorded while it ran, and was obeyed when its attempt ended",
    "failed": "failed: this cancel had been recorded before; a person decided otherwise",
    "succeeded": "succeeded: this cancel had been recorded before; a person decided otherwise",
}


def cancel(
    job_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", show_default=False, help="The job's id; or --type and --state queued."),
    ] = None,
    *,
    reason: Annotated[str, typer.Option("--reason", show_default=False, help="Why, for the record.")],
    job_type: Annotated[
        str | None, typer.Option("--type", show_default=False, help="NAME or NAMESPACE/NAME: cancel many.")
    ] = None,
    state: Annotated[
        JobState | None, typer.Option(show_default=False, help="With --type: queued, and no other.")
    ] = None,
    namespace: options.Namespace = None,
    tag: options.Tags = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="With --type: how many at most.")] = 100_000,
    yes: decision.Yes = False,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Cancel a job: at once if it is queued, when its attempt ends if it runs.

    A job in review stays there: the cancel is noted, its late success is no longer accepted, and a decision to retry
    ends it as cancelled.

    With --type and --state queued all queued jobs of a type are counted, then cancelled after a yes; others are left.
    """
    many = _many(job_id, job_type=job_type, namespace=namespace, state=state, tag=tag, limit=limit)
    if many is not None:
        _cancel_many(many, decision.request_of(None, by, reason), database_url, output_format, yes=yes)
        return
    from brokerjobs.ledger import inquiries  # noqa: PLC0415  # slow: the driver

    wanted = options.job_id_of(job_id or "")
    if not reason.strip():
        message = "--reason is empty; it is kept with the job and says why it was cancelled"
        raise UsageError(message, hint="brokerjobs jobs cancel --help")
    ledger = decision.ledger_of(database_url, "brokerjobs jobs")
    try:
        [answer] = ledger.fetch(inquiries.cancel(wanted, options.who(by), reason))
    finally:
        ledger.close()
    match answer.verdict:
        case "unknown_job":
            raise JobNotFound(job_id=wanted)
        case "refused":
            raise RefusedMove(job_id=wanted, state=answer.state or "finished")
        case verdict:
            _say_cancelled(wanted, verdict, answer.state, output_format)


def _many(
    job_id: str | None,
    *,
    job_type: str | None,
    namespace: str | None,
    state: JobState | None,
    tag: list[str] | None,
    limit: int,
) -> Wanted | None:
    """The many jobs that flags name, None if they name one by its id; raises UsageError."""
    if job_type is None:
        if job_id is None or state is not None or tag or namespace is not None:
            message = "give the id of one job, or --type TYPE --state queued for many"
            raise UsageError(message, hint="brokerjobs jobs cancel --help")
        return None
    if job_id is not None or state is not JobState.QUEUED:
        message = "many jobs are cancelled by --type TYPE --state queued, without an id; a running one by its id"
        raise UsageError(message, hint="brokerjobs jobs cancel --help")
    said, name = options.type_of(job_type, namespace)
    if said is None:
        message = f"the namespace of job type {name!r} is not said"
        raise UsageError(message, hint=f"--type NAMESPACE/{name}")
    from brokerjobs.cli.bulk_cancel import Wanted  # noqa: PLC0415  # slow: the driver

    return Wanted(said, name, options.tags_of(tag), limit)


def _cancel_many(
    wanted: Wanted, request: Request, database_url: str | None, output_format: output.Format, *, yes: bool
) -> None:
    from brokerjobs.cli import bulk_cancel  # noqa: PLC0415  # slow: the driver

    ledger = decision.ledger_of(database_url, "brokerjobs jobs")
    try:
        outcome = bulk_cancel.carry_out(ledger, wanted, request, yes=yes)
    finally:
        ledger.close()
    bulk_cancel.tell(wanted, outcome, output_format)


def _say_cancelled(job_id: UUID, verdict: str, state: str | None, output_format: output.Format) -> None:
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.cancel/1", "id": str(job_id), "verdict": verdict, "state": state})
    elif verdict == "cancelled":
        output.put(f"job {job_id} is cancelled")
    else:
        output.put(f"job {job_id} is {_ASKED.get(state or '', _ASKED['running'])}")
