"""One typed query for each ledger function of paused job types; a query does nothing by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from brokerjobs.ledger.decisions import Request


@dataclass(frozen=True, slots=True)
class Answer:
    """What a pause or a resume did: {verdict, by, reason, since, …}.

    Verdicts: paused | already (somebody else paused it before) | resumed | not_paused | unknown_type | request_reused.
    """

    answer: dict[str, Any]


def pause_type(namespace: str, name: str, request: Request) -> Query[Answer]:
    """Pauses a job type: its jobs are accepted, and none is begun."""
    return Query(
        "select brokerjobs.pause_type(%s, %s, %s, %s, %s)",
        [request.id, namespace, name, *request.params()],
        Answer,
    )


def resume_type(namespace: str, name: str, request: Request) -> Query[Answer]:
    """Ends the pause of a job type; `unpark` rings the jobs that were parked."""
    return Query(
        "select brokerjobs.resume_type(%s, %s, %s, %s, %s)",
        [request.id, namespace, name, *request.params()],
        Answer,
    )


@dataclass(frozen=True, slots=True)
class Unparked:
    """How many parked jobs were rung or ended, and how many were taken out of the parked ones: 0 at the end."""

    rung: int
    taken: int


def unpark(namespace: str, name: str, limit: int) -> Query[Unparked]:
    """Rings parked jobs of a type that is not paused any more, at most `limit`."""
    return Query("select * from brokerjobs.unpark(%s, %s, %s)", [namespace, name, limit], Unparked)


@dataclass(frozen=True, slots=True)
class Registered:
    """A job type with its terms, whether it is paused, and how many of its jobs are parked (10 000: or more)."""

    type: dict[str, Any]


def types(namespace: str | None, name: str | None = None) -> Query[Registered]:
    """Registered job types; one that is named comes with its last twenty pauses."""
    return Query("select * from brokerjobs.types(%s, %s)", [namespace, name], Registered)
