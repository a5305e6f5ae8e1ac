"""Queries of producers and people: submit, cancel, and what is asked about jobs. They decide nothing about attempts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from brokerjobs.ledger.database import Query
from brokerjobs.rules import texts
from brokerjobs.rules.needs import as_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from brokerjobs.rules.needs import Need
    from brokerjobs.telemetry.spans import Creation

_REASON_LIMIT: Final = 2_000


@dataclass(frozen=True, slots=True)
class NewJob:
    """One submission: the id is known before the commit; a timedelta counts from the ledger's clock."""

    id: UUID
    payload: str
    key: str | None
    tags: Mapping[str, str]
    not_before: datetime | timedelta | None
    deadline: datetime | timedelta | None
    traceparent: str | None
    priority: str = "normal"
    needs: Sequence[Need] = ()
    creation: Creation | None = None
    """The span of the submission, which ends with the answer to it; it is not sent."""


@dataclass(frozen=True, slots=True)
class SubmitBatch:
    """Submissions of one job type by one submitter; `announced`: the caller publishes them itself at once."""

    namespace: str
    type: str
    submitted_by: str
    fingerprint: str | None
    observed_at: datetime
    announced: bool
    jobs: Sequence[NewJob]


@dataclass(frozen=True, slots=True)
class Submitted:
    """Answer to one submission, in the order given; `detail` is JSON text, the same through every driver."""

    id: UUID
    verdict: str
    job_id: UUID | None
    ticket: UUID | None
    route: str | None
    detail: str | None


def submit(batch: SubmitBatch) -> Query[Submitted]:
    """Submits a batch in one transaction: the caller's, if it is run on the caller's connection.

    Parameters are texts, cast by the server: what every driver sends in the same way.  Arrays are literals made here,
    since psycopg looks at every element of a list and escapes each quote of a payload by itself.
    """
    jobs = batch.jobs
    return Query(
        "select id, verdict, job_id, ticket, route, detail::text from brokerjobs.submit_jobs(%s::text, %s::text,"
        " %s::text::uuid[], %s::text::text[], %s::text::text[], %s::text, %s::text::text[], %s::text::timestamptz[],"
        " %s::text::timestamptz[], %s::text::text[], %s::text, %s::text::timestamptz, %s::boolean,"
        " %s::text::interval[], %s::text::interval[], %s::text::text[], %s::text::text[])",
        [
            batch.namespace,
            batch.type,
            _array([str(job.id) for job in jobs]),
            _texts([job.payload for job in jobs]),
            _texts([job.key for job in jobs]),
            batch.submitted_by,
            _texts([json.dumps(dict(job.tags)) if job.tags else None for job in jobs]),
            _array([_time(job.not_before) for job in jobs]),
            _array([_time(job.deadline) for job in jobs]),
            _texts([job.traceparent for job in jobs]),
            batch.fingerprint,
            batch.observed_at.isoformat(),
            batch.announced,
            _spans([job.not_before for job in jobs]),
            _spans([job.deadline for job in jobs]),
            _texts([None if job.priority == "normal" else job.priority for job in jobs]),
            _texts([json.dumps(as_data(job.needs)) if job.needs else None for job in jobs]),
        ],
        _submitted,
    )


def _submitted(*columns: Any) -> Submitted:
    """A row by any driver: some give a UUID as the text it is made of."""
    own_id, verdict, job_id, ticket, route, detail = columns
    return Submitted(_uuid(own_id), verdict, job_id and _uuid(job_id), ticket and _uuid(ticket), route, detail)


def _uuid(value: UUID | str) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _array(values: Iterable[str | None]) -> str:
    """A PostgreSQL array literal of values that never need quoting."""
    return "{" + ",".join(["NULL" if value is None else value for value in values]) + "}"


def _texts(values: Sequence[str | None]) -> str | None:
    """A PostgreSQL array literal of any texts, None if there is none."""
    if not any(value is not None for value in values):
        return None
    return _array(
        None if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    )


