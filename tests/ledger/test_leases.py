"""Leases that run out, and the grace after a time in which nobody could renew; the election whose ticks tell of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.ledger import services

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

GRACE = 30  # seconds: one lease of these jobs


def test_expire__gives_up_what_has_run_out_and_nothing_else(ledger: Ledger) -> None:
    first = ledger.worker.take(ledger.submit())
    ledger.clock.advance(1)
    second = ledger.worker.take(ledger.submit())
    ledger.clock.advance(29)

    expired = ledger.coordinator.expire()

    assert expired[first.job_id].state == "queued"
    assert second.job_id not in expired
    attempt = ledger.rows.attempt(first.attempt_id)
    assert (attempt.closed_as, attempt.closed_why, attempt.closed_by) == (
        "timed_out",
        "lease expired",
        ledger.coordinator.process.name,
    )
    assert (attempt.closed_at, attempt.shown, attempt.reported_at) == (ledger.clock.now, "timed_out", None)
    assert ledger.worker.renew(first).verdict == "lost"


def test_expire__records_the_last_lease_end_of_a_dead_worker(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.clock.advance(20)
    ledger.worker.renew(holding)
    until = ledger.clock.after(30)
    ledger.lose(holding)

    attempt = ledger.rows.attempt(holding.attempt_id)
    assert (attempt.lease_last_until, attempt.lease_first_until) == (until, until - timedelta(seconds=20))


@pytest.fixture
def alone(ledger: Ledger) -> Ledger:
    """A ledger in which no other job stands, with the clock of the tests as its reaper."""
    for table in ("job_state", "attempt", "job"):
        for step in ("alter table {} disable trigger user", "delete from {}", "alter table {} enable trigger user"):
            ledger.owner.execute(step.format(f"brokerjobs.{table}").encode())
    ledger.owner.execute("delete from brokerjobs.service")
    ledger.owner.execute(
        "insert into brokerjobs.service select 'reaper', gen_random_uuid(), '', t, t, t - interval '1 day'"
        " from brokerjobs.clock() t"
    )
    return ledger


def test_expire__is_bounded(alone: Ledger) -> None:
    for _ in range(5):
        alone.worker.take(alone.submit())
    alone.clock.advance(30)

    assert [len(alone.coordinator.expire(limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_due__is_bounded(alone: Ledger) -> None:
    for _ in range(5):
        alone.submit(not_before=timedelta(seconds=5))
    alone.clock.advance(5)

    assert [len(alone.coordinator.due(limit=2)) for _ in range(4)] == [2, 2, 1, 0]


@pytest.fixture
def ticking(alone: Ledger) -> Ledger:
    """A ledger whose reaper, the coordinator here, has ticked once; the clock of the tests no longer ticks for it."""
    alone.owner.execute("delete from brokerjobs.service")
    assert alone.coordinator.lead("reaper") is True
    return alone


def _tick(ledger: Ledger, seconds: float, by: Caller | None = None) -> None:
    """Time passes with ticks four seconds apart."""
    caller, passed = by or ledger.coordinator, 0.0
    while passed < seconds:
        step = min(4.0, seconds - passed)
        ledger.clock.advance(step, ticking=False)
        assert caller.lead("reaper") is True
        passed += step


def _gives_up(ledger: Ledger, job: UUID, *, by_claim: bool) -> bool:
    if by_claim:
        ledger.open().claim(job)
    else:
        ledger.coordinator.expire()
    return ledger.rows.state(job).state != "running"


@pytest.mark.parametrize("by_claim", [False, True])
def test_leases__are_spared_until_one_has_passed_after_the_first_tick(ticking: Ledger, by_claim: bool) -> None:
    holding = ticking.worker.take(ticking.submit())
    _tick(ticking, GRACE - 1)
    ticking.owner.execute("update brokerjobs.job_state set lease_until = lease_until - interval '20 seconds'")

    assert _gives_up(ticking, holding.job_id, by_claim=by_claim) is False
    _tick(ticking, 1)
    assert _gives_up(ticking, holding.job_id, by_claim=by_claim) is True


@pytest.mark.parametrize("by_claim", [False, True])
def test_leases__are_spared_after_a_gap_in_the_ticks(ticking: Ledger, by_claim: bool) -> None:
    """The ledger was away for a minute: nobody could renew, and healthy attempts must not all expire after it."""
    _tick(ticking, GRACE)
    holding = ticking.worker.take(ticking.submit())
    ticking.clock.advance(60, ticking=False)

    assert _gives_up(ticking, holding.job_id, by_claim=by_claim) is False  # no reaper has ticked: the gap has not ended
    _tick(ticking, 1)
    _tick(ticking, GRACE - 1)
    assert _gives_up(ticking, holding.job_id, by_claim=by_claim) is False
    assert ticking.worker.renew(holding).verdict == "kept"
    _tick(ticking, GRACE)
    assert _gives_up(ticking, holding.job_id, by_claim=by_claim) is True


@pytest.mark.parametrize("by_claim", [False, True])
def test_leases__of_a_dead_worker_end_one_lease_after_the_gap(ticking: Ledger, by_claim: bool) -> None:
    _tick(ticking, GRACE)
    holding = ticking.worker.take(ticking.submit())
    ticking.clock.advance(60, ticking=False)
    _tick(ticking, 1)
    _tick(ticking, GRACE)

    assert _gives_up(ticking, holding.job_id, by_claim=by_claim) is True


def test_leases__are_spared_for_their_own_length(ticking: Ledger) -> None:
    """One long lease must not keep the short ones waiting, nor a short one end the long."""
    ticking.declare("work", lease=timedelta(seconds=10))
    ticking.declare("once", lease=timedelta(seconds=100))
    short, long = ticking.worker.take(ticking.submit()), ticking.worker.take(ticking.submit("once"))
    ticking.clock.advance(200, ticking=False)
    _tick(ticking, 1)
    _tick(ticking, 10)
    expired = set(ticking.coordinator.expire())
    _tick(ticking, 89)
    nothing = set(ticking.coordinator.expire())
    _tick(ticking, 1)

    assert (expired, nothing) == ({short.job_id}, set())
    assert set(ticking.coordinator.expire()) == {long.job_id}


def test_leases__that_are_spared_do_not_fill_the_reapers_batch(ticking: Ledger) -> None:
    ticking.declare("once", lease=timedelta(hours=1))
    for _ in range(3):
        ticking.worker.take(ticking.submit("once"))
    short = ticking.worker.take(ticking.submit())
    ticking.clock.advance(7200, ticking=False)
    _tick(ticking, 1)
    _tick(ticking, GRACE)

    assert set(ticking.coordinator.expire(limit=2)) == {short.job_id}


def test_leases__are_spared_after_the_server_started(own_ledger: Ledger) -> None:
    """The real clock, and a server that cannot have run for a day."""
    own_ledger.declare("work", lease=timedelta(days=1))
    holding = own_ledger.worker.take(own_ledger.submit())
    own_ledger.clock.set(datetime.now(UTC))
    own_ledger.owner.execute("update brokerjobs.service set gap_ended_at = gap_ended_at - interval '10 days'")
    own_ledger.owner.execute("update brokerjobs.job_state set lease_until = brokerjobs.clock() - interval '1 hour'")

    assert _gives_up(own_ledger, holding.job_id, by_claim=False) is False
    assert _gives_up(own_ledger, holding.job_id, by_claim=True) is False


def test_lead__is_taken_kept_and_given_up(ledger: Ledger) -> None:
    service = f"relay-{uuid4()}"
    one, two = ledger.open("coordinator"), ledger.open("coordinator")

    assert [one.lead(service), two.lead(service), one.lead(service)] == [True, False, True]
    assert two.lead(service, 0) is False  # who does not lead gives nothing up
    assert one.lead(service) is True
    assert one.lead(service, 0) is False
    assert [two.lead(service), one.lead(service)] == [True, False]


def test_lead__runs_out_and_is_taken_by_another(ledger: Ledger) -> None:
    service = f"relay-{uuid4()}"
    one, two = ledger.open("coordinator"), ledger.open("coordinator")
    one.lead(service, 4)
    ledger.clock.advance(3.9)
    assert two.lead(service) is False
    ledger.clock.advance(0.1)

    assert [two.lead(service), one.lead(service)] == [True, False]


def test_lead__waits_for_nobody(ledger: Ledger) -> None:
    service = f"relay-{uuid4()}"
    one, two = ledger.open("coordinator"), ledger.open("coordinator")
    one.lead(service, 4)
    ledger.clock.advance(10)
    one.begin()
    one.lead(service)
    two.sql("set lock_timeout = '1ms'")

    assert two.lead(service) is False
    one.commit()
    two.sql("reset lock_timeout")


def test_lead__tells_gaps_from_a_change_of_holders(ticking: Ledger) -> None:
    """A take-over without a pause is no gap, whoever ticks; five seconds without a tick are one."""
    other = ticking.open("coordinator")
    began = ticking.clock.now
    _tick(ticking, 8)
    ticking.coordinator.lead("reaper", 0)
    _tick(ticking, 8, by=other)
    gap_ended = "select gap_ended_at from brokerjobs.service where name = 'reaper'"
    assert ticking.rows.scalar(gap_ended, of=datetime) == began

    ticking.clock.advance(5.1, ticking=False)
    other.lead("reaper")

    assert ticking.rows.scalar(gap_ended, of=datetime) == ticking.clock.now


def test_heartbeat__answers_who_leads_and_for_how_long(ticking: Ledger) -> None:
    ticking.clock.advance(1, ticking=False)
    beat = services.Heartbeat(
        ticking.worker.process,
        "worker",
        ticking.place.namespace,
        ["work"],
        [ticking.place.route()],
        "online",
        ticking.clock.now,
        {},
    )

    first = ticking.worker.fetch(services.heartbeat(beat))
    ticking.clock.advance(5, ticking=False)
    second = ticking.worker.fetch(services.heartbeat(beat))

    assert [row.at for row in first] == [ticking.clock.now - timedelta(seconds=5)]
    assert [(leader.service, leader.holder, leader.seconds_left) for leader in services.leaders(first)] == [
        ("reaper", ticking.coordinator.process.id, 3)
    ]
    assert second[0].seconds_left == -2  # nobody leads now
    row = ticking.owner.execute("select name, login, heartbeat_at - started_at from brokerjobs.worker").fetchone()
    assert row == (ticking.worker.process.name, "brokerjobs_test_worker", timedelta(seconds=5))
