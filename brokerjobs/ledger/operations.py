"""Queries of the command line beside those of `inquiries`: a record as it was written, and rings of a whole route."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from brokerjobs.ledger.database import LedgerConnection

_RINGS_AT_ONCE = 1_000
_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """The record of a job as JSON text, which keeps every digit of its numbers, and the ledger's time of reading it.

    `record` is None if the ledger knows no such job.
    """

    record: str | None
    read_at: datetime


def written_record(job_id: UUID) -> Query[WrittenRecord]:
    """Everything that was recorded about one job, unparsed."""
    return Query("select brokerjobs.record(%s)::text, clock_timestamp()", [job_id], WrittenRecord)


@dataclass(frozen=True, slots=True)
class RungAgain:
    """How many jobs of a route were rung, and the last of them, None at the end."""

    rung: int
    last: UUID | None


def ring_again(route: str, by: str, after: UUID, limit: int) -> Query[RungAgain]:
    """Rings the next jobs that wait for a delivery on a route; the login must own the ledger."""
    return Query("select * from brokerjobs.ring_again(%s, %s, %s, %s)", [route, by, after, limit], RungAgain)


def ring_route_again(connection: LedgerConnection, route: str, by: str) -> Iterator[int]:
    """Rings every job that waits for a delivery on a route, in bounded statements; yields how many each one rang."""
    last: UUID | None = _FIRST
    while last is not None:
        [answer] = connection.fetch(ring_again(route, by, last, _RINGS_AT_ONCE))
        last = answer.last
        yield answer.rung
