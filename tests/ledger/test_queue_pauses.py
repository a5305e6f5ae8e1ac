"""Paused queues: durable, with who, why and until when; a resume, or the end of its time, rings what was parked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from brokerjobs.ledger import inquiries, pauses, queues
from brokerjobs.ledger.decisions import Request

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger


def request(reason: str = "the disk is full", by: str = "ann") -> Request:
    return Request(id=uuid4(), by=by, reason=reason)


def pause(ledger: Ledger, asked: Request | None = None, until: datetime | None = None) -> dict[str, Any]:
    query = queues.pause_queue(ledger.place.namespace, "default", asked or request(), until)
    return ledger.operator.fetch(query)[0].answer


def resume(ledger: Ledger, asked: Request | None = None) -> dict[str, Any]:
    query = queues.resume_queue(ledger.place.namespace, "default", asked or request("it has room"))
    return ledger.operator.fetch(query)[0].answer


def unpark(ledger: Ledger, limit: int = 1000) -> pauses.Unparked:
    return ledger.operator.fetch(queues.unpark_queue(ledger.place.namespace, "default", limit))[0]


def park(ledger: Ledger, job: UUID) -> None:
    """What a claim does to a job of a paused queue."""
    with ledger.owner.transaction():
        ledger.owner.execute("set local search_path = brokerjobs, pg_temp")
        ledger.owner.execute(
            "select park_queue(s, j, 'default', 'worker', clock()) from job_state s join job j on j.id = s.job_id"
            " where j.id = %s",
            [job],
        )


def test_pause__says_who_why_and_until_when_and_shows_it_on_its_jobs(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    until = ledger.clock.now + timedelta(hours=1)

    answer = pause(ledger, until=until)

    assert (answer["verdict"], answer["by"], answer["reason"]) == ("paused", "ann", "the disk is full")
    waiting = ledger.producer.record(job)["waiting"]
    assert (waiting["for"], waiting["detail"]["queue"], waiting["detail"]["by"]) == ("pause", "default", "ann")
    (standing,) = ledger.producer.fetch(inquiries.status([job]))
    assert (standing.waiting, (standing.wait_detail or {})["until"]) == ("pause", waiting["detail"]["until"])
    [shown] = ledger.operator.fetch(queues.queues(ledger.place.namespace, "default"))
    assert (shown.queue["paused"]["reason"], shown.queue["waiting"]) == ("the disk is full", 1)


def test_pause__asked_again_is_the_same_and_another_is_told_of_it(ledger: Ledger) -> None:
    asked = request()

    assert pause(ledger, asked)["repeated"] is False
    assert pause(ledger, asked)["repeated"] is True

    other = pause(ledger, request("mine", by="bob"))
    assert (other["verdict"], other["by"], other["reason"]) == ("already", "ann", "the disk is full")
    assert pause(ledger, Request(id=asked.id, by="bob", reason="mine"))["verdict"] == "request_reused"


def test_pause__of_an_unknown_queue_or_into_the_past_is_refused(ledger: Ledger) -> None:
    unknown = queues.pause_queue(ledger.place.namespace, "nowhere", request(), None)

    assert ledger.operator.fetch(unknown)[0].answer["verdict"] == "unknown_queue"
    assert pause(ledger, until=ledger.clock.now)["verdict"] == "past"
    assert resume(ledger)["verdict"] == "not_paused"


def test_resume__rings_what_was_parked_once(ledger: Ledger) -> None:
    parked, at_the_broker = ledger.submit(rung=True), ledger.submit(rung=True)
    pause(ledger)
    park(ledger, parked)
    assert unpark(ledger) == pauses.Unparked(0, 0)

    asked = request("it has room")
    assert [resume(ledger, asked)["verdict"], resume(ledger, asked)["verdict"]] == ["resumed", "resumed"]

    assert unpark(ledger) == pauses.Unparked(1, 1)
    assert unpark(ledger) == pauses.Unparked(0, 0)
    assert (len(ledger.rows.outbox(parked)), len(ledger.rows.outbox(at_the_broker))) == (1, 0)
    assert ledger.producer.record(parked)["waiting"]["for"] == "delivery"


def test_pause__that_has_an_end_ends_by_itself_and_can_be_followed_by_another(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    pause(ledger, until=ledger.clock.now + timedelta(minutes=5))
    park(ledger, job)
    ledger.clock.advance(299)
    ledger.coordinator.due()
    assert ledger.rows.state(job).waiting == "pause"

    ledger.clock.advance(2)
    ledger.coordinator.due()

    assert (ledger.rows.state(job).waiting, len(ledger.rows.outbox(job))) == ("delivery", 1)
    [shown] = ledger.operator.fetch(queues.queues(ledger.place.namespace, "default"))
    assert shown.queue["paused"] is None
    assert [one["resumed_why"] for one in shown.queue["pauses"]] == ["its time was over"]
    assert pause(ledger)["verdict"] == "paused"


def test_unpark__leaves_a_job_whose_type_is_paused_to_that_pause(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    pause(ledger)
    ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, "work", request("the bank is away")))
    park(ledger, job)
    resume(ledger)

    unpark(ledger)

    assert ledger.rows.outbox(job) == []
    assert ledger.producer.record(job)["waiting"]["detail"]["reason"] == "the bank is away"
    ledger.operator.fetch(pauses.resume_type(ledger.place.namespace, "work", request("back")))
    assert ledger.operator.fetch(pauses.unpark(ledger.place.namespace, "work", 10))[0].rung == 1


def test_unpark__ends_a_job_that_is_past_its_deadline(ledger: Ledger) -> None:
    job = ledger.submit(rung=True, deadline=10)
    pause(ledger)
    park(ledger, job)
    ledger.clock.advance(11)
    resume(ledger)

    unpark(ledger)

    assert ledger.rows.state(job).state == "failed"
    assert [event.kind for event in ledger.rows.events(job)][-1] == "deadline_passed"


@pytest.mark.parametrize("who", ["worker", "producer", "coordinator"])
def test_pause__is_the_operators(ledger: Ledger, who: str) -> None:
    caller = getattr(ledger, who)
    with pytest.raises(Exception, match="permission denied"):
        caller.fetch(queues.pause_queue(ledger.place.namespace, "default", request(), None))
