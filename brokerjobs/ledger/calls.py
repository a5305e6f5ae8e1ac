"""One typed query for each ledger function that our own code calls: arrays in, one answer a row.

A query does nothing by itself; `fetch` of a connection runs it. Verdicts are the words of `rules.verdicts`.
What a worker makes for every job is a named tuple: a frozen dataclass takes twice the time to make.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerjobs.ledger.arrays import Moments, Texts, Uuids
from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID


def array_literal(values: Iterable[UUID | int | float | datetime | None]) -> str:
    """A PostgreSQL array literal of values that never need quoting.

    psycopg quotes and escapes every element of a list: half of the client's time of a claim (measured).
    """
    return (
        "{"
        + ",".join(["NULL" if v is None else v.isoformat() if isinstance(v, datetime) else str(v) for v in values])
        + "}"
    )


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process as the ledger knows it: an id for each start, a name that may come again."""

    id: UUID
    name: str
    host: str
    pid: int


class ClaimRequest(NamedTuple):
    """One delivery that asks for its job; the attempt id is made before asking (rule R7)."""

    job_id: UUID
    attempt_id: UUID
    route: str
    ticket: UUID
    redelivered: bool
    delivered_at: datetime


class Claimed(NamedTuple):
    """Answer to one claim, in the order asked; everything after `until` is set only if granted.

    Here and below `opened` is the review that this very call has opened, if it has (`review_opening`).
    """

    job_id: UUID
    attempt_id: UUID
    verdict: str
    state: str | None
    until: datetime | None
    number: int
    fencing_number: int
    lease_seconds: float
    time_limit_seconds: float
    repeatable: bool
    checked: bool
    type: str
    payload: str
    key: str | None
    submitted_by: str
    tags: dict[str, str]
    deadline: datetime | None
    traceparent: str | None
    needs: list[dict[str, Any]] | None
    opened: dict[str, Any] | None


def claim(
    process: ProcessIdentity, namespace: str, types: Sequence[str], requests: Sequence[ClaimRequest]
) -> Query[Claimed]:
    """Claims jobs for a worker that handles `types` of `namespace`."""
    return Query(
        "select t.*, case t.verdict when 'review' then brokerjobs.review_opening(t.job_id) end"
        " from brokerjobs.claim_jobs(%s, %s, %s, %s::text[], %s::uuid[], %s::uuid[], %s::text[], %s::uuid[],"
        " %s::boolean[], %s::timestamptz[]) t",
        [
            process.id,
            process.name,
            namespace,
            list(types),
            Uuids(r.job_id for r in requests),
            Uuids(r.attempt_id for r in requests),
            Texts(r.route for r in requests),
            Uuids(r.ticket for r in requests),
            array_literal(r.redelivered for r in requests),
            Moments(r.delivered_at for r in requests),
        ],
        Claimed,
    )


