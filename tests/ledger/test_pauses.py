"""Paused job types: jobs are accepted and none is begun, and a resume rings those whose doorbells were acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest

from brokerjobs.ledger import inquiries, pauses, services
from brokerjobs.ledger.decisions import Request

if TYPE_CHECKING:
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger


def request(reason: str = "the bank is away", by: str = "ann") -> Request:
    return Request(id=uuid4(), by=by, reason=reason)


def pause(ledger: Ledger, name: str = "work", asked: Request | None = None) -> dict[str, Any]:
    return ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, name, asked or request()))[0].answer


def resume(ledger: Ledger, name: str = "work", asked: Request | None = None) -> dict[str, Any]:
    return ledger.operator.fetch(pauses.resume_type(ledger.place.namespace, name, asked or request("it is back")))[
        0
    ].answer


def unpark(ledger: Ledger, name: str = "work", limit: int = 1000) -> pauses.Unparked:
    return ledger.operator.fetch(pauses.unpark(ledger.place.namespace, name, limit))[0]


def beat(ledger: Ledger, caller: Caller, *reads: str) -> list[str]:
    """A worker's heartbeat, which says what answers it knows; the types that are paused."""
    place = ledger.place
    said = services.Heartbeat(
        caller.process,
        "worker",
        place.namespace,
        place.types,
        (place.route(),),
        "online",
        ledger.clock.now,
        {"reads": reads},
    )
    return caller.fetch(services.heartbeat(said))[0].paused


def parked(ledger: Ledger) -> int:
    counted = "select count(*) from brokerjobs.parked where namespace = %s"
    return ledger.rows.scalar(counted, [ledger.place.namespace], of=int)


