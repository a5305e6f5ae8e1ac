"""A deadline: at the claim, during the run, at the completion, and what is shown while nobody has recorded it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.ledger.invariants import violations

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger


def _kinds(ledger: Ledger, job: UUID) -> list[str]:
    return [event.kind for event in ledger.rows.events(job)]


def _ended(ledger: Ledger, job: UUID) -> tuple[str, str | None]:
    assert violations(ledger.owner, [job]) == []
    state = ledger.rows.state(job)
    return state.state, state.failure_class


def _past_deadline(ledger: Ledger, kind: str = "work", *, started: bool = False) -> Holding:
    holding = ledger.worker.take(ledger.submit(kind, deadline=10))
    if started:
        assert ledger.worker.start(holding) == "started"
    ledger.clock.advance(10)
    return holding


def test_due__ends_a_running_job_at_its_deadline(ledger: Ledger) -> None:
    holding = _past_deadline(ledger)

    assert ledger.coordinator.due()[holding.job_id] == "failed"
    assert _ended(ledger, holding.job_id) == ("failed", "deadline")
    attempt = ledger.rows.attempts(holding.job_id)[0]
    assert (attempt.closed_as, attempt.closed_by, attempt.closed_why) == ("timed_out", "scheduler", "deadline")
    assert len(ledger.rows.outbox(holding.job_id, "dead")) == 1
    assert holding.job_id not in ledger.coordinator.due()


def test_due__leaves_a_running_job_alone_before_its_deadline(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit(deadline=10))
    ledger.clock.advance(9.999)

    assert holding.job_id not in ledger.coordinator.due()
    assert ledger.worker.complete(holding).verdict == "accepted"


def test_due__does_not_guess_about_a_started_attempt_that_is_not_repeatable(ledger: Ledger) -> None:
    started, claimed = _past_deadline(ledger, "once", started=True), _past_deadline(ledger, "once")

    ended = ledger.coordinator.due()
    assert (ended[started.job_id], ended[claimed.job_id]) == ("review", "failed")
    assert _ended(ledger, started.job_id) == ("review", None)
    assert _kinds(ledger, started.job_id).count("deadline_passed") == 1
    assert started.job_id not in ledger.coordinator.due()


def test_due__obeys_a_cancel_before_the_deadline(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit(deadline=10))
    ledger.producer.cancel(holding.job_id)
    ledger.clock.advance(10)

    assert ledger.coordinator.due()[holding.job_id] == "cancelled"
    assert _ended(ledger, holding.job_id) == ("cancelled", None)


def test_due__notes_a_deadline_on_a_review_once_and_closes_nothing(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit("once", deadline=10))
    ledger.worker.start(holding)
    ledger.worker.fail(holding, {"class": "unsafe", "classified": True, "type": "UnknownOutcome", "message": "?"})
    ledger.clock.advance(10)

    assert ledger.coordinator.due()[holding.job_id] == "review"
    assert holding.job_id not in ledger.coordinator.due()
    assert _ended(ledger, holding.job_id) == ("review", None)
    assert _kinds(ledger, holding.job_id).count("deadline_passed") == 1


def test_renew__past_the_deadline_ends_the_attempt_where_no_coordinator_runs(ledger: Ledger) -> None:
    holding = _past_deadline(ledger)

    assert ledger.worker.renew(holding, ledger.clock.now).verdict == "lost"
    assert _ended(ledger, holding.job_id) == ("failed", "deadline")
    attempt = ledger.rows.attempts(holding.job_id)[0]
    assert (attempt.closed_by, attempt.started_at) == ("renewal", ledger.clock.now)


def test_start__past_the_deadline_is_refused(ledger: Ledger) -> None:
    holding = _past_deadline(ledger, "once")

    assert ledger.worker.start(holding) == "lost"
    assert _ended(ledger, holding.job_id) == ("failed", "deadline")


def test_claim__past_the_deadline_ends_a_running_job(ledger: Ledger) -> None:
    holding = _past_deadline(ledger)

    assert ledger.worker.claim(holding.job_id).verdict == "finished"
    assert _ended(ledger, holding.job_id) == ("failed", "deadline")


@pytest.mark.parametrize("waits", ["delivery", "retry"])
def test_claim__of_a_queued_job_is_granted_until_its_deadline_and_ends_it_from_then_on(
    ledger: Ledger, waits: str
) -> None:
    before, after = (ledger.submit(deadline=10, rung=True) for _ in range(2))
    if waits == "retry":
        for job in (before, after):
            ledger.worker.fail(ledger.worker.take(job), {"class": "temporary", "retry_after": 2})
    ledger.clock.advance(9.999)
    assert ledger.worker.claim(before).verdict == "granted"
    ledger.clock.advance(0.001)

    answer = ledger.worker.claim(after)

    assert (answer.verdict, answer.state) == ("finished", "failed")
    assert _ended(ledger, after) == ("failed", "deadline")
    assert _kinds(ledger, after).count("claimed") == (waits == "retry")


@pytest.mark.parametrize("ending", ["complete", "fail", "release"])
def test_report__of_an_attempt_that_its_deadline_ended_is_kept_and_rejected(ledger: Ledger, ending: str) -> None:
    holding = _past_deadline(ledger)
    ledger.coordinator.due()

    answers = [getattr(ledger.worker, ending)(holding) for _ in range(2)]

    assert [(answer.verdict, answer.reason, answer.state) for answer in answers] == [
        ("rejected", "deadline", "failed")
    ] * 2
    assert _ended(ledger, holding.job_id) == ("failed", "deadline")


def test_report__of_a_review_past_its_deadline_is_evidence(ledger: Ledger) -> None:
    holding = _past_deadline(ledger, "once", started=True)
    ledger.coordinator.due()

    answer = ledger.worker.complete(holding)

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", "deadline", "review")
    assert _ended(ledger, holding.job_id) == ("review", None)


@pytest.mark.parametrize("stands", ["queued", "running", "review"])
def test_record__says_that_a_deadline_has_passed_and_nobody_recorded_it(ledger: Ledger, stands: str) -> None:
    job = ledger.submit("once", deadline=10)
    if stands != "queued":
        holding = ledger.worker.take(job)
        ledger.worker.start(holding)
        if stands == "review":
            ledger.worker.fail(holding, {"class": "unsafe", "classified": True})

    def shown() -> set[object]:
        status = ledger.producer.sql("select past_deadline from brokerjobs.status(array[%s::uuid])", job)
        public = ledger.producer.sql("select brokerjobs.status_v1(%s)", job)
        listed = ledger.producer.sql(
            "select past_deadline from brokerjobs.list_jobs(%s, null, null, null, null, null, 9) where job_id = %s",
            ledger.place.namespace,
            job,
        )
        record = ledger.producer.record(job)
        assert record["state"] == stands
        return {status[0][0], public[0][0]["past_deadline"], listed[0][0], record["past_deadline"]}

    assert shown() == {False}
    ledger.clock.advance(10)
    assert shown() == {True}


def test_replay__of_a_job_with_a_new_deadline_heeds_that_one(ledger: Ledger) -> None:
    """That a review was past its first deadline is forgotten with it."""
    holding = _past_deadline(ledger, "once", started=True)
    ledger.coordinator.due()
    job = holding.job_id
    ledger.operator.resolve(job, "give_up")
    ledger.operator.replay(job, deadline=timedelta(seconds=5))
    ledger.clock.advance(5)

    assert ledger.coordinator.due()[job] == "failed"