def _time(value: datetime | timedelta | None) -> str | None:
    return value.isoformat() if isinstance(value, datetime) else None


def _spans(values: Sequence[datetime | timedelta | None]) -> str | None:
    """The timedeltas as an array of intervals in microseconds, None if there is none."""
    if not any(isinstance(value, timedelta) for value in values):
        return None
    return _array(
        f"{value // timedelta(microseconds=1)}us" if isinstance(value, timedelta) else None for value in values
    )


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Answer to a cancel: cancelled | requested | refused | unknown_job, with the job's state."""

    verdict: str
    state: str | None


def cancel(job_id: UUID, by: str, reason: str) -> Query[Cancelled]:
    """Cancels one job; of the reason as much is kept as can be stored, since it must not stop the cancel."""
    kept = texts.first_part(reason, _REASON_LIMIT)
    return Query("select * from brokerjobs.cancel(%s, %s::text, %s::text)", [job_id, by, kept], Cancelled)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands, as the ledger says it; `records.JobStatus` is its typed view."""

    job_id: UUID
    state: str
    waiting: str | None
    wait_until: datetime | None
    wait_detail: dict[str, Any] | None
    attempts: int
    failure_class: str | None
    failure_reason: str | None
    cancel: dict[str, Any] | None
    deadline: datetime | None
    past_deadline: bool | None


def status(job_ids: Sequence[UUID]) -> Query[Standing]:
    """The state of jobs; those unknown to the ledger have no row."""
    return Query("select * from brokerjobs.status(%s::uuid[])", [_array(map(str, job_ids))], Standing)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a job stands, and what ended it or put it into review; `result` is JSON text, None for none.

    `decided` says who ended it in a review, with what reference, and whether a result was given.
    """

    job_id: UUID
    state: str
    waiting: str | None
    result: str | None
    failure_class: str | None
    reason: str | None
    attempts: list[dict[str, Any]] | None
    decided: dict[str, Any] | None = None


def results(job_ids: Sequence[UUID]) -> Query[Outcome]:
    """One poll for all waiters; jobs unknown to the ledger have no row."""
    return Query("select * from brokerjobs.outcomes(%s::uuid[])", [_array(map(str, job_ids))], Outcome)


@dataclass(frozen=True, slots=True)
class Record:
    """The whole record of a job as JSON, None if the ledger knows no such job."""

    record: dict[str, Any] | None


def record(job_id: UUID) -> Query[Record]:
    """Everything that was recorded about one job."""
    return Query("select brokerjobs.record(%s)", [job_id], Record)


@dataclass(frozen=True, slots=True)
class Found:
    """The job that an idempotency key names."""

    job_id: UUID


def find(namespace: str, job_type: str, key: str) -> Query[Found]:
    """The job submitted under a key."""
    return Query("select * from brokerjobs.find(%s, %s, %s)", [namespace, job_type, key], Found)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs to list, newest first; `before` is the id of the last one seen."""

    namespace: str | None = None
    type: str | None = None
    state: str | None = None
    key: str | None = None
    tags: Mapping[str, str] | None = None
    before: UUID | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a list of jobs."""

    job_id: UUID
    namespace: str
    type: str
    state: str
    waiting: str | None
    wait_until: datetime | None
    attempts: int
    key: str | None
    submitted_by: str
    submitted_at: datetime
    finished_at: datetime | None
    failure_class: str | None
    failure_reason: str | None
    tags: dict[str, str]
    past_deadline: bool


def list_jobs(wanted: Filter) -> Query[Listed]:
    """Jobs by type, state, key and tags."""
    tags = None if wanted.tags is None else json.dumps(dict(wanted.tags))
    return Query(
        "select * from brokerjobs.list_jobs(%s, %s, %s, %s, %s::jsonb, %s, %s)",
        [wanted.namespace, wanted.type, wanted.state, wanted.key, tags, wanted.before, wanted.limit],
        Listed,
    )