@dataclass(frozen=True, slots=True)
class Holding:
    """What names an attempt in every later call: job, attempt and fencing number together (rule R1)."""

    job_id: UUID
    attempt_id: UUID
    fencing_number: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer to a start."""

    job_id: UUID
    attempt_id: UUID
    verdict: str
    opened: dict[str, Any] | None


def start(holdings: Sequence[Holding], observed_at: Sequence[datetime]) -> Query[Verdict]:
    """Commits the start of attempts before their handlers run."""
    return Query(
        "select t.*, case t.verdict when 'lost' then brokerjobs.review_opening(t.job_id) end"
        " from brokerjobs.start(%s::uuid[], %s::uuid[], %s::bigint[], %s::timestamptz[]) t",
        [*columns(holdings), Moments(observed_at)],
        Verdict,
    )


@dataclass(frozen=True, slots=True)
class Renewed:
    """Answer to a renewal; the lease that remains is counted from before the request was sent."""

    job_id: UUID
    attempt_id: UUID
    verdict: str
    lease_seconds: float | None
    opened: dict[str, Any] | None


def renew(holdings: Sequence[Holding], started_at: Sequence[datetime | None]) -> Query[Renewed]:
    """Renews leases; `started_at` carries the observed start of an attempt once, then None."""
    return Query(
        "select t.*, case t.verdict when 'lost' then brokerjobs.review_opening(t.job_id) end"
        " from brokerjobs.renew(%s::uuid[], %s::uuid[], %s::bigint[], %s::timestamptz[]) t",
        [*columns(holdings), Moments(started_at)],
        Renewed,
    )


class Report(NamedTuple):
    """What a worker finally says of an attempt: `body` is the result, or the failure, as JSON."""

    holding: Holding
    body: str
    observed_at: datetime
    started_at: datetime | None
    renewals: int = 0
    smallest_margin_seconds: float | None = None
    longest_round_trip_seconds: float | None = None


class Reported(NamedTuple):
    """The ledger's verdict on a report, with the job's state and the time of its next try."""

    job_id: UUID
    attempt_id: UUID
    verdict: str
    reason: str | None
    late: bool | None
    state: str | None
    until: datetime | None
    opened: dict[str, Any] | None


def complete(reports: Sequence[Report]) -> Query[Reported]:
    """Reports results."""
    return Query(_OPENED + "brokerjobs.complete(" + _REPORT, _report_columns(reports), Reported)


def fail(reports: Sequence[Report]) -> Query[Reported]:
    """Reports failures: {class, classified, type, message, traceback, retry_after, result}."""
    return Query(_OPENED + "brokerjobs.fail(" + _REPORT, _report_columns(reports), Reported)


def release(reports: Sequence[Report]) -> Query[Reported]:
    """Gives attempts back: {why: drain | snooze | not_here, classified, until}."""
    return Query(_OPENED + "brokerjobs.release(" + _REPORT, _report_columns(reports), Reported)


_OPENED = "select t.*, case t.state when 'review' then brokerjobs.review_opening(t.job_id) end from "
_REPORT = (
    "%s::uuid[], %s::uuid[], %s::bigint[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::integer[],"
    " %s::double precision[], %s::double precision[]) t"
)


def _report_columns(reports: Sequence[Report]) -> list[Any]:
    return [
        *columns([r.holding for r in reports]),
        Texts(r.body for r in reports),
        Moments(r.observed_at for r in reports),
        Moments(r.started_at for r in reports),
        array_literal(r.renewals for r in reports),
        array_literal(r.smallest_margin_seconds for r in reports),
        array_literal(r.longest_round_trip_seconds for r in reports),
    ]


def columns(holdings: Sequence[Holding]) -> list[Any]:
    """The three arrays that name attempts in a call."""
    return [
        Uuids(h.job_id for h in holdings),
        Uuids(h.attempt_id for h in holdings),
        array_literal(h.fencing_number for h in holdings),
    ]


@dataclass(frozen=True, slots=True)
class Asked:
    """Has an attempt reported: reported | not_reported | locked | unknown."""

    verdict: str
    reported_as: str | None
    report_verdict: str | None
    reason: str | None
    late: bool | None
    state: str | None


def asked(holding: Holding) -> Query[Asked]:
    """The only question after a COMMIT without an answer (rule R7)."""
    return Query("select * from brokerjobs.asked(%s, %s, %s)", [*_one(holding)], Asked)


def _one(holding: Holding) -> tuple[UUID, UUID, int]:
    return holding.job_id, holding.attempt_id, holding.fencing_number


@dataclass(frozen=True, slots=True)
class Nothing:
    """The row of a function that returns void."""

    void: object


@dataclass(frozen=True, slots=True)
class Count:
    """The row of a function that returns a number."""

    count: int


class LeaseFigures(NamedTuple):
    """How an attempt's lease fared, seconds by the worker's monotonic clock; `started_at` is its wall clock."""

    started_at: datetime | None = None
    renewals: int = 0
    smallest_margin_seconds: float | None = None
    longest_round_trip_seconds: float | None = None


class SentAck(NamedTuple):
    """An acknowledgement that was sent, at the worker's clock, for the delivery of an attempt that has ended."""

    attempt_id: UUID
    sent_at: datetime
    lease: LeaseFigures


def acked(sent: Sequence[SentAck]) -> Query[Nothing]:
    """Records acknowledgements that were sent."""
    return Query(
        "select brokerjobs.acked(%s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::integer[],"
        " %s::double precision[], %s::double precision[])",
        [
            Uuids(one.attempt_id for one in sent),
            Moments(one.sent_at for one in sent),
            Moments(one.lease.started_at for one in sent),
            array_literal(one.lease.renewals for one in sent),
            array_literal(one.lease.smallest_margin_seconds for one in sent),
            array_literal(one.lease.longest_round_trip_seconds for one in sent),
        ],
        Nothing,
    )


def ended_otherwise(holding: Holding, how: dict[str, Any]) -> Query[Nothing]:
    """Notes that a handler ended in another way than its completing transaction."""
    return Query("select brokerjobs.ended_otherwise(%s, %s, %s, %s::jsonb)", [*_one(holding), json.dumps(how)], Nothing)


def hand_back(worker: str, job_ids: Sequence[UUID]) -> Query[Count]:
    """Gives unclaimed deliveries back: a new ring for each job that waits for one."""
    return Query("select brokerjobs.hand_back(%s, %s::uuid[])", [worker, array_literal(job_ids)], Count)


@dataclass(frozen=True, slots=True)
class Returned:
    """The row of `probe_returned`."""

    known: bool


def probe_returned(worker: str, route: str, ticket: UUID) -> Query[Returned]:
    """Reports that a probe came back; not `known` if this ledger did not send it through this route."""
    return Query("select brokerjobs.probe_returned(%s, %s, %s)", [worker, route, ticket], Returned)


@dataclass(frozen=True, slots=True)
class Strange:
    """A message that is not ours to run: where it came by, why it is rejected, and what it named."""

    route: str
    reason: str
    ticket: UUID | None
    job_id: UUID | None
    digest: str | None


def quarantine(worker: str, *messages: Strange) -> Query[Nothing]:
    """Records messages that their worker rejects to quarantine; the jobs that they name may be rung again."""
    return Query(
        "select brokerjobs.quarantine(%s, x.route, x.reason, x.ticket, x.job, x.digest)"
        " from unnest(%s::text[], %s::text[], %s::uuid[], %s::uuid[], %s::text[])"
        " x (route, reason, ticket, job, digest)",
        [
            worker,
            [one.route for one in messages],
            [one.reason for one in messages],
            array_literal(one.ticket for one in messages),
            array_literal(one.job_id for one in messages),
            [one.digest for one in messages],
        ],
        Nothing,
    )
