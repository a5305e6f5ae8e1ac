"""What PostgreSQL raised on a user's own transaction, whatever driver and toolkit carries it, as our errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import (
    AlreadyReported,
    BrokerjobsError,
    PermissionDenied,
    SchemaMismatch,
    StaleAttempt,
    WrongIsolation,
)
from brokerjobs.ledger.database import first_line

if TYPE_CHECKING:
    from collections.abc import Generator
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding

_REFUSED_RESULT: Final = re.compile(r"the result of job [0-9a-f-]{36} cannot be accepted: (.+)")


def raised_by_ledger(
    error: BaseException, job_id: UUID, attempt_id: UUID, fencing_number: int
) -> BrokerjobsError | None:
    """The error of ours behind an SQLSTATE that `fence_v1` or `complete_v1` raised; None if it is not one of those."""
    match _said(error):
        case "BJ001", line:
            return WrongIsolation(level=line.rsplit(" is ", 1)[-1])
        case "BJ002", _:
            return AlreadyReported(job_id=job_id, attempt_id=attempt_id)
        case "BJ003", line:
            reason = line.rsplit(": ", 1)[-1]
            return StaleAttempt(job_id=job_id, attempt_id=attempt_id, fencing_number=fencing_number, reason=reason)
        case _:
            return None


def refused_result(error: BaseException) -> str | None:
    """What is wrong with the result that `complete_v1` refused by raising; None if it raised nothing of the kind."""
    said = _said(error)
    if said is None or said[0] != "22023":
        return None
    found = _REFUSED_RESULT.match(said[1])
    return None if found is None else found[1]


@contextmanager
def ruling(holding: Holding) -> Generator[None]:
    """Raises WrongIsolation, AlreadyReported and StaleAttempt for what the ledger raised in the block."""
    try:
        yield
    except Exception as error:
        ours = raised_by_ledger(error, holding.job_id, holding.attempt_id, holding.fencing_number)
        if ours is None:
            raise
        raise ours from error


@contextmanager
def ledger_needed() -> Generator[None]:
    """Says so if the user's transaction cannot reach the ledger: for statements of ours alone, never around his."""
    try:
        yield
    except Exception as error:
        match _said(error):
            case (("3F000" | "42883" | "42P01"), line):
                message = (
                    f"the database of the transaction given with within= has no ledger that this code knows ({line}); "
                    "the ledger must be in the database of your own tables: give a transaction of that one, or"
                    " make the ledger there"
                )
                raise SchemaMismatch(message, command="brokerjobs setup") from error
            case "42501", line:
                message = (
                    f"the login of the transaction given with within= may not do this: {line}; `brokerjobs setup"
                    " --grant` gives roles, producer=LOGIN to submit, worker=LOGIN to fence and complete"
                )
                raise PermissionDenied(message) from error
            case _:
                raise


def _said(error: BaseException) -> tuple[str, str] | None:
    """SQLSTATE and first line of the server's error, which toolkits wrap."""
    origin = error
    for _ in range(4):
        state = getattr(origin, "sqlstate", None) or getattr(origin, "pgcode", None)  # the latter in psycopg2
        if isinstance(state, str):
            return state, first_line(origin)
        match origin.args:
            case ({"C": str(code), "M": str(message)}, *_):  # the server's fields, in pg8000
                return code, message
            case _:
                pass
        deeper = getattr(origin, "orig", None) or origin.__cause__
        if not isinstance(deeper, BaseException):
            return None
        origin = deeper
    return None
