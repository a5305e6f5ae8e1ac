"""What commands of people who decide share: request ids, reasons, asking again, and a question before much is done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar
from uuid import UUID, uuid4

import typer

from brokerjobs.cli import options, output
from brokerjobs.cli.failures import Refused, UsageError
from brokerjobs.errors import LedgerUnavailable, LoginRefused

if TYPE_CHECKING:
    from collections.abc import Generator

    from brokerjobs.ledger.database import LedgerConnection, Query
    from brokerjobs.ledger.decisions import Request

Row = TypeVar("Row")

_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.2

Reason: TypeAlias = Annotated[
    str, typer.Option("--reason", show_default=False, help="Why, for the record; always wanted.")
]
RequestId: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--request", metavar="UUID", show_default=False, help="The request's id: asked again with it, it acts once."
    ),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def request_of(request_id: str | None, by: str | None, reason: str) -> Request:
    """The request that flags say, with an id of its own if none is given; raises UsageError."""
    from brokerjobs.ledger.decisions import Request  # noqa: PLC0415  # slow: the driver

    if not reason.strip():
        message = "--reason is empty; it is kept with the job and says why this was decided"
        raise UsageError(message)
    try:
        own_id = uuid4() if request_id is None else UUID(request_id)
    except ValueError:
        message = f"--request {request_id!r} is no UUID"
        raise UsageError(message) from None
    return Request(id=own_id, by=options.who(by), reason=reason)


def ledger_of(database_url: str | None, command: str) -> LedgerConnection:
    """A connection to the ledger, made when it is first used."""
    from brokerjobs.ledger.database import ConnectOptions, LedgerConnection  # noqa: PLC0415  # slow: the driver

    settings = options.settings_of({"database_url": database_url})
    return LedgerConnection(ConnectOptions(settings.need_database_url(), application=command))


def ask(ledger: LedgerConnection, query: Query[Row], request: Request) -> list[Row]:
    """The ledger's answer to a decision, asked again if none came: with the same request id it acts once.

    Raises LedgerUnavailable with a note that names the id, since the decision may have been recorded.
    """
    for left in reversed(range(_TRIES)):
        try:
            return ledger.fetch(query)
        except LedgerUnavailable as error:
            if not left or isinstance(error, LoginRefused):
                error.add_note(f"whether it was recorded is not known: ask again with --request {request.id}")
                raise
            time.sleep(_PAUSE_SECONDS)
    raise AssertionError("unreachable: the last try returns or raises")


def confirm(question: str, *, yes: bool, hint: str) -> None:
    """Ask before much is done; raises Refused if nobody said yes, or if there is nobody to ask."""
    if yes:
        return
    if not (output.is_terminal() and output.has_keyboard()):
        message = f"{question}: nobody said yes, nothing was changed"
        raise Refused(message, hint=hint)
    if not typer.confirm(output.escaped(question) + "?", err=True):
        message = "nothing was changed"
        raise Refused(message, hint=hint)


def batches(jobs: list[UUID], size: int) -> Generator[list[UUID]]:
    """The jobs in parts of at most this size."""
    for start in range(0, len(jobs), size):
        yield jobs[start : start + size]
