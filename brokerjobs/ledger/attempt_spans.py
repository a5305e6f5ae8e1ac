"""The contexts of attempts' spans: kept for the links between attempts, and for telling of those that were given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerjobs.ledger.arrays import Texts, Uuids
from brokerjobs.ledger.calls import Nothing
from brokerjobs.ledger.database import Query
from brokerjobs.telemetry import metrics, spans
from brokerjobs.telemetry.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID


class TracedAttempt(NamedTuple):
    """One of the last two attempts of a job; `closed_seconds`: how long ago it was closed, by the ledger's clock."""

    job_id: UUID
    attempt_id: UUID
    namespace: str
    type: str
    queue: str | None
    state: str
    """The job's."""
    number: int
    fencing_number: int
    worker: str
    claimed_at: datetime
    closed_at: datetime | None
    closed_as: str | None
    closed_by: str | None
    closed_seconds: float | None
    traceparent: str | None
    """The context of the job's creation."""
    attempt_traceparent: str | None
    """The context of the attempt's own span, if it was sampled and is known."""


def attempt_spans(traceparents: Mapping[UUID, str]) -> Query[Nothing]:
    """Records the contexts of attempts' spans, by attempt."""
    return Query(
        "select brokerjobs.attempt_spans(%s::uuid[], %s::text[])",
        [Uuids(traceparents), Texts(traceparents.values())],
        Nothing,
    )


def traced_attempts(job_ids: Sequence[UUID]) -> Query[TracedAttempt]:
    """The last two attempts of each of these jobs."""
    return Query("select * from brokerjobs.traced_attempts(%s::uuid[])", [Uuids(job_ids)], TracedAttempt)


def tell_expired(lost: TracedAttempt) -> None:
    """Tells of an attempt that was just given up, once: its span from its claim on, and how it ended."""
    if lost.closed_at is None:
        return
    spans.expire(
        spans.Expired(
            namespace=lost.namespace,
            job_type=lost.type,
            job_id=lost.job_id,
            attempt_id=lost.attempt_id,
            number=lost.number,
            fencing_number=lost.fencing_number,
            worker_name=lost.worker,
            claimed_at=lost.claimed_at,
            found_at=lost.closed_at,
            state=lost.state,
            traceparent=lost.traceparent,
            attempt_traceparent=lost.attempt_traceparent,
        )
    )
    seconds = (lost.closed_at - lost.claimed_at).total_seconds()
    metrics.attempt_ended(lost.type, lost.queue or "", Outcome.TIMED_OUT, seconds)
