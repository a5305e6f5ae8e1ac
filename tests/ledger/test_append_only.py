"""What is recorded is never changed, not even by the ledger's owner (rule R6)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.ledger.ledger_caller import TEMPORARY
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

CLOSED = [
    "closed_at = now()",
    "closed_as = 'failed'",
    "closed_by = 'me'",
    "closed_why = 'so'",
    "closed_at = null, closed_as = null",
]
REPORTED = [
    "reported_at = now()",
    "observed_reported_at = now()",
    "reported_as = 'failed'",
    "verdict = 'rejected'",
    "verdict_reason = 'decided'",
    "late = not late",
    "answer_state = 'failed'",
    "answer_until = now()",
    "result = '1'",
    "failure = '{}'",
    "reported_at = null, reported_as = null, verdict = null",
]
IDENTITY = [
    "id = gen_random_uuid()",
    "job_id = gen_random_uuid()",
    "number = 9",
    "fencing_number = fencing_number + 1",
    "worker_id = gen_random_uuid()",
    "claimed_at = now()",
]


def _refuses(ledger: Ledger, statement: str, key: UUID | None = None) -> None:
    with pytest.raises(psycopg.DatabaseError) as refused:
        ledger.owner.execute(statement.encode(), None if key is None else [key])
    assert refused.value.sqlstate == "BJ004", refused.value


@pytest.mark.parametrize("change", [*CLOSED, *REPORTED, *IDENTITY])
def test_attempt__that_completed_is_never_rewritten(ledger: Ledger, change: str) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.complete(holding)
    before = ledger.rows.attempt(holding.attempt_id)

    _refuses(ledger, f"update brokerjobs.attempt set {change} where id = %s", holding.attempt_id)
    assert ledger.rows.attempt(holding.attempt_id) == before


@pytest.mark.parametrize("change", CLOSED)
def test_attempt__that_timed_out_stays_timed_out_through_its_late_report(ledger: Ledger, change: str) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.worker.complete(holding)

    _refuses(ledger, f"update brokerjobs.attempt set {change} where id = %s", holding.attempt_id)
    assert ledger.rows.attempt(holding.attempt_id).closed_as == "timed_out"


@pytest.mark.parametrize("change", IDENTITY)
def test_attempt__that_is_open_keeps_its_identity(ledger: Ledger, change: str) -> None:
    holding = ledger.worker.take(ledger.submit())
    before = ledger.rows.attempt(holding.attempt_id)

    _refuses(ledger, f"update brokerjobs.attempt set {change} where id = %s", holding.attempt_id)
    assert ledger.rows.attempt(holding.attempt_id) == before


def test_attempt__is_accepted_once_a_job(ledger: Ledger) -> None:
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.lose(first)
    ledger.ring_again(job)
    ledger.worker.complete(ledger.worker.take(job))

    with pytest.raises(psycopg.errors.UniqueViolation):
        ledger.owner.execute(
            "update brokerjobs.attempt set reported_at = now(), reported_as = 'completed', verdict = 'accepted'"
            " where id = %s",
            [first.attempt_id],
        )


@pytest.mark.parametrize("statement", ["update {} set kind = 'other'", "delete from {}", "truncate {}"])
@pytest.mark.parametrize("table", ["event", "its partition"])
def test_event__is_append_only(ledger: Ledger, statement: str, table: str) -> None:
    job = ledger.submit()
    name = "brokerjobs.event"
    if table != "event":
        name = ledger.rows.scalar(
            "select tableoid::regclass::text from brokerjobs.event where job_id = %s", [job], of=str
        )
        assert "event_20" in name

    _refuses(ledger, statement.format(name))


@pytest.mark.parametrize("column", ["payload = '1'", "deadline = null", "retry_attempts = 99", "submitted_by = 'me'"])
def test_job__is_immutable(ledger: Ledger, column: str) -> None:
    job = ledger.submit()
    before = ledger.producer.record(job)

    _refuses(ledger, f"update brokerjobs.job set {column} where id = %s", job)
    assert ledger.producer.record(job) == before


def test_late_report__is_append_only(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.fail(holding, {**TEMPORARY, "retry_after": 1})
    ledger.worker.complete(holding)
    before = ledger.rows.late_reports(holding.job_id)

    _refuses(ledger, "update brokerjobs.late_report set result = '2' where job_id = %s", holding.job_id)
    assert ledger.rows.late_reports(holding.job_id) == before != []


def test_state__that_ended_is_never_written_again(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.complete(holding)
    before = ledger.rows.state(holding.job_id)

    for change in (
        "accepted_attempt_id = gen_random_uuid()",
        "finished_at = now()",
        "rung_at = now()",
        "state = 'failed'",
    ):
        _refuses(ledger, f"update brokerjobs.job_state set {change} where job_id = %s", holding.job_id)
    assert ledger.rows.state(holding.job_id) == before


def test_make_partitions__makes_each_month_once(own_ledger: Ledger) -> None:
    made = own_ledger.coordinator.sql("select brokerjobs.make_partitions(5)")
    again = own_ledger.coordinator.sql("select brokerjobs.make_partitions(5)")

    assert len(made) in {2, 3}  # set-up has made this month and three more by the real clock, two days behind this one
    assert again == []
    own_ledger.clock.advance(timedelta(days=100).total_seconds())
    assert own_ledger.submit() is not None


def test_make_partitions__waits_for_no_writer(own_ledger: Ledger) -> None:
    """ATTACH lets others write; only another maker waits."""
    writer = own_ledger.open("producer")
    writer.begin()
    job = own_ledger.submit(by=writer)
    own_ledger.coordinator.sql("select brokerjobs.make_partitions(8)")
    writer.commit()

    assert own_ledger.rows.state(job).state == "queued"


def test_make_partitions__by_two_at_once_is_done_once(own_ledger: Ledger) -> None:
    one, two = own_ledger.open("coordinator"), own_ledger.open("coordinator")
    one.begin()
    made = one.sql("select brokerjobs.make_partitions(6)")
    assert made
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(two.sql, "select brokerjobs.make_partitions(6)")
        eventually_sync(lambda: own_ledger.is_blocked(two))
        one.commit()

        assert second.result() == []
