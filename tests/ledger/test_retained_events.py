"""Months of events are dropped once nothing is kept that long, after events of jobs that still exist were kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.ledger import retention
from brokerjobs.ledger.retention import Horizons
from tests.ledger.test_retention import DAY, remove, succeeded

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

HORIZONS = Horizons()


def step(ledger: Ledger, limit: int = 100) -> tuple[str, int]:
    """What one step did, and how many jobs it looked at."""
    (done,) = ledger.coordinator.fetch(retention.drop_events(HORIZONS, limit))
    return done.step, done.jobs


def months(ledger: Ledger) -> list[str]:
    """The partitions that are there."""
    query = (
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'brokerjobs.event'::regclass order by 1"
    )
    return [name for (name,) in ledger.owner.execute(query)]


def kept(ledger: Ledger) -> list[UUID]:
    """The jobs whose events are kept apart."""
    return [job for (job,) in ledger.owner.execute("select distinct job_id from brokerjobs.event_kept")]


@pytest.fixture
def aged(own_ledger: Ledger) -> Ledger:
    """A ledger in which time may pass: months for a year are there, none but those that hold events before them."""
    own_ledger.coordinator.sql("select brokerjobs.make_partitions(12)")
    here = own_ledger.rows.scalar("select to_char(brokerjobs.clock() at time zone 'UTC', '\"event_\"YYYYMM')", of=str)
    for name in months(own_ledger):
        if name < here:
            own_ledger.owner.execute(f"drop table brokerjobs.{name}".encode())
    return own_ledger


def let_month_age(ledger: Ledger) -> str:
    """Let the oldest month be over for as long as the longest horizon, and a second; answers its partition."""
    oldest = months(ledger)[0]
    query = (
        "select (to_date(right(%s, 6), 'YYYYMM') + interval '1 month') at time zone 'UTC' + interval '1 second' + %s"
    )
    row = ledger.owner.execute(query, [oldest, HORIZONS.longest]).fetchone()
    assert row is not None
    ledger.clock.set(row[0])
    return oldest


def test_month__is_dropped_and_events_of_existing_jobs_stay_in_their_records(aged: Ledger) -> None:
    gone, waiting = succeeded(aged), aged.submit(rung=True)
    held = aged.worker.take(aged.submit())
    records = {job: aged.producer.record(job)["events"] for job in (waiting, held.job_id)}
    oldest = let_month_age(aged)
    remove(aged.coordinator)

    assert step(aged) == ("begun", 0)
    assert step(aged) == ("kept", 3)
    # Copied and not yet dropped: each event is shown once.
    assert {job: aged.producer.record(job)["events"] for job in records} == records
    assert step(aged) == ("dropped", 0)

    assert oldest not in months(aged)
    assert set(kept(aged)) == set(records)
    assert {job: aged.producer.record(job)["events"] for job in records} == records
    assert aged.producer.sql("select brokerjobs.record(%s)", gone) == [(None,)]
    assert step(aged) == ("nothing", 0)


def test_kept_events__go_with_their_job(aged: Ledger) -> None:
    holding = aged.worker.take(aged.submit())
    let_month_age(aged)
    while step(aged)[0] != "dropped":
        pass
    assert kept(aged) == [holding.job_id]
    aged.worker.complete(holding)
    before = len(aged.producer.record(holding.job_id)["events"])
    aged.clock.advance(31 * DAY)

    remove(aged.coordinator)

    assert before == 3
    assert kept(aged) == []


def test_month__that_is_not_over_for_the_longest_horizon_stays(aged: Ledger) -> None:
    succeeded(aged)
    let_month_age(aged)
    aged.clock.advance(-2)

    assert step(aged) == ("nothing", 0)
    aged.clock.advance(3)
    assert step(aged) == ("begun", 0)


def test_walk__is_bounded_and_passes_no_job(aged: Ledger) -> None:
    jobs = [aged.submit() for _ in range(7)]
    let_month_age(aged)
    assert step(aged, 3)[0] == "begun"

    assert [step(aged, 3) for _ in range(4)] == [("kept", 3), ("kept", 3), ("kept", 1), ("dropped", 0)]
    assert sorted(kept(aged)) == sorted(jobs)


def test_walk__waits_for_transactions_that_may_still_write_to_that_month(aged: Ledger) -> None:
    """A job whose submission commits late would be walked past, and its events dropped."""
    late = aged.open("producer")
    late.begin()
    job = aged.submit(by=late)
    let_month_age(aged)
    assert step(aged)[0] == "begun"
    assert step(aged) == ("waiting", 0)
    late.commit()

    assert [step(aged)[0] for _ in range(2)] == ["kept", "dropped"]
    assert kept(aged) == [job]
    assert len(aged.producer.record(job)["events"]) == 1


def test_drop__gives_up_soon_while_somebody_writes_events(aged: Ledger) -> None:
    aged.submit()
    oldest = let_month_age(aged)
    assert [step(aged)[0] for _ in range(2)] == ["begun", "kept"]
    writer = aged.open("producer")
    writer.begin()
    aged.submit(by=writer)

    assert step(aged)[0] == "busy"
    assert oldest in months(aged)
    writer.commit()
    assert step(aged)[0] == "dropped"


def test_drop__that_was_begun_goes_on_where_it_stopped(aged: Ledger) -> None:
    """Another copy takes over; also with a longer horizon than that with which it was begun."""
    aged.submit()
    let_month_age(aged)
    assert step(aged)[0] == "begun"
    other = aged.open("coordinator")
    longer = Horizons(ended=timedelta(days=999))

    assert [other.fetch(retention.drop_events(longer, 10))[0].step for _ in range(3)] == ["kept", "dropped", "nothing"]
