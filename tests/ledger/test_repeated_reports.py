"""Rules R6 and R7: the first report of an attempt wins, and asked again it gets the same answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from brokerjobs.ledger import calls
from brokerjobs.ledger.calls import Holding
from tests.ledger.ledger_caller import RESULT

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger

LATER = {"done": "later"}


def test_reports__after_a_release_are_kept_and_refused(ledger: Ledger) -> None:
    """A completion that was delayed in the network must not be accepted after the worker gave the attempt back."""
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.release(holding)
    before = ledger.rows.state(holding.job_id)

    answer = ledger.worker.complete(holding)

    (kept,) = ledger.rows.late_reports(holding.job_id)
    assert (answer.verdict, answer.reason, answer.state) == ("already_reported", "released", "queued")
    assert (kept.reported_as, kept.result, kept.reason) == ("completed", RESULT, "released")
    assert ledger.rows.state(holding.job_id) == before


def test_reports__that_differ_from_the_first_are_kept_every_time(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.complete(holding)

    answers = [ledger.worker.complete(holding, LATER), ledger.worker.fail(holding), ledger.worker.release(holding)]

    assert {(answer.verdict, answer.reason) for answer in answers} == {("already_reported", "already_reported")}
    kept = ledger.rows.late_reports(holding.job_id)
    assert [row.reported_as for row in kept] == ["completed", "failed", "released"]
    assert kept[0].result == LATER
    assert ledger.rows.attempt(holding.attempt_id).result == RESULT
    assert len(ledger.rows.events(holding.job_id, "second_report")) == 3


def test_complete__asked_again_answers_as_before(ledger: Ledger) -> None:
    job = ledger.submit()
    holding = ledger.worker.take(job)
    first = ledger.worker.complete(holding)
    events = len(ledger.rows.events(job))
    ledger.clock.advance(100)

    assert ledger.worker.complete(holding) == first
    assert ledger.open().complete(holding, observed_at=ledger.clock.now) == first
    assert len(ledger.rows.events(job)) == events
    assert ledger.rows.late_reports(job) == []


def test_fail__asked_again_answers_with_the_same_time_of_its_next_try(ledger: Ledger) -> None:
    ledger.declare("work", first_delay=timedelta(minutes=5))
    holding = ledger.worker.take(ledger.submit())
    first = ledger.worker.fail(holding)
    assert first.until is not None
    ledger.clock.advance(1)

    assert ledger.worker.fail(holding) == first
    assert ledger.rows.state(holding.job_id).wait_until == first.until


def test_fail__asked_again_answers_as_before_even_when_the_job_went_on(ledger: Ledger) -> None:
    job = ledger.submit()
    first = ledger.worker.take(job)
    failed = ledger.worker.fail(first)
    ledger.ring_again(job)
    ledger.worker.complete(ledger.worker.take(job))

    assert ledger.worker.fail(first) == failed
    assert ledger.rows.late_reports(job) == []


def test_release__asked_again_gives_back_once(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    first = ledger.worker.snooze(holding, 60)

    assert ledger.worker.snooze(holding, 60) == first
    state = ledger.rows.state(holding.job_id)
    assert (state.charged, state.uncharged, first.until) == (0, 1, ledger.clock.after(60))


def test_complete__refused_and_asked_again_answers_as_before(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.producer.cancel(holding.job_id)
    first = ledger.worker.complete(holding)

    assert ledger.worker.complete(holding) == first
    assert first.verdict == "rejected"


def test_complete__rejected_and_asked_again_after_a_replay_stays_rejected(ledger: Ledger) -> None:
    """The reply of a rejection is lost, an operator replays the job (its row forgets the attempt), it comes again."""
    ledger.declare("work", attempts=1)
    job = ledger.submit()
    holding = ledger.worker.take(job)
    ledger.lose(holding)
    ledger.ring_again(job)
    first = ledger.worker.complete(holding)
    assert first.reason == "job_failed"
    ledger.owner.execute(
        "update brokerjobs.job_state set state = 'queued', waiting = 'delivery', attempt_id = null,"
        " failure_class = null, failure_reason = null, finished_at = null where job_id = %s",
        [job],
    )

    assert ledger.worker.complete(holding) == first
    other = ledger.worker.complete(holding, LATER)
    assert (other.verdict, ledger.rows.state(job).state) == ("already_reported", "queued")


def test_asked__says_what_the_attempt_reported(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    before = ledger.worker.asked(holding)
    ledger.worker.complete(holding)
    after = ledger.worker.asked(holding)

    assert (before.verdict, before.reported_as, before.state) == ("not_reported", None, "running")
    assert (after.verdict, after.reported_as, after.report_verdict, after.state) == (
        "reported",
        "completed",
        "accepted",
        "succeeded",
    )
    assert ledger.worker.asked(replace(holding, fencing_number=1)).verdict == "unknown"
    assert ledger.worker.asked(Holding(uuid4(), uuid4(), 1)).verdict == "unknown"


def test_complete__answers_locked_for_the_second_row_of_one_job(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    other = ledger.worker.take(ledger.submit())
    rows = [holding, holding, other]

    answers = ledger.worker.fetch(calls.complete([ledger.worker.report(row, RESULT) for row in rows]))

    assert [answer.verdict for answer in answers] == ["accepted", "locked", "accepted"]
