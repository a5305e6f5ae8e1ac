"""Lost doorbells are found by a probe that came back, and by nothing else: not by age, not by an empty queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from tests.ledger.reconciling import HAND_BACK, LOST, Reconciling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ledger.ledger_driver import Ledger
    from tests.ledger.reconciling import StandInWorker


@pytest.fixture
def on(ledger: Ledger) -> Iterator[Reconciling]:
    """A ledger with two routes of the test's own, and nothing that lives or waits of tests before."""
    ledger.clock.advance(3600)
    ledger.declare("other", queue="other")
    made = Reconciling(ledger)
    yield made
    made.clear()


def alive(on: Reconciling, name: str = "worker-a", *queues: str) -> StandInWorker:
    made = on.worker(name, *queues)
    made.beats()
    return made


def test_job__that_was_rung_before_a_returned_probe_is_rung_again(on: Reconciling) -> None:
    worker, (lost,) = alive(on), on.waiting()
    (probe,) = on.looks().probes
    on.ledger.clock.advance(1)
    assert worker.returns(probe.ticket)
    on.ledger.clock.advance(1)
    worker.beats()

    assert on.looks().rung == 1

    assert on.rings(lost) == 1
    (event,) = on.ledger.rows.events(lost, "rung_again")
    assert event.detail is not None
    assert (event.state, event.detail["by"], event.detail["coordinator"]) == (None, "reconcile", "c")
    assert event.detail["rung_at"] < event.detail["probe_returned_at"]
    assert on.looks().rung == 0


def test_job__that_was_rung_after_the_probe_was_made_is_not(on: Reconciling) -> None:
    """Its doorbell stands behind the probe, whatever another route's walk is for."""
    worker, (before,) = alive(on, "worker-a", "default", "other"), on.waiting()
    (probe,) = on.looks().probes
    (after,) = on.waiting()
    worker.returns(probe.ticket)
    on.ledger.clock.advance(1)
    worker.beats()

    assert on.looks().rung == 1
    assert (on.rings(before), on.rings(after)) == (1, 0)


def test_job__however_old_is_not_rung_again_while_the_probe_is_out(on: Reconciling) -> None:
    worker, jobs = alive(on), on.waiting(3)
    on.looks()
    for _ in range(20):
        on.ledger.clock.advance(300)
        worker.beats()
        assert on.looks().rung == 0

    assert [on.rings(job) for job in jobs] == [0, 0, 0]


def test_job__with_a_ring_in_the_outbox_is_not_rung_again(on: Reconciling) -> None:
    worker, (job,) = alive(on), on.waiting()
    (probe,) = on.looks().probes
    worker.returns(probe.ticket)
    on.ledger.worker.hand_back(job)
    on.ledger.clock.advance(1)
    worker.beats()

    assert on.looks().rung == 0
    assert on.rings(job) == 1


def test_job__whose_ring_was_not_noted_is_rung_again_once(on: Reconciling) -> None:
    """Another transaction had the job's row in hand when its publish was confirmed: that waits for nobody."""
    busy = on.ledger.open("owner")
    worker, job = alive(on), on.ledger.submit()
    busy.begin()
    busy.sql("select from brokerjobs.job_state where job_id = %s for update", job)
    on.ledger.coordinator.outbox_done(on.ledger.rows.outbox(job)[0].ticket)
    busy.rollback()
    assert (on.ledger.rows.state(job).rung_at, on.rings(job)) == (None, 0)

    (probe,) = on.looks().probes
    worker.returns(probe.ticket)
    on.ledger.clock.advance(1)
    worker.beats()

    assert on.looks().rung == 1
    on.ledger.coordinator.outbox_done(on.ledger.rows.outbox(job)[0].ticket)
    on.ledger.clock.advance(1)
    assert on.looks().rung == 0


