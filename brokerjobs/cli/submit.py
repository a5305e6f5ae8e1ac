"""`brokerjobs submit`: one job from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import apps, moments, options, output
from brokerjobs.cli.failures import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

    from brokerjobs.cli.submission import Made, Order
    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.ledger.inquiries import Outcome

_UNCHECKED: Final = "its payload was not checked by a model; --app MODULE:APP checks it before anything is submitted"

_Type: TypeAlias = Annotated[str, typer.Argument(metavar="TYPE", help="NAME or NAMESPACE/NAME of the job type.")]
_Payload: TypeAlias = Annotated[
    str, typer.Argument(metavar="JSON|-|@FILE", help="The payload: JSON, - for stdin, or a file.")
]
_Key: TypeAlias = Annotated[
    str | None, typer.Option(show_default=False, help="Idempotency key, unique within the job type.")
]
_At: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", show_default=False, help='Not before a time, or a time from now ("5m").')
]
_Deadline: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", show_default=False, help="Give up at a time, or a time from now.")
]
_Priority: TypeAlias = Annotated[
    options.Priority, typer.Option(help="The lane of its queue: high, normal and low are served 8 : 3 : 1.")
]
_Needs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--need",
        metavar="NEED",
        show_default=False,
        help="What it needs beside its type: gpu=a100, gpu=a100|h100, memory>=32GiB, dataset:imagenet, exclusive:NAME, "
        "limit:NAME:10. May be repeated.",
    ),
]
_Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Wait for the result and print it.")]
_Timeout: TypeAlias = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="With --wait: how long. The job goes on after it.")
]


def submit(
    job_type: _Type,
    payload: _Payload,
    *,
    app: options.ApplicationFlag = None,
    namespace: options.Namespace = None,
    key: _Key = None,
    tag: options.Tags = None,
    at: _At = None,
    deadline: _Deadline = None,
    priority: _Priority = options.Priority.NORMAL,
    need: _Needs = None,
    by: options.By = None,
    wait: _Wait = False,
    timeout: _Timeout = "1h",
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Submit one job and print its id, or with --wait its result; the coordinator rings for it.

    With --wait the exit code is 8 if the job failed, was cancelled or stands in review, 124 if it had not ended yet.
    """
    from brokerjobs.cli import payloads, submission  # noqa: PLC0415  # slow: pydantic and the drivers
    from brokerjobs.job_type import Submission  # noqa: PLC0415  # ditto

    settings = options.settings_of({"app": app, "database_url": database_url})
    said, name = options.type_of(job_type, namespace)
    target = settings.app
    declared = None if target is None else apps.declared_type(target, said, name, asked_for=app is not None)
    limit = moments.span_of(timeout, "--timeout") if wait else None
    order = submission.Order(
        job_type=declared or submission.unchecked_type(*_named(job_type, namespace)),
        checked=declared is not None,
        submission=Submission(
            payloads.text_of(payload),
            key=key,
            tags=options.tags_of(tag),
            not_before=moments.moment_of(at, "--at"),
            deadline=moments.moment_of(deadline, "--deadline"),
            priority=priority.value,
            needs=options.needs_of(need),
        ),
        submitted_by=options.who(by),
    )
    with submission.ledger_at(settings.need_database_url()) as ledger:
        _carry_out(ledger, order, limit, as_json=output_format is output.Format.JSON)


def _named(job_type: str, namespace: str | None) -> tuple[str, str]:
    said, name = options.type_of(job_type, namespace)
    if said is None:
        message = f"the namespace of job type {name!r} is not known: neither the command nor an application names it"
        raise UsageError(message, hint=f"brokerjobs submit NAMESPACE/{name} …, or --app MODULE:APP")
    return said, name


def _carry_out(ledger: LedgerConnection, order: Order, limit: timedelta | None, *, as_json: bool) -> None:
    from brokerjobs.cli import submission  # noqa: PLC0415  # as above

    made = submission.submit(ledger, order)
    if not as_json:
        _say(order, made, limit)
    if paused := submission.pause_of(ledger, made.job_id):
        what = f"its queue {paused['queue']}" if "queue" in paused else "its type"
        until = f"{paused['until']}, or until " if "until" in paused else ""
        output.say(f"{paused['by']} has paused {what} ({paused['reason']}): it waits until {until}that is resumed")
    outcome: Outcome | None = None
    try:
        if limit is not None:
            outcome = submission.outcome_of(ledger, made.job_id, limit)
    finally:
        if as_json:
            output.put_json_text(_as_json(order, made, outcome))
    if outcome is not None:
        submission.check_success(outcome)
        if not as_json:
            output.put_json_text(outcome.result or "null")
    elif not as_json:
        output.put(str(made.job_id))


def _say(order: Order, made: Made, limit: timedelta | None) -> None:
    name = f"{order.job_type.namespace}/{order.job_type.name}"
    if made.existing is not None:
        first = made.existing
        output.say(
            f"key {order.submission.key!r} names a job that {first.get('first_submitted_by')!r} submitted at "
            f"{first.get('first_submitted_at')}, with the same payload: nothing new was submitted"
        )
    elif limit is None:
        output.say(f"submitted {name}")
    if limit is not None:
        output.say(f"waiting for job {made.job_id} of {name}")
    if not order.checked:
        output.say(_UNCHECKED)


def _as_json(order: Order, made: Made, outcome: Outcome | None) -> str:
    """One object; a result is put in as the ledger wrote it, with every digit of its numbers."""
    data: dict[str, Any] = {
        "schema": "brokerjobs.submitted/1",
        "id": str(made.job_id),
        "namespace": order.job_type.namespace,
        "type": order.job_type.name,
        "verdict": "created" if made.existing is None else "existing",
        "payload_checked": order.checked,
    }
    if outcome is not None:
        failed = outcome.failure_class is not None
        data["state"] = outcome.state
        data["failure"] = {"class": outcome.failure_class, "reason": outcome.reason} if failed else None
    text = json.dumps(data, ensure_ascii=False)
    return text if outcome is None else f'{text[:-1]}, "result": {outcome.result or "null"}}}'