def test_pause__parks_what_is_claimed_and_says_who_and_why(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    beat(ledger, ledger.worker, "paused/1")
    assert pause(ledger)["verdict"] == "paused"

    answer = ledger.worker.claim(job)

    assert (answer.verdict, answer.type, answer.until) == ("paused", "work", None)
    state = ledger.rows.state(job)
    assert (state.state, state.waiting, state.wait_until) == ("queued", "pause", None)
    waiting = ledger.producer.record(job)["waiting"]
    assert (waiting["for"], waiting["detail"]["by"], waiting["detail"]["reason"]) == (
        "pause",
        "ann",
        "the bank is away",
    )
    (event,) = ledger.rows.events(job, "paused")
    assert (event.detail or {})["worker"] == ledger.worker.process.name
    assert ledger.worker.claim(job).verdict == "paused"
    assert len(ledger.rows.events(job, "paused")) == 1
    assert ledger.rows.outbox(job) == []


def test_claim__of_a_worker_that_does_not_read_paused_is_answered_not_due(ledger: Ledger) -> None:
    """The previous release knows no such verdict."""
    job, other = ledger.submit(rung=True), ledger.submit(rung=True)
    pause(ledger)

    assert ledger.worker.claim(job).verdict == "not_due"
    beat(ledger, ledger.worker, "probe/1")
    assert ledger.worker.claim(other).verdict == "not_due"

    assert {ledger.rows.state(one).waiting for one in (job, other)} == {"pause"}
    resume(ledger)
    assert unpark(ledger).rung == 2


def test_pause__leaves_other_types_and_running_attempts_alone(ledger: Ledger) -> None:
    running, other = ledger.submit(), ledger.submit("once")
    holding = ledger.worker.take(running)

    pause(ledger)

    assert ledger.worker.renew(holding).verdict == "kept"
    assert ledger.worker.complete(holding).verdict == "accepted"
    assert ledger.worker.claim(other).verdict == "granted"


def test_submit__to_a_paused_type_is_accepted_and_waits_for_the_pause(ledger: Ledger) -> None:
    pause(ledger)
    job = ledger.submit(rung=True)

    record = ledger.producer.record(job)

    assert (record["waiting"]["for"], record["waiting"]["detail"]["by"]) == ("pause", "ann")
    (standing,) = ledger.producer.fetch(inquiries.status([job]))
    assert (standing.waiting, (standing.wait_detail or {})["reason"]) == ("pause", "the bank is away")
    assert ledger.producer.sql("select brokerjobs.status_v1(%s) ->> 'waiting'", job) == [("pause",)]
    resume(ledger)
    assert ledger.producer.record(job)["waiting"]["for"] == "delivery"
    assert unpark(ledger) == pauses.Unparked(0, 0)  # its doorbell is still at the broker
    assert ledger.rows.outbox(job) == []


def test_resume__rings_only_what_was_acknowledged(ledger: Ledger) -> None:
    at_the_broker, acknowledged = ledger.submit(rung=True), ledger.submit(rung=True)
    pause(ledger)
    ledger.worker.claim(acknowledged)
    assert unpark(ledger) == pauses.Unparked(0, 0)

    assert resume(ledger)["verdict"] == "resumed"
    assert unpark(ledger) == pauses.Unparked(1, 1)

    assert len(ledger.rows.outbox(acknowledged)) == 1
    assert ledger.rows.outbox(at_the_broker) == []
    assert ledger.rows.events(acknowledged, "resumed")
    assert (ledger.rows.state(acknowledged).waiting, parked(ledger)) == ("delivery", 0)
    assert ledger.worker.claim(acknowledged).verdict == "granted"


def test_resume__is_finished_by_the_scheduler_in_bounded_steps(ledger: Ledger) -> None:
    jobs = [ledger.submit(rung=True) for _ in range(5)]
    pause(ledger)
    for job in jobs:
        ledger.worker.claim(job)
    ledger.coordinator.due()
    assert parked(ledger) == 5
    resume(ledger)

    ledger.coordinator.due(limit=3)
    assert parked(ledger) == 2
    ledger.coordinator.due(limit=3)

    assert parked(ledger) == 0
    assert all(len(ledger.rows.outbox(job)) == 1 for job in jobs)


def test_job_of_a_paused_type__ends_at_its_deadline_and_by_a_cancel(ledger: Ledger) -> None:
    late, unwanted = ledger.submit(deadline=5, rung=True), ledger.submit(rung=True)
    pause(ledger)
    for job in (late, unwanted):
        ledger.worker.claim(job)

    assert ledger.producer.cancel(unwanted).verdict == "cancelled"
    ledger.clock.advance(6)
    ledger.coordinator.due()

    assert (ledger.rows.state(late).state, ledger.rows.state(late).failure_class) == ("failed", "deadline")
    resume(ledger)
    assert unpark(ledger) == pauses.Unparked(0, 2)
    assert ledger.rows.state(unwanted).state == "cancelled"
    assert parked(ledger) == 0


def test_resume__ends_a_parked_job_whose_deadline_has_passed(ledger: Ledger) -> None:
    job = ledger.submit(deadline=5, rung=True)
    pause(ledger)
    ledger.worker.claim(job)
    ledger.clock.advance(6)
    resume(ledger)

    unpark(ledger)

    assert ledger.rows.state(job).failure_class == "deadline"
    assert not [row for row in ledger.rows.outbox(job) if row.kind == "doorbell"]


def test_unpark__leaves_a_busy_job_for_the_next_time(own_ledger_with_sessions: Ledger) -> None:
    ledger = own_ledger_with_sessions
    job = ledger.submit(rung=True)
    pause(ledger)
    ledger.worker.claim(job)
    resume(ledger)
    other = ledger.open("owner")
    other.begin()
    other.sql("select from brokerjobs.job_state where job_id = %s for update", job)

    assert unpark(ledger) == pauses.Unparked(0, 0)

    other.rollback()
    assert unpark(ledger) == pauses.Unparked(1, 1)


def test_pause__asked_twice_is_one_pause(ledger: Ledger) -> None:
    asked = request()
    first = pause(ledger, asked=asked)

    assert pause(ledger, asked=asked) == {**first, "repeated": True}
    assert pause(ledger, asked=request("another", by="bob"))["verdict"] == "already"
    assert pause(ledger, asked=request("another", by="bob"))["by"] == "ann"
    assert pause(ledger, "once", asked)["verdict"] == "request_reused"
    assert pause(ledger, "nothing")["verdict"] == "unknown_type"

    ended = request("it is back", by="bob")
    assert resume(ledger, asked=ended)["verdict"] == "resumed"
    assert resume(ledger, asked=ended) == {**resume(ledger, asked=ended), "repeated": True}
    assert resume(ledger)["verdict"] == "not_paused"
    assert resume(ledger, "nothing")["verdict"] == "unknown_type"
    assert (
        pause(ledger, asked=asked)["resumed_at"] is not None
    )  # the first pause has ended: asking again begins no other


def test_resume__asked_again_does_not_end_a_later_pause(ledger: Ledger) -> None:
    pause(ledger)
    ended = request("it is back")
    resume(ledger, asked=ended)
    pause(ledger)

    assert resume(ledger, asked=ended)["repeated"] is True

    (shown,) = ledger.operator.fetch(pauses.types(ledger.place.namespace, "work"))
    assert shown.type["paused"] is not None
    assert [one["resumed_why"] for one in shown.type["pauses"]] == [None, "it is back"]


def test_heartbeat__is_answered_with_the_types_that_are_paused(ledger: Ledger) -> None:
    assert beat(ledger, ledger.worker) == []
    pause(ledger)
    pause(ledger, "once")
    assert beat(ledger, ledger.worker) == ["once", "work"]
    resume(ledger)
    assert beat(ledger, ledger.worker) == ["once"]


@pytest.mark.parametrize(
    "change",
    ["delete from brokerjobs.pause where id = %s", "update brokerjobs.pause set reason = 'other' where id = %s"],
)
def test_pauses__are_kept_as_they_were(ledger: Ledger, change: Any) -> None:
    asked = request()
    pause(ledger, asked=asked)
    with pytest.raises(psycopg.Error) as refused:
        ledger.owner.execute(change, [asked.id])
    assert refused.value.sqlstate == "BJ004"


def test_pause__wants_a_reason(ledger: Ledger) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        pause(ledger, asked=request("  "))


def test_types__are_listed_with_their_pause_and_the_parked(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    pause(ledger)
    ledger.worker.claim(job)

    shown = {row.type["name"]: row.type for row in ledger.operator.fetch(pauses.types(ledger.place.namespace))}

    assert set(shown) == {"once", "work"}
    assert (shown["work"]["parked"], shown["work"]["paused"]["by"], shown["once"]["paused"]) == (1, "ann", None)
    assert shown["work"]["route"] == ledger.place.route()


def test_parked__counts_only_jobs_that_still_wait_for_the_resume(ledger: Ledger) -> None:
    gone, waits = ledger.submit(rung=True), ledger.submit(rung=True)
    pause(ledger)
    ledger.worker.claim(gone)
    ledger.worker.claim(waits)
    ledger.producer.cancel(gone)
    assert parked(ledger) == 2  # as rows

    (shown,) = (row.type for row in ledger.operator.fetch(pauses.types(ledger.place.namespace, "work")))
    (overview,) = ledger.operator.sql("select brokerjobs.overview(%s, interval '5 minutes')", ledger.place.namespace)

    assert shown["parked"] == 1
    assert (overview[0]["queued"], overview[0]["paused"][0]["parked"]) == (1, 1)
