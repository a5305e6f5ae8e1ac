"""What the ledger has written, read by its owner: for assertions, never for deciding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

from psycopg.rows import class_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StateRow:
    """A row of job_state."""

    job_id: UUID
    state: str
    waiting: str | None
    wait_until: datetime | None
    wait_detail: dict[str, Any] | None
    attempt_id: UUID | None
    fencing_number: int
    reported: bool
    started: bool
    number: int
    charged: int
    uncharged: int
    lease_until: datetime | None
    deadline: datetime | None
    cancel: dict[str, Any] | None
    first_claimed_at: datetime | None
    rung_at: datetime | None
    accepted_attempt_id: UUID | None
    accepted_review_id: UUID | None
    forgiven: int
    granted: int | None
    failure_class: str | None
    failure_reason: str | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A row of attempt, as far as tests look at it."""

    id: UUID
    job_id: UUID
    number: int
    fencing_number: int
    charged: bool
    started_at: datetime | None
    observed_started_at: datetime | None
    lease_first_until: datetime
    lease_last_until: datetime
    renewals: int
    closed_at: datetime | None
    closed_as: str | None
    closed_by: str | None
    closed_why: str | None
    reported_at: datetime | None
    observed_reported_at: datetime | None
    reported_as: str | None
    verdict: str | None
    verdict_reason: str | None
    late: bool | None
    answer_state: str | None
    answer_until: datetime | None
    result: Any
    failure: Any
    ack_sent_at: datetime | None
    shown: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of event."""

    seq: int
    at: datetime
    attempt_id: UUID | None
    kind: str
    state: str | None
    detail: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class LateRow:
    """A row of late_report."""

    attempt_id: UUID
    fencing_number: int | None
    received_at: datetime
    observed_at: datetime | None
    reported_as: str
    reason: str
    result: Any
    failure: Any
    login: str


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row of outbox."""

    ticket: UUID
    kind: str
    job_id: UUID
    made_at: datetime
    hold_until: datetime
    taken: int


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A row of review."""

    attempt_id: UUID | None
    cause: str
    opened_at: datetime
    detail: dict[str, Any] | None
    closed_at: datetime | None
    closed_as: str | None
    closed_by: str | None
    decision: str | None
    login: str | None
    reason: str | None
    reference: str | None
    result: Any
    result_checked: bool | None


class LedgerRows:
    """Reads tables over the owner's connection."""

    def __init__(self, owner: psycopg.Connection) -> None:
        self._owner = owner

    def state(self, job: UUID) -> StateRow:
        """The state row of a job."""
        (row,) = self._rows(StateRow, "select {} from brokerjobs.job_state where job_id = %s", job)
        return row

    def attempt(self, attempt: UUID) -> AttemptRow:
        """One attempt."""
        (row,) = self._rows(
            AttemptRow,
            "select {} from (select a.*, brokerjobs.shown_attempt(a) as shown from brokerjobs.attempt a) x"
            " where id = %s",
            attempt,
        )
        return row

    def attempts(self, job: UUID) -> list[AttemptRow]:
        """The attempts of a job, in order."""
        return self._rows(
            AttemptRow,
            "select {} from (select a.*, brokerjobs.shown_attempt(a) as shown from brokerjobs.attempt a) x"
            " where job_id = %s order by number",
            job,
        )

    def events(self, job: UUID, *kinds: str) -> list[EventRow]:
        """The events of a job in order, of these kinds if any are named."""
        rows = self._rows(EventRow, "select {} from brokerjobs.event where job_id = %s order by seq", job)
        return [row for row in rows if not kinds or row.kind in kinds]

    def late_reports(self, job: UUID) -> list[LateRow]:
        """Reports that found no place of their own."""
        return self._rows(LateRow, "select {} from brokerjobs.late_report where job_id = %s order by id", job)

    def outbox(self, job: UUID, kind: str = "doorbell") -> list[OutboxRow]:
        """Messages about a job that wait to be published."""
        rows = self._rows(OutboxRow, "select {} from brokerjobs.outbox where job_id = %s order by made_at", job)
        return [row for row in rows if row.kind == kind]

    def reviews(self, job: UUID) -> list[ReviewRow]:
        """The reviews of a job."""
        return self._rows(ReviewRow, "select {} from brokerjobs.review where job_id = %s order by opened_at", job)

    def scalar(self, query: LiteralString, params: Sequence[Any] = (), *, of: type[T]) -> T:
        """The one value that a query of the owner answers."""
        row = self._owner.execute(query, params).fetchone()
        assert row is not None
        value = row[0]
        assert isinstance(value, of)
        return value

    def _rows(self, kind: type[T], query: LiteralString, key: UUID) -> list[T]:
        columns = ", ".join(kind.__dataclass_fields__)  # type: ignore[attr-defined]  # every kind is a dataclass
        with self._owner.cursor(row_factory=class_row(kind)) as cursor:
            cursor.execute(query.replace("{}", columns).encode(), [key])
            return cursor.fetchall()