def test_jobs__that_wait_for_something_else_or_run_are_left_alone(on: Reconciling) -> None:
    worker, (running, retried, parked, waiting) = alive(on), on.waiting(4)
    (probe,) = on.looks().probes
    on.ledger.worker.take(running)
    on.ledger.worker.fail(on.ledger.worker.take(retried))
    on.ledger.worker.claim(parked, types=["something"])
    worker.returns(probe.ticket)
    on.ledger.clock.advance(0.1)
    worker.beats()

    assert on.looks().rung == 1
    assert [on.rings(job) for job in (running, retried, parked, waiting)] == [0, 0, 0, 1]


# When a probe is sent.


def test_probe__is_sent_for_each_route_with_waiting_jobs_and_for_no_other(on: Reconciling) -> None:
    alive(on, "worker-a", "default", "other")
    on.waiting(2)

    probes = on.looks().probes

    assert [(probe.route, probe.namespace) for probe in probes] == [
        (on.ledger.place.route(), on.ledger.place.namespace)
    ]
    on.waiting(kind="other")
    assert [probe.route for probe in on.looks().probes] == [on.ledger.place.route("other")]


def test_probe__is_not_sent_while_one_is_out_and_presumed_lost_after_ten_minutes(on: Reconciling) -> None:
    worker = alive(on)
    on.waiting()
    (first,) = on.looks().probes
    on.ledger.clock.advance(LOST.total_seconds() - 1)
    worker.beats()
    assert on.looks().probes == []
    on.ledger.clock.advance(1)
    worker.beats()

    (second,) = on.looks().probes

    assert second.ticket != first.ticket


def test_probe__that_was_presumed_lost_counts_when_it_comes_back_after_all(on: Reconciling) -> None:
    """Behind a backlog of an hour every probe takes longer than ten minutes."""
    worker, (old,) = alive(on), on.waiting()
    (first,) = on.looks().probes
    on.ledger.clock.advance(LOST.total_seconds())
    worker.beats()
    (new,) = on.waiting()
    on.looks()
    worker.returns(first.ticket)
    on.ledger.clock.advance(1)
    worker.beats()

    assert on.looks().rung == 1
    assert (on.rings(old), on.rings(new)) == (1, 0)


def test_probe__that_was_not_confirmed_is_made_anew_at_the_next_look(on: Reconciling) -> None:
    worker, (job,) = alive(on), on.waiting()
    (first,) = on.looks(send=False).probes
    on.not_sent(first)

    (second,) = on.looks().probes

    assert not worker.returns(first.ticket)  # it had arrived after all: nobody asks for it any more
    on.ledger.clock.advance(1)
    worker.beats()
    assert on.looks().rung == 0
    assert worker.returns(second.ticket)
    assert on.rings(job) == 0


@pytest.mark.parametrize(
    "detail",
    [
        pytest.param({"consuming": []}, id="serves the route and cannot consume it"),
        pytest.param({"reads": ["doorbell/1"]}, id="does not know probes"),
        pytest.param({"reads": "unsaid", "consuming": "unsaid", "heartbeat_seconds": "unsaid"}, id="is of older code"),
        pytest.param({"consuming": "nonsense", "reads": 7, "heartbeat_seconds": "x"}, id="says nonsense"),
    ],
)
def test_probe__is_not_sent_to_a_worker_that(on: Reconciling, detail: dict[str, Any]) -> None:
    on.worker().beats(**detail)
    on.waiting()

    assert on.looks().probes == []


def test_probe__is_not_sent_while_one_worker_of_the_route_is_of_older_code(on: Reconciling) -> None:
    """A rolling release: it would send the probe to quarantine."""
    new, old, elsewhere = alive(on), on.worker("worker-old"), on.worker("worker-c", "other")
    old.send({"running": 0, "unclaimed": 0})
    elsewhere.send({"running": 0})
    on.waiting()
    assert on.looks().probes == []

    old.send({}, state="stopped")
    new.beats()

    assert len(on.looks().probes) == 1


def test_probe__is_not_sent_without_a_live_worker(on: Reconciling) -> None:
    on.waiting()
    assert on.looks().probes == []
    worker = alive(on)
    on.ledger.clock.advance(35)
    assert on.looks().probes == []  # no heartbeat for three and a half of its own: dead
    worker.beats(state="stopped")
    assert on.looks().probes == []
    worker.beats(heartbeat_seconds=60)
    on.ledger.clock.advance(200)

    assert len(on.looks().probes) == 1


