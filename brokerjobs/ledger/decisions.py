"""Queries of people who decide: reviews, dead letters, adoption.

Each decision carries a request id: asked twice, it acts once.

As in `calls`, a query does nothing by itself; `fetch` of a connection runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.ledger.calls import array_literal
from brokerjobs.ledger.database import Query
from brokerjobs.rules import texts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

AT_ONCE: Final = 1_000
"""Jobs that one statement replays or discards at most, and rows that one statement lists."""
_REASON_LIMIT: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks for something, why, and under which id: the same one asked again gets the same answer."""

    id: UUID
    by: str
    reason: str

    def params(self) -> list[object]:
        """By and reason as they are kept: as much of the reason as can be stored, since it must not stop a decision."""
        return [self.by, texts.first_part(self.reason, _REASON_LIMIT)]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """One review as JSON of schema brokerjobs.review/1."""

    review: dict[str, Any]


def review_list(namespace: str | None, job_type: str | None, after: UUID | None, limit: int) -> Query[Reviewed]:
    """Open reviews, oldest first; `after` is the id of the last one seen."""
    return Query("select * from brokerjobs.review_list(%s, %s, %s, %s)", [namespace, job_type, after, limit], Reviewed)


@dataclass(frozen=True, slots=True)
class ReviewShown:
    """One review with the record of its job, both as JSON text, which keeps every digit, and the ledger's time."""

    review: str
    record: str
    read_at: datetime


def review_show(review_or_job: UUID) -> Query[ReviewShown]:
    """One review; no row if neither a review nor a job with one has this id."""
    return Query(
        "select review::text, record::text, clock_timestamp() from brokerjobs.review_show(%s)",
        [review_or_job],
        ReviewShown,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a decision about one job was answered, as JSON with a `verdict`."""

    answer: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A decision: `retry`, `give_up`, or `happened` with a reference and maybe a result.

    The result is JSON text, `checked` if a model of its type has accepted it.
    """

    decision: str
    reference: str | None = None
    result: str | None = None
    checked: bool = False


def review_resolve(review_or_job: UUID, version: int, resolution: Resolution, request: Request) -> Query[Answer]:
    """Decides a review as it was read at `version`."""
    by, reason = request.params()
    return Query(
        "select brokerjobs.review_resolve(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            review_or_job,
            request.id,
            version,
            resolution.decision,
            by,
            reason,
            resolution.reference,
            resolution.result,
            resolution.checked,
        ],
        Answer,
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Failed jobs of one type that failed in the same way; `example` is the one that failed last."""

    group_id: str
    namespace: str
    type: str
    failure_class: str
    error_type: str | None
    message: str
    jobs: int
    first_at: datetime
    last_at: datetime
    example: UUID


def dead_list(namespace: str | None, job_type: str | None, group: str | None, limit: int) -> Query[Group]:
    """Groups of failed jobs, the one that failed last first; or the one of this id."""
    return Query("select * from brokerjobs.dead_list(%s, %s, %s, %s)", [namespace, job_type, group, limit], Group)


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A failed job of a group, with what its last attempt said."""

    job_id: UUID
    failed_at: datetime
    attempts: int
    message: str | None


def dead_jobs(group: str, after: UUID | None, limit: int) -> Query[DeadJob]:
    """Jobs of a group in the order of their ids."""
    return Query("select * from brokerjobs.dead_jobs(%s, %s, %s)", [group, after, limit], DeadJob)


@dataclass(frozen=True, slots=True)
class DeadPlace:
    """The group of a failed job, and who discarded it if somebody did; `jobs` counts what the group shows."""

    group_id: str
    jobs: int
    failed_at: datetime
    discarded_at: datetime | None
    discarded_by: str | None
    discarded_why: str | None


def dead_show(job_id: UUID) -> Query[DeadPlace]:
    """Where a failed job stands; no row if it did not fail."""
    return Query("select * from brokerjobs.dead_show(%s)", [job_id], DeadPlace)


@dataclass(frozen=True, slots=True)
class Dealt:
    """What became of one job of a batch; `repeated`: by an earlier call of the same request, or it was so already."""

    job_id: UUID
    verdict: str
    state: str | None
    repeated: bool


def dead_replay(
    jobs: Sequence[UUID], attempts: int | None, deadline: datetime | timedelta | None, request: Request
) -> Query[Dealt]:
    """Lets failed jobs run again; a timedelta counts from the ledger's clock."""
    at, span = (deadline, None) if isinstance(deadline, datetime) else (None, deadline)
    return Query(
        "select * from brokerjobs.dead_replay(%s, %s::uuid[], %s, %s, %s, %s, %s)",
        [request.id, array_literal(jobs), *request.params(), attempts, at, span],
        Dealt,
    )


def dead_discard(jobs: Sequence[UUID], request: Request) -> Query[Dealt]:
    """Takes failed jobs out of the list of the dead."""
    return Query(
        "select * from brokerjobs.dead_discard(%s, %s::uuid[], %s, %s)",
        [request.id, array_literal(jobs), *request.params()],
        Dealt,
    )


def adopt(job_id: UUID, attempt_id: UUID, request: Request) -> Query[Answer]:
    """Makes the kept success of a lost last attempt the result of its failed job."""
    return Query(
        "select brokerjobs.adopt(%s, %s, %s, %s, %s)", [job_id, attempt_id, request.id, *request.params()], Answer
    )
