"""`brokerjobs jobs adopt`: the success of a lost last attempt that came after its job had failed becomes its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from brokerjobs.cli import decision, options, output
from brokerjobs.cli.failures import Refused, UsageError
from brokerjobs.errors import JobNotFound

if TYPE_CHECKING:
    from brokerjobs.ledger.database import LedgerConnection


def adopt(
    job_id: options.JobId,
    *,
    attempt: Annotated[
        str, typer.Option(metavar="NUMBER|ID", show_default=False, help="The attempt whose success was kept.")
    ],
    reason: decision.Reason,
    request: decision.RequestId = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Take the kept success of the last attempt, which was lost, for the result of the job, which failed."""
    from brokerjobs.ledger import decisions  # noqa: PLC0415  # slow: the driver

    wanted = options.job_id_of(job_id)
    asked = decision.request_of(request, by, reason)
    ledger = decision.ledger_of(database_url, "brokerjobs jobs")
    try:
        attempt_id = _attempt(ledger, wanted, attempt)
        [row] = decision.ask(ledger, decisions.adopt(wanted, attempt_id, asked), asked)
    finally:
        ledger.close()
    answer = row.answer
    match answer["verdict"]:
        case "adopted":
            pass
        case "unknown":
            raise JobNotFound(job_id=wanted)
        case "refused":
            message = f"attempt {attempt} of job {wanted} cannot be adopted: {answer['why']}; nothing was changed"
            raise Refused(message, hint=f"brokerjobs jobs show {wanted}")
        case _:
            message = f"--request was used by {answer['by']} at {answer['at']} for something else: {answer['command']}"
            raise Refused(message, hint="leave --request out, or make a new UUID")
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.adopt/1", "id": str(wanted), "attempt": str(attempt_id), **answer})
    else:
        again = " (already, by this request)" if answer.get("repeated") else ""
        output.put(f"job {wanted} has succeeded with the result of attempt {attempt}{again}")


def _attempt(ledger: LedgerConnection, job_id: UUID, text: str) -> UUID:
    """The attempt that a number or an id names; raises JobNotFound, UsageError."""
    from brokerjobs.ledger import inquiries  # noqa: PLC0415  # slow: the driver

    if text.isdecimal():
        [found] = ledger.fetch(inquiries.record(job_id))
        if found.record is None:
            raise JobNotFound(job_id=job_id)
        for attempt in found.record["attempts"]:
            if str(attempt["number"]) == text:
                return UUID(attempt["id"])
        message = f"job {job_id} has no attempt {text}; it has {len(found.record['attempts'])}"
        raise UsageError(message, hint=f"brokerjobs jobs show {job_id}")
    try:
        return UUID(text)
    except ValueError:
        message = f"--attempt {text!r} is neither the number of an attempt nor its id"
        raise UsageError(message, hint=f"brokerjobs jobs show {job_id}") from None