def test_probe__by_older_code_goes_to_quarantine_and_has_come_back_by_that(on: Reconciling) -> None:
    """It was sent before the old worker was started: a release that is taken back."""
    worker, (job,) = alive(on), on.waiting()
    (probe,) = on.looks().probes
    old = on.worker("worker-old")
    old.ledger.worker.sql(
        "select brokerjobs.quarantine(%s, %s, %s, %s, null, %s)",
        "worker-old",
        on.ledger.place.route(),
        "its type is 'brokerjobs.probe' instead of 'brokerjobs.doorbell'",
        probe.ticket,
        "d" * 64,
    )
    on.ledger.clock.advance(1)
    worker.beats()

    assert on.looks().rung == 1
    assert on.rings(job) == 1


def test_probe__of_another_route_or_ledger_is_not_known(on: Reconciling) -> None:
    worker, (job,) = alive(on), on.waiting()
    (probe,) = on.looks().probes

    assert not worker.returns(uuid4())
    assert not worker.returns(probe.ticket, on.ledger.place.route("other"))
    on.ledger.clock.advance(1)
    worker.beats()
    assert on.looks().rung == 0
    assert on.rings(job) == 0


# When a probe that came back speaks for all workers.


def test_settling__waits_until_every_live_worker_has_said_that_it_holds_nothing_older(on: Reconciling) -> None:
    first, second, (job,) = alive(on), alive(on, "worker-b"), on.waiting()
    (probe,) = on.looks().probes
    first.returns(probe.ticket)
    assert on.looks().rung == 0  # no heartbeat since
    on.ledger.clock.advance(10)
    first.beats()
    assert on.looks().rung == 0  # none of the other's
    second.beats(oldest=11)
    assert on.looks().rung == 0  # one that it received before the probe came back
    on.ledger.clock.advance(10)
    first.beats(oldest=3)
    second.beats(oldest=19)

    assert on.looks().rung == 1
    assert on.rings(job) == 1


def test_settling__does_not_wait_for_workers_of_other_routes(on: Reconciling) -> None:
    worker, elsewhere = alive(on), alive(on, "worker-b", "other")
    on.waiting()
    (probe,) = on.looks().probes
    worker.returns(probe.ticket)
    on.ledger.clock.advance(1)
    worker.beats()
    elsewhere.beats(oldest=1000)

    assert on.looks().rung == 1


def test_settling__does_not_wait_for_a_dead_worker(on: Reconciling) -> None:
    worker, dead = alive(on), alive(on, "worker-b")
    on.waiting()
    dead.beats(oldest=5)
    (probe,) = on.looks().probes
    worker.returns(probe.ticket)
    for _ in range(3):
        on.ledger.clock.advance(10)
        worker.beats()
        assert on.looks().rung == 0
    on.ledger.clock.advance(5)

    assert on.looks().rung == 1


@pytest.mark.parametrize("oldest", [1000.0, None])
def test_settling__waits_no_longer_than_deliveries_are_kept(on: Reconciling, oldest: float | None) -> None:
    """One that holds on to them, and one of older code, which does not say what it holds."""
    worker, other = alive(on), alive(on, "worker-b")
    on.waiting()
    (probe,) = on.looks().probes
    worker.returns(probe.ticket)
    detail = {"reads": "unsaid"} if oldest is None else {}
    for _ in range(29):
        on.ledger.clock.advance(10)
        worker.beats()
        other.beats(oldest=oldest, **detail)
        assert on.looks().rung == 0
    on.ledger.clock.advance(HAND_BACK.total_seconds() - 290)

    assert on.looks().rung == 1


def test_settling__forgets_probes_that_were_made_before(on: Reconciling) -> None:
    worker = alive(on)
    on.waiting()
    on.looks()
    on.ledger.clock.advance(LOST.total_seconds())
    worker.beats()
    (second,) = on.looks().probes
    worker.returns(second.ticket)
    on.ledger.clock.advance(1)
    worker.beats()
    on.looks()

    assert on.ledger.rows.scalar("select ticket from brokerjobs.probe", of=UUID) == second.ticket
    on.ledger.clock.advance(8 * 86400)
    on.looks()
    assert on.ledger.rows.scalar("select count(*) from brokerjobs.probe", of=int) == 0


