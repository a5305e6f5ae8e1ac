"""Retention: what ended long ago is removed with all that belongs to it; nothing else is, and nobody waits for it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors

from brokerjobs.ledger import calls, pauses, retention, ticks
from brokerjobs.ledger.decisions import Request
from brokerjobs.ledger.retention import Horizons
from tests.ledger.ledger_caller import new_job

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

DAY = timedelta(days=1).total_seconds()
HORIZONS = Horizons()
PARTS = ("job", "job_state", "attempt", "late_report", "review", "event_kept")


@pytest.fixture(autouse=True)
def months(ledger: Ledger) -> None:
    """These tests let more time pass than the months of events that set-up has made."""
    ledger.coordinator.sql("select brokerjobs.make_partitions(8)")


def remove(by: Caller, horizons: Horizons = HORIZONS, limit: int = 1000) -> retention.Removed:
    """What one tick of the service removes."""
    (removed,) = by.fetch(retention.remove(ticks.Candidacy("retention", by.process, 60), horizons, limit))
    return removed


def rows_of(ledger: Ledger, job: UUID) -> dict[str, int]:
    """How many rows each table has of a job."""
    found: dict[str, int] = {}
    for table in PARTS:
        column = "id" if table == "job" else "job_id"
        query = f"select count(*) from brokerjobs.{table} where {column} = %s"
        row = ledger.owner.execute(query.encode(), [job]).fetchone()
        assert row is not None
        if row[0]:
            found[table] = row[0]
    return found


def succeeded(ledger: Ledger, **other: Any) -> UUID:
    """A job that has just succeeded, after an attempt that was lost and reported late."""
    job = ledger.submit(**other)
    lost = ledger.worker.take(job)
    ledger.lose(lost)
    ledger.ring_again(job)
    ledger.worker.complete(ledger.worker.take(job))
    ledger.worker.complete(lost)
    ledger.worker.complete(lost, {"another": "result"})
    return job


def failed(ledger: Ledger) -> UUID:
    """A job that has just failed."""
    job = ledger.submit()
    ledger.worker.fail(ledger.worker.take(job), {"class": "invalid", "classified": True})
    return job


def reviewed(ledger: Ledger) -> UUID:
    """A job that stands in review."""
    job = ledger.submit("once")
    holding = ledger.worker.take(job)
    ledger.worker.start(holding)
    ledger.worker.fail(holding, {"class": "temporary"})
    assert ledger.rows.state(job).state == "review"
    return job


def succeeded_after_review(ledger: Ledger) -> UUID:
    """A job whose late success has closed its review."""
    job = ledger.submit("once")
    holding = ledger.worker.take(job)
    ledger.worker.start(holding)
    ledger.lose(holding)
    assert ledger.worker.complete(holding).verdict == "accepted"
    return job


def test_retain_jobs__removes_a_succeeded_job_with_all_that_belongs_to_it(ledger: Ledger) -> None:
    other, job = succeeded_after_review(ledger), succeeded(ledger)
    assert rows_of(ledger, job) == {"job": 1, "job_state": 1, "attempt": 2, "late_report": 1}
    assert rows_of(ledger, other) == {"job": 1, "job_state": 1, "attempt": 1, "review": 1}

    ledger.clock.advance(30 * DAY)
    remove(ledger.coordinator)
    assert rows_of(ledger, job) != {}
    ledger.clock.advance(1)
    removed = remove(ledger.coordinator)

    assert (removed.jobs, removed.attempts) == (1, 2)
    assert rows_of(ledger, job) == rows_of(ledger, other) == {}
    assert ledger.producer.sql("select brokerjobs.record(%s)", job) == [(None,)]


def test_retain_jobs__keeps_what_failed_or_was_cancelled_six_times_as_long(ledger: Ledger) -> None:
    ended = [failed(ledger), ledger.submit()]
    ledger.producer.cancel(ended[1])

    ledger.clock.advance(180 * DAY)
    remove(ledger.coordinator)
    assert all(rows_of(ledger, job) for job in ended)
    ledger.clock.advance(1)
    remove(ledger.coordinator)

    assert [rows_of(ledger, job) for job in ended] == [{}, {}]


def test_retain_jobs__removes_what_a_pause_had_parked(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    asked = Request(id=uuid4(), by="ann", reason="the bank is away")
    ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, "work", asked))
    ledger.worker.claim(job)
    ledger.owner.execute(
        b"insert into brokerjobs.parked_queue select j.namespace, r.queue, j.id"
        b" from brokerjobs.job j join brokerjobs.route r on r.name = j.route where j.id = %s",
        [job],
    )
    ledger.producer.cancel(job)

    ledger.clock.advance(180 * DAY + 1)
    remove(ledger.coordinator)

    for table in ("parked", "parked_queue"):
        counted = f"select count(*) from brokerjobs.{table} where job_id = %s"
        assert ledger.rows.scalar(counted, [job], of=int) == 0


def test_retain_jobs__never_touches_a_job_that_has_not_finished(ledger: Ledger) -> None:
    running = ledger.worker.take(ledger.submit()).job_id
    jobs = [ledger.submit(), running, reviewed(ledger)]
    before = [(rows_of(ledger, job), ledger.rows.state(job)) for job in jobs]

    ledger.clock.advance(400 * DAY)
    remove(ledger.coordinator)

    assert [(rows_of(ledger, job), ledger.rows.state(job)) for job in jobs] == before


def test_retain_jobs__is_bounded_and_takes_the_oldest_first(ledger: Ledger) -> None:
    jobs: list[UUID] = []
    for _ in range(5):
        jobs.append(succeeded(ledger))
        ledger.clock.advance(1)
    ledger.clock.advance(31 * DAY)

    left = [5]
    for _ in range(3):
        assert remove(ledger.coordinator, limit=2).jobs == min(2, left[-1])
        left.append(sum(bool(rows_of(ledger, job)) for job in jobs))
    assert left == [5, 3, 1, 0]


@pytest.mark.parametrize(
    "held",
    [
        "select from brokerjobs.job_state where job_id = %s for update",
        "select from brokerjobs.attempt where job_id = %s and number = 1 for no key update",
    ],
)
def test_retain_jobs__leaves_a_job_that_somebody_writes_whole_and_does_not_wait(ledger: Ledger, held: str) -> None:
    busy, free = succeeded(ledger), succeeded(ledger)
    before = rows_of(ledger, busy)
    ledger.clock.advance(31 * DAY)
    other = ledger.open("owner")
    other.begin()
    other.connection.execute(held.encode(), [busy])
    ledger.coordinator.sql("set lock_timeout = '1ms'")

    assert remove(ledger.coordinator).jobs == 1
    assert (rows_of(ledger, busy), rows_of(ledger, free)) == (before, {})
    ledger.coordinator.sql("reset lock_timeout")
    other.rollback()
    assert remove(ledger.coordinator).jobs == 1
    assert rows_of(ledger, busy) == {}


def test_retention__by_two_at_once_is_done_by_one(own_ledger: Ledger) -> None:
    """Events of a job that one copy removes could else be kept by the other."""
    ledger = own_ledger
    ledger.coordinator.sql("select brokerjobs.make_partitions(8)")
    submit_keyed(ledger, "forgotten")
    ledger.clock.advance(31 * DAY)
    remove(ledger.coordinator)
    _beat(ledger, "lost")
    for _ in range(2):
        succeeded(ledger)
    ledger.clock.advance(31 * DAY)
    first, second = ledger.open("coordinator"), ledger.open("coordinator")
    first.begin()
    assert first.sql("select jobs from brokerjobs.retain_jobs('30 days', '180 days', 1)") == [(1,)]
    steps = (
        "select jobs from brokerjobs.retain_jobs('30 days', '180 days', 1)",
        "select brokerjobs.retain_keys('30 days', 10)",
        "select processes from brokerjobs.retain_evidence('180 days', '7 days', '30 days', 10)",
        "select (step <> 'nothing')::integer from brokerjobs.retain_events('1 day', 10)",
    )
    second.sql("set lock_timeout = '1ms'")

    assert [second.sql(call)[0][0] for call in steps] == [0, 0, 0, 0]
    first.rollback()
    second.sql("reset lock_timeout")
    assert [second.sql(call)[0][0] for call in steps] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "call",
    [
        "select brokerjobs.retain_jobs('59 minutes', '180 days', 10)",
        "select brokerjobs.retain_jobs('30 days', '59 minutes', 10)",
        "select brokerjobs.retain_keys('59 minutes', 10)",
        "select brokerjobs.retain_evidence('59 minutes', '7 days', '30 days', 10)",
        "select brokerjobs.retain_events('59 minutes', 10)",
    ],
)
def test_retention__keeps_everything_for_an_hour_whatever_it_is_told(ledger: Ledger, call: str) -> None:
    with pytest.raises(errors.InvalidParameterValue, match="for an hour at least"):
        ledger.coordinator.connection.execute(call.encode())


def test_retention__keeps_the_lead_and_works_on_nothing_without_it(ledger: Ledger) -> None:
    job = succeeded(ledger)
    ledger.clock.advance(31 * DAY)
    leader = ledger.open("coordinator")
    assert leader.lead("retention", 60)

    assert remove(ledger.coordinator).leading is False
    assert rows_of(ledger, job) != {}
    assert remove(leader).leading is True
    assert rows_of(ledger, job) == {}
    leader.lead("retention", 0)


def test_ring__of_a_removed_job_is_forgotten_by_the_relay(ledger: Ledger) -> None:
    job = failed(ledger)
    assert len(ledger.rows.outbox(job, "dead")) == 1
    ledger.clock.advance(181 * DAY)
    remove(ledger.coordinator)

    messages, _ = ledger.coordinator.outbox_take()

    assert job not in {message.job_id for message in messages}
    assert ledger.rows.outbox(job, "dead") == []


# What comes for a job that is gone.


def removed_with_attempt(ledger: Ledger) -> Holding:
    """An attempt that ended 31 days ago, and whose job was removed."""
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.complete(holding)
    ledger.clock.advance(31 * DAY)
    remove(ledger.coordinator)
    assert rows_of(ledger, holding.job_id) == {}
    return holding


def test_report__of_a_removed_job_is_kept_as_evidence(ledger: Ledger) -> None:
    holding = removed_with_attempt(ledger)

    answers = [
        ledger.worker.complete(holding),
        ledger.worker.fail(holding),
        ledger.worker.release(holding),
    ]

    assert [(answer.verdict, answer.reason) for answer in answers] == [("rejected", "unknown_job")] * 3
    kept = ledger.rows.late_reports(holding.job_id)
    assert [(report.reason, report.reported_as) for report in kept] == [
        ("unknown_job", "completed"),
        ("unknown_job", "failed"),
        ("unknown_job", "released"),
    ]
    assert kept[0].result == {"done": True}


def test_steps_of_a_removed_job_say_that_there_is_none(ledger: Ledger) -> None:
    holding = removed_with_attempt(ledger)

    assert ledger.worker.renew(holding).verdict == "lost"
    assert ledger.worker.start(holding) == "lost"
    assert ledger.worker.asked(holding).verdict == "unknown"
    assert ledger.worker.claim(holding.job_id).verdict == "unknown_job"
    assert ledger.worker.hand_back(holding.job_id) == 0
    assert ledger.producer.cancel(holding.job_id).verdict == "unknown_job"
    with pytest.raises(psycopg.DatabaseError, match="unknown_job") as stale:
        ledger.worker.complete_v1(holding)
    assert stale.value.sqlstate == "BJ003"


def test_evidence__about_unknown_jobs_is_removed_as_late_as_the_longest_kept_jobs(ledger: Ledger) -> None:
    unknown = replace(ledger.worker.take(ledger.submit()), job_id=uuid4())
    known = ledger.worker.take(reviewed_again := ledger.submit())
    ledger.worker.fail(known)
    ledger.worker.complete(known)
    ledger.worker.complete(unknown)
    assert len(ledger.rows.late_reports(reviewed_again)) == 1

    ledger.clock.advance(180 * DAY)
    remove(ledger.coordinator)
    assert len(ledger.rows.late_reports(unknown.job_id)) == 1
    ledger.clock.advance(1)
    removed = remove(ledger.coordinator)

    assert removed.late_reports is not None
    assert removed.late_reports >= 1
    assert ledger.rows.late_reports(unknown.job_id) == []
    assert len(ledger.rows.late_reports(reviewed_again)) == 1  # its job still exists


# Keys.


def submit_keyed(ledger: Ledger, key: str, payload: Any = None) -> tuple[str, UUID | None]:
    """The verdict of a keyed submission, and the job that it names."""
    (answer,) = ledger.submit_all([new_job(payload, key=key)])
    if answer.verdict == "created":
        ledger.worker.complete(ledger.worker.take(answer.id))
    return answer.verdict, answer.job_id


def test_key__outlives_its_jobs_record_and_says_so(ledger: Ledger) -> None:
    _, job = submit_keyed(ledger, "order-1")
    ledger.clock.advance(30 * DAY)
    assert submit_keyed(ledger, "order-1") == ("existing", job)
    ledger.clock.advance(1)
    remove(ledger.coordinator)

    assert submit_keyed(ledger, "order-1") == ("expired_record", job)
    assert submit_keyed(ledger, "order-1", {"another": "payload"}) == ("conflict", job)
    ledger.clock.advance(30 * DAY)
    remove(ledger.coordinator)
    assert submit_keyed(ledger, "order-1") == ("expired_record", job)
    ledger.clock.advance(1)
    assert (remove(ledger.coordinator).keys or 0) >= 1
    verdict, other = submit_keyed(ledger, "order-1")

    assert verdict == "created"
    assert other != job


def test_key__of_a_job_that_exists_is_never_forgotten(ledger: Ledger) -> None:
    (answer,) = ledger.submit_all([new_job(key="waits")])
    ledger.clock.advance(400 * DAY)
    remove(ledger.coordinator)

    assert submit_keyed(ledger, "waits") == ("existing", answer.id)


def test_expired_record__names_who_submitted_first(ledger: Ledger) -> None:
    _, job = submit_keyed(ledger, "order-2")
    ledger.clock.advance(31 * DAY)
    remove(ledger.coordinator)

    verdict, job_id, detail = ledger.producer.sql(
        "select * from brokerjobs.submit_v1(%s, 'work', '{}', 'order-2')", ledger.place.namespace
    )[0]

    assert (verdict, job_id, detail["first_submitted_by"]) == ("expired_record", job, "tester")


# Processes and quarantine.


def _beat(ledger: Ledger, name: str, state: str = "online") -> None:
    ledger.worker.sql(
        "select brokerjobs.heartbeat(%s, 'worker', null, %s, 'h', 1, '{}', '{}', %s, %s, '{}')",
        uuid4(),
        f"{ledger.place.namespace} {name}",
        state,
        ledger.clock.now,
    )


def test_processes__that_are_silent_are_forgotten_after_a_week(ledger: Ledger) -> None:
    def listed() -> list[str]:
        query = "select name from brokerjobs.worker where name like %s order by name"
        return [name.split()[1] for (name,) in ledger.owner.execute(query, [ledger.place.namespace + "%"])]

    _beat(ledger, "lost")
    _beat(ledger, "stopped", "stopped")
    ledger.clock.advance(7 * DAY)
    _beat(ledger, "there")
    remove(ledger.coordinator)
    assert listed() == ["lost", "stopped", "there"]
    ledger.clock.advance(1)
    remove(ledger.coordinator)

    assert listed() == ["there"]


def test_quarantine_records__are_forgotten_after_a_month(ledger: Ledger) -> None:
    def put(reason: str) -> None:
        ledger.worker.fetch(calls.quarantine("w", calls.Strange(ledger.place.route(), reason, None, None, None)))

    def listed() -> list[str]:
        query = "select reason from brokerjobs.quarantine where route = %s order by id"
        return [reason for (reason,) in ledger.owner.execute(query, [ledger.place.route()])]

    put("old")
    ledger.clock.advance(30 * DAY)
    put("young")
    remove(ledger.coordinator)
    assert listed() == ["old", "young"]
    ledger.clock.advance(1)
    remove(ledger.coordinator)

    assert listed() == ["young"]


# One road: everybody else is refused, the owner included.


def _refuses(ledger: Ledger, statement: str, *params: Any) -> None:
    with pytest.raises(psycopg.DatabaseError) as refused:
        ledger.owner.execute(statement.encode(), params)
    assert refused.value.sqlstate == "BJ004", refused.value


def with_all_parts(ledger: Ledger) -> UUID:
    """A finished job that has a row in each table."""
    job = succeeded_after_review(ledger)
    holding = replace(ledger.worker.take(ledger.submit()), job_id=job)
    ledger.worker.complete(holding)  # of an attempt that the job never had
    ledger.owner.execute(
        "insert into brokerjobs.event_kept select seq, at, job_id, attempt_id, kind, state, detail"
        " from brokerjobs.event where job_id = %s limit 1",
        [job],
    )
    assert set(rows_of(ledger, job)) == set(PARTS)
    return job


@pytest.mark.parametrize("table", PARTS)
def test_rows__are_not_deleted_by_hand(ledger: Ledger, table: str) -> None:
    job = with_all_parts(ledger)
    column = "id" if table == "job" else "job_id"

    _refuses(ledger, f"delete from brokerjobs.{table} where {column} = %s", job)
    _refuses(ledger, f"truncate brokerjobs.{table} cascade")
    assert set(rows_of(ledger, job)) == set(PARTS)


@pytest.mark.parametrize("table", [part for part in PARTS if part != "job_state"])
def test_rows__are_not_removed_before_the_row_that_decides(ledger: Ledger, table: str) -> None:
    job = with_all_parts(ledger)
    column = "id" if table == "job" else "job_id"
    with ledger.owner.transaction(force_rollback=True):
        ledger.owner.execute("set local brokerjobs.retaining = 'yes'")

        _refuses(ledger, f"delete from brokerjobs.{table} where {column} = %s", job)
    assert set(rows_of(ledger, job)) == set(PARTS)


@pytest.mark.parametrize("state", ["review", "queued"])
def test_state__of_an_unfinished_job_is_not_removed_even_on_the_one_road(ledger: Ledger, state: str) -> None:
    job = reviewed(ledger) if state == "review" else ledger.submit()
    with ledger.owner.transaction(force_rollback=True):
        ledger.owner.execute("set local brokerjobs.retaining = 'yes'")

        _refuses(ledger, "delete from brokerjobs.job_state where job_id = %s", job)
    assert ledger.rows.state(job).state == state


def test_kept_events__are_not_changed(ledger: Ledger) -> None:
    job = with_all_parts(ledger)

    _refuses(ledger, "update brokerjobs.event_kept set kind = 'other' where job_id = %s", job)
    others = "select count(*) from brokerjobs.event_kept where job_id = %s and kind = 'other'"
    assert ledger.rows.scalar(others, [job], of=int) == 0


@pytest.mark.parametrize(
    "call", ["retain_jobs('30 days', '180 days', 10)", "retain_evidence('180 days', '7 days', '30 days', 10)"]
)
def test_road__is_open_inside_the_functions_alone(ledger: Ledger, call: str) -> None:
    """The setting that opens it ends with the function, also in the caller's own transaction."""
    job = with_all_parts(ledger)
    with ledger.owner.transaction(force_rollback=True):
        ledger.owner.execute(f"select brokerjobs.{call}".encode())

        _refuses(ledger, "delete from brokerjobs.job_state where job_id = %s", job)
    assert set(rows_of(ledger, job)) == set(PARTS)


def test_plan__of_the_search_reads_no_more_than_it_removes(own_ledger: Ledger) -> None:
    """Neither jobs that are kept longer nor those that are young are passed over at every look."""
    for make in (failed, succeeded):
        for _ in range(3):
            make(own_ledger)
    own_ledger.owner.execute("set enable_seqscan = off")
    for state, index in (("state = 'succeeded'", "succeeded"), ("state in ('failed', 'cancelled')", "ended")):
        query = (
            f"explain (format json) select job_id from brokerjobs.job_state where {state} and finished_at < now()"
            " order by finished_at limit 10 for update skip locked"
        )
        row = own_ledger.owner.execute(query.encode()).fetchone()
        assert row is not None
        assert f"job_state_{index}" in json.dumps(row[0])
