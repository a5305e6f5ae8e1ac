"""Whichever call opens a review says so in its answer, and no other call does: who made it can tell of it once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs.ledger import calls, ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

UNCLASSIFIED = {"class": "unsafe", "classified": False, "type": "ConnectError", "message": "reset by peer"}


def claimed(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    """The step of a claim that finds the lease over."""
    ledger.clock.advance(30)
    answer = by.claim(of.job_id)
    assert answer.verdict == "review"
    return answer.opened


def claimed_past_deadline(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    ledger.clock.advance(20)
    return by.claim(of.job_id).opened


def reaped(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    ledger.clock.advance(30)
    candidacy = ticks.Candidacy("reaper", ledger.coordinator.process, 4)
    rows = ledger.coordinator.fetch(ticks.reap(candidacy, 100))
    return next(row.opened for row in rows if row.job_id == of.job_id)


def scheduled(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    ledger.clock.advance(20)
    candidacy = ticks.Candidacy("scheduler", ledger.coordinator.process, 4)
    rows = ledger.coordinator.fetch(ticks.schedule(candidacy, 100))
    return next(row.opened for row in rows if row.job_id == of.job_id)


def renewed(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    ledger.clock.advance(20)
    return by.renew(of).opened


def failed(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    return by.fail(of, UNCLASSIFIED).opened


def released(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    return by.release(of, "drain").opened


def refused(ledger: Ledger, by: Caller, of: Holding) -> dict[str, Any] | None:
    """A result that comes after the deadline and after the end of its lease, before anybody else has looked."""
    ledger.clock.advance(31)
    return by.complete(of).opened


@pytest.mark.parametrize(
    ("step", "ended"),
    [
        (claimed, "lease_expired"),
        (claimed_past_deadline, "deadline_passed"),
        (reaped, "lease_expired"),
        (scheduled, "deadline_passed"),
        (renewed, "deadline_passed"),
        (failed, "attempt_failed"),
        (released, "attempt_released"),
        (refused, "result_refused"),
    ],
)
def test_opening__is_in_the_answer_of_the_call_that_opened_the_review(
    ledger: Ledger, step: Callable[[Ledger, Caller, Holding], dict[str, Any] | None], ended: str
) -> None:
    deadline = None if step in {claimed, reaped} else 20
    holding = ledger.worker.take(ledger.submit("once", deadline=deadline))
    assert ledger.worker.start(holding) == "started"

    opening = step(ledger, ledger.worker, holding)

    review = ledger.operator.review(holding.job_id)
    assert opening == {
        "review": review["id"],
        "job": str(holding.job_id),
        "namespace": ledger.place.namespace,
        "type": "once",
        "attempt": str(holding.attempt_id),
        "number": 1,
        "ended": ended,
        "cause": review["cause"],
    }


def test_opening__by_a_start_past_the_deadline(ledger: Ledger) -> None:
    """Of a job of whose effect nobody knows, since its outcome was contradicted while it waited."""
    holding = ledger.worker.take(ledger.submit("once", deadline=10))
    ledger.owner.execute("update brokerjobs.job_state set unknown_effect = true where job_id = %s", [holding.job_id])
    ledger.clock.advance(10)

    (answer,) = ledger.worker.fetch(calls.start([holding], [ledger.clock.now]))

    assert answer.opened is not None
    assert (answer.verdict, answer.opened["review"]) == ("lost", ledger.operator.review(holding.job_id)["id"])


def test_opening__is_said_once(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit("once", deadline=60))
    ledger.worker.start(holding)
    ledger.clock.advance(30)
    first = ledger.worker.claim(holding.job_id)
    assert first.opened is not None

    again = ledger.open().claim(holding.job_id)
    renewal = ledger.worker.renew(holding)
    late = ledger.worker.fail(holding, UNCLASSIFIED)
    ledger.clock.advance(30)
    candidacy = ticks.Candidacy("scheduler", ledger.coordinator.process, 4)
    noted = [row for row in ledger.coordinator.fetch(ticks.schedule(candidacy, 100)) if row.job_id == holding.job_id]

    assert (again.verdict, again.opened, renewal.verdict, renewal.opened) == ("review", None, "lost", None)
    assert (late.state, late.opened) == ("review", None)
    assert [(row.state, row.opened) for row in noted] == [("review", None)]


def test_opening__of_one_job_is_not_said_of_others_in_the_batch(ledger: Ledger) -> None:
    before = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(before)
    ledger.worker.fail(before, UNCLASSIFIED)
    now, fine = (ledger.worker.take(ledger.submit("once")) for _ in range(2))
    ledger.worker.start(now)

    body = ledger.worker.report
    answers = ledger.worker.fetch(
        calls.fail([body(one, UNCLASSIFIED) for one in (before, now)] + [body(fine, {"class": "temporary"})])
    )

    assert [answer.state for answer in answers] == ["review", "review", "queued"]
    assert [answer.opened is not None for answer in answers] == [False, True, False]