# How a walk is bounded.


def test_walk__looks_at_few_jobs_at_a_time_and_rings_fewer(on: Reconciling) -> None:
    worker, jobs = alive(on), on.waiting(10)
    (probe,) = on.looks(rows=4).probes
    worker.returns(probe.ticket)
    on.ledger.clock.advance(1)
    worker.beats()

    look = on.looks(rows=4, rings=2)

    assert (look.rung, look.statements) == (10, 6)
    assert [on.rings(job) for job in jobs] == [1] * 10


def test_walk__that_broke_off_begins_again_and_rings_nobody_twice(on: Reconciling) -> None:
    worker, jobs = alive(on), on.waiting(6)
    (probe,) = on.looks().probes
    worker.returns(probe.ticket)
    on.ledger.clock.advance(1)
    worker.beats()
    *_, half = on.step(None, rows=3)
    assert half.rung == 3
    (published,) = on.ledger.rows.outbox(jobs[0])
    on.ledger.coordinator.outbox_done(published.ticket)

    assert on.looks(rows=3).rung == 3

    assert [on.rings(job) for job in jobs] == [0, 1, 1, 1, 1, 1]


def test_walk__settles_only_the_probes_that_it_began_with(on: Reconciling) -> None:
    """Jobs that it has passed by were not looked at for one that comes back meanwhile."""
    worker = alive(on, "worker-a", "default", "other")
    (passed,) = on.waiting()
    on.waiting(4, "other")
    by_route = {probe.route: probe for probe in on.looks().probes}
    worker.returns(by_route[on.ledger.place.route("other")].ticket, on.ledger.place.route("other"))
    on.ledger.clock.advance(1)
    worker.beats()
    *_, answer = on.step(None, rows=3)
    worker.returns(by_route[on.ledger.place.route()].ticket)
    on.ledger.clock.advance(1)
    worker.beats()
    on.step(answer.walk(), rows=3)
    assert on.rings(passed) == 0

    on.looks()

    assert on.rings(passed) == 1


def test_walk__of_nothing_to_find_looks_at_no_job(on: Reconciling) -> None:
    on.waiting(5)
    assert on.looks(rows=2).statements == 1  # nobody could return a probe
    alive(on)
    assert on.looks(rows=2).statements > 1
    assert on.looks(rows=2).statements == 1  # the probe is out


# Queues that are gone.


def test_probe__in_a_queue_that_is_gone_is_not_waited_for(on: Reconciling) -> None:
    worker, route = alive(on), on.ledger.place.route()
    (job,) = on.waiting()
    on.looks()
    on.ledger.clock.advance(1)
    worker.beats(missing=[route], consuming=[])
    assert on.looks().probes == []
    on.ledger.clock.advance(1)
    worker.beats()

    (second,) = on.looks().probes
    worker.returns(second.ticket)
    on.ledger.clock.advance(1)
    worker.beats()

    assert on.looks().rung == 1
    assert on.rings(job) == 1


def test_route__that_a_worker_does_not_find_is_declared_again(on: Reconciling) -> None:
    worker, route = alive(on), on.ledger.place.route()
    on.ledger.owner.execute("update brokerjobs.route set declared_at = brokerjobs.clock()")
    on.looks()
    assert on.ledger.rows.scalar("select count(*) from brokerjobs.routes_wanted()", of=int) == 0
    on.ledger.clock.advance(1)
    worker.beats(missing=[route, "another.q.default"], consuming=[])
    on.looks()
    assert on.ledger.rows.scalar("select name from brokerjobs.routes_wanted()", of=str) == route

    on.ledger.clock.advance(1)
    on.ledger.owner.execute("select brokerjobs.routes_declared(%s)", [[route]])
    on.looks()

    # What the worker said was before that.
    assert on.ledger.rows.scalar("select count(*) from brokerjobs.routes_wanted()", of=int) == 0
