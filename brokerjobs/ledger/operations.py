"""Queries of the command line beside those of `inquiries`: written records, rings, cancels, quarantine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from brokerjobs.ledger.calls import array_literal
from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A queued job that a filter found."""

    job_id: UUID


def queued_jobs(namespace: str, job_type: str, tags: Mapping[str, str] | None, limit: int) -> Query[QueuedJob]:
    """The queued jobs of a type, with these tags or any."""
    wanted = None if not tags else json.dumps(dict(tags))
    return Query(
        "select * from brokerjobs.queued_jobs(%s, %s, %s::jsonb, %s)", [namespace, job_type, wanted, limit], QueuedJob
    )


@dataclass(frozen=True, slots=True)
class CancelledQueued:
    """Answer to one of many cancels: cancelled | locked (busy, ask again) | left (no longer queued, see `state`)."""

    job_id: UUID
    verdict: str
    state: str | None


def cancel_queued(job_ids: Sequence[UUID], by: str, reason: str) -> Query[CancelledQueued]:
    """Cancels those of the jobs that are queued, and leaves the others alone."""
    return Query(
        "select * from brokerjobs.cancel_queued(%s::uuid[], %s, %s)",
        [array_literal(job_ids), by, reason],
        CancelledQueued,
    )


@dataclass(frozen=True, slots=True)
class Quarantined:
    """What was recorded of a message that went to quarantine; `id` counts up."""

    id: int
    at: datetime
    worker: str
    route: str
    reason: str
    ticket: UUID | None
    job_id: UUID | None
    digest: str | None


def quarantine_list(namespace: str | None, reason: str | None, before: int | None, limit: int) -> Query[Quarantined]:
    """Messages that went to quarantine, newest first; at most 1 000 a call."""
    return Query(
        "select * from brokerjobs.quarantine_list(%s, %s, %s, %s)", [namespace, reason, before, limit], Quarantined
    )
