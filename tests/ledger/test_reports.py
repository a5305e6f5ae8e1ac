"""Rule R1 and R6: what becomes of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from brokerjobs.ledger.calls import Holding
from tests.ledger.ledger_caller import RESULT, TEMPORARY, Caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.ledger.calls import Reported
    from tests.ledger.ledger_driver import Ledger

LATER = {"done": "later"}


def test_complete__accepts_the_running_attempt(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    observed = ledger.clock.after(-3)
    ledger.clock.advance(1)

    answer = ledger.worker.complete(holding, observed_at=observed, renewals=2, smallest_margin_seconds=1.5)

    state, attempt = ledger.rows.state(holding.job_id), ledger.rows.attempt(holding.attempt_id)
    assert (answer.verdict, answer.reason, answer.late, answer.state) == ("accepted", None, False, "succeeded")
    assert (state.state, state.accepted_attempt_id, state.reported) == ("succeeded", holding.attempt_id, True)
    assert (attempt.closed_as, attempt.reported_as, attempt.verdict, attempt.late) == ("completed",) * 2 + (
        "accepted",
        False,
    )
    assert (attempt.reported_at, attempt.observed_reported_at) == (ledger.clock.now, observed)
    assert (attempt.result, attempt.renewals, attempt.shown) == (RESULT, 2, "completed")


def test_complete__is_late_past_its_lease_while_nobody_gave_it_up(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.clock.advance(31)

    answer = ledger.worker.complete(holding)

    assert (answer.verdict, answer.late, answer.state) == ("accepted", True, "succeeded")
    assert ledger.rows.attempt(holding.attempt_id).closed_as == "completed"


def test_complete__is_accepted_late_while_the_job_waits_for_its_retry(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)

    answer = ledger.worker.complete(holding)

    attempt = ledger.rows.attempt(holding.attempt_id)
    assert (answer.verdict, answer.late, answer.state) == ("accepted", True, "succeeded")
    assert (attempt.closed_as, attempt.shown, attempt.late) == ("timed_out", "completed", True)
    assert ledger.rows.events(holding.job_id)[-1].detail == {"late": True}


def test_complete__is_accepted_late_while_the_next_doorbell_is_in_the_outbox(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    holding = ledger.worker.take(job)
    ledger.lose(holding)
    ledger.ring_again(job)
    assert ledger.rows.state(job).waiting == "delivery"
    (ring,) = ledger.rows.outbox(job)

    assert ledger.worker.complete(holding).late is True
    assert ledger.worker.claim(job, ticket=ring.ticket).verdict == "finished"


def test_complete__is_accepted_late_while_the_next_delivery_is_in_flight(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    holding = ledger.worker.take(job)
    ledger.lose(holding)
    ledger.ring_again(job)
    (ring,) = ledger.rows.outbox(job)
    ledger.coordinator.outbox_done(ring.ticket)
    assert ledger.rows.state(job).rung_at == ledger.clock.now

    assert ledger.worker.complete(holding).verdict == "accepted"
    assert ledger.open().claim(job, ticket=ring.ticket, redelivered=True).verdict == "finished"
    assert ledger.rows.state(job).accepted_attempt_id == holding.attempt_id


def test_complete__is_accepted_late_from_review_and_closes_it(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(holding)
    assert ledger.lose(holding).state == "review"

    answer = ledger.worker.complete(holding)

    (review,) = ledger.rows.reviews(holding.job_id)
    assert (answer.verdict, answer.late, answer.state) == ("accepted", True, "succeeded")
    assert (review.closed_as, review.closed_by, review.closed_at) == ("succeeded", "late success", ledger.clock.now)


def test_complete__after_a_newer_claim_is_kept_and_refused(ledger: Ledger) -> None:
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.lose(first)
    ledger.ring_again(job)
    second = ledger.worker.take(job)
    observed = ledger.clock.after(-60)

    answer = ledger.worker.complete(first, LATER, observed_at=observed)

    kept = ledger.rows.attempt(first.attempt_id)
    assert (answer.verdict, answer.reason, answer.late) == ("rejected", "newer_attempt", True)
    assert (kept.result, kept.reported_at, kept.observed_reported_at) == (LATER, ledger.clock.now, observed)
    assert (kept.verdict, kept.verdict_reason, kept.shown) == ("rejected", "newer_attempt", "rejected_stale")
    assert ledger.rows.state(job).attempt_id == second.attempt_id
    assert ledger.worker.complete(second).verdict == "accepted"


def _succeeded(ledger: Ledger) -> tuple[Holding, str]:
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.lose(first)
    ledger.ring_again(job)
    ledger.worker.complete(ledger.worker.take(job))
    return first, "succeeded"


def _failed(ledger: Ledger) -> tuple[Holding, str]:
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.lose(first)
    ledger.ring_again(job)
    ledger.worker.fail(ledger.worker.take(job), {"class": "invalid", "classified": True, "message": "no"})
    return first, "failed"


def _cancelled(ledger: Ledger) -> tuple[Holding, str]:
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.lose(first)
    ledger.producer.cancel(job)
    return first, "cancelled"


@pytest.mark.parametrize("ended", [_succeeded, _failed, _cancelled])
@pytest.mark.parametrize("report", [Caller.complete, Caller.fail, Caller.release])
def test_reports__of_a_finished_job_are_rejected(
    ledger: Ledger, ended: Callable[[Ledger], tuple[Holding, str]], report: Callable[[Caller, Holding], Reported]
) -> None:
    holding, state = ended(ledger)
    before = ledger.rows.state(holding.job_id)

    answer = report(ledger.worker, holding)

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", f"job_{state}", state)
    assert ledger.rows.state(holding.job_id) == before
    assert ledger.rows.attempt(holding.attempt_id).verdict_reason == f"job_{state}"


def test_complete__of_the_lost_last_attempt_of_a_failed_job_is_noted_on_its_row(ledger: Ledger) -> None:
    """Whatever brings the job back later, this attempt has had its say."""
    ledger.declare("work", attempts=1)
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.ring_again(holding.job_id)

    assert ledger.worker.complete(holding).reason == "job_failed"
    state = ledger.rows.state(holding.job_id)
    assert (state.attempt_id, state.reported) == (holding.attempt_id, True)


def test_complete__past_the_deadline_is_refused_and_kept(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit(deadline=10))
    ledger.clock.advance(10)

    answer = ledger.worker.complete(holding)

    attempt = ledger.rows.attempt(holding.attempt_id)
    assert (answer.verdict, answer.reason, answer.late, answer.state) == ("rejected", "deadline", False, "failed")
    assert (attempt.closed_as, attempt.closed_why, attempt.result) == ("failed", "deadline", RESULT)
    assert ledger.rows.state(holding.job_id).failure_class == "deadline"


def test_complete__after_a_cancel_request_is_refused_and_kept(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    assert ledger.producer.cancel(holding.job_id).verdict == "requested"

    answer = ledger.worker.complete(holding)

    attempt = ledger.rows.attempt(holding.attempt_id)
    assert (answer.verdict, answer.reason, answer.state) == ("rejected", "job_cancelled", "cancelled")
    assert (attempt.closed_as, attempt.result, attempt.shown) == ("cancelled", RESULT, "rejected_stale")
    assert ledger.rows.state(holding.job_id).attempt_id is None


@pytest.mark.parametrize("refusal", ["deadline", "job_cancelled"])
def test_complete__refused_goes_to_review_if_it_cannot_be_repeated(ledger: Ledger, refusal: str) -> None:
    holding = ledger.worker.take(ledger.submit("once", deadline=10))
    ledger.worker.start(holding)
    if refusal == "deadline":
        ledger.clock.advance(10)
    else:
        ledger.producer.cancel(holding.job_id)

    answer = ledger.worker.complete(holding)

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", refusal, "review")
    assert ledger.rows.attempt(holding.attempt_id).result == RESULT
    assert [review.closed_at for review in ledger.rows.reviews(holding.job_id)] == [None]


@pytest.mark.parametrize("refusal", ["deadline", "job_cancelled"])
def test_complete__refused_in_review_leaves_it_open(ledger: Ledger, refusal: str) -> None:
    holding = ledger.worker.take(ledger.submit("once", deadline=40))
    ledger.worker.start(holding)
    ledger.lose(holding)
    if refusal == "deadline":
        ledger.clock.advance(40)
    else:
        assert ledger.producer.cancel(holding.job_id).verdict == "requested"

    answer = ledger.worker.complete(holding)

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", refusal, "review")
    assert [review.closed_at for review in ledger.rows.reviews(holding.job_id)] == [None]


@pytest.mark.parametrize("report", [Caller.complete, Caller.fail, Caller.release])
@pytest.mark.parametrize("difference", [-1, 1])
def test_reports__with_another_fencing_number_are_kept_and_change_nothing(
    ledger: Ledger, report: Callable[[Caller, Holding], Reported], difference: int
) -> None:
    holding = ledger.worker.take(ledger.submit())
    wrong = replace(holding, fencing_number=holding.fencing_number + difference)
    before = ledger.rows.state(holding.job_id)

    answer = report(ledger.worker, wrong)

    (kept,) = ledger.rows.late_reports(holding.job_id)
    assert (answer.verdict, answer.reason) == ("rejected", "unknown_attempt")
    assert (kept.attempt_id, kept.fencing_number, kept.reason) == (
        holding.attempt_id,
        wrong.fencing_number,
        "unknown_attempt",
    )
    assert ledger.rows.state(holding.job_id) == before
    assert ledger.rows.attempt(holding.attempt_id).reported_at is None


@pytest.mark.parametrize("report", [Caller.complete, Caller.fail, Caller.release])
def test_reports__without_a_fencing_number_are_kept_and_change_nothing(
    ledger: Ledger, report: Callable[[Caller, Holding], Reported]
) -> None:
    ended = ledger.worker.take(ledger.submit())
    ledger.lose(ended)
    ledger.ring_again(ended.job_id)
    ledger.worker.complete(ledger.worker.take(ended.job_id))
    without: Any = None

    answer = report(ledger.worker, replace(ended, fencing_number=without))

    assert (answer.verdict, answer.reason) == ("rejected", "unknown_attempt")
    assert len(ledger.rows.late_reports(ended.job_id)) == 1
    assert ledger.rows.attempt(ended.attempt_id).reported_at is None


@pytest.mark.parametrize("report", [Caller.complete, Caller.fail, Caller.release])
def test_reports__of_an_attempt_that_the_ledger_does_not_know_are_kept(
    ledger: Ledger, report: Callable[[Caller, Holding], Reported]
) -> None:
    holding = ledger.worker.take(ledger.submit())
    stranger = replace(holding, attempt_id=uuid4())

    answer = report(ledger.worker, stranger)

    (kept,) = ledger.rows.late_reports(holding.job_id)
    assert (answer.verdict, answer.reason) == ("rejected", "unknown_attempt")
    assert (kept.attempt_id, kept.login, kept.received_at) == (
        stranger.attempt_id,
        "brokerjobs_test_worker",
        ledger.clock.now,
    )
    assert ledger.worker.complete(holding).verdict == "accepted"


@pytest.mark.parametrize("report", [Caller.complete, Caller.fail, Caller.release])
def test_reports__of_a_job_that_the_ledger_does_not_know_are_kept(
    ledger: Ledger, report: Callable[[Caller, Holding], Reported]
) -> None:
    stranger = Holding(uuid4(), uuid4(), 7)

    answer = report(ledger.worker, stranger)

    (kept,) = ledger.rows.late_reports(stranger.job_id)
    assert (answer.verdict, answer.reason, answer.state) == ("rejected", "unknown_job", None)
    assert (kept.attempt_id, kept.fencing_number) == (stranger.attempt_id, 7)


def test_complete__of_a_job_whose_attempt_a_decision_cleared_is_rejected(ledger: Ledger) -> None:
    job = ledger.submit()
    holding = ledger.worker.take(job)
    ledger.lose(holding)
    ledger.owner.execute("update brokerjobs.job_state set attempt_id = null where job_id = %s", [job])

    answer = ledger.worker.complete(holding)

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", "decided", "queued")


@pytest.mark.parametrize("report", [Caller.fail, Caller.release])
def test_reports__of_failure_that_arrive_late_are_stored_and_change_nothing(
    ledger: Ledger, report: Callable[[Caller, Holding], Reported]
) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    before = ledger.rows.state(holding.job_id)

    answer = report(ledger.worker, holding)

    attempt = ledger.rows.attempt(holding.attempt_id)
    assert (answer.verdict, answer.late, answer.state, answer.until) == ("recorded", True, "queued", None)
    assert replace(ledger.rows.state(holding.job_id), reported=False) == before
    assert (attempt.closed_as, attempt.verdict, attempt.charged) == ("timed_out", "recorded", True)
    assert ledger.worker.complete(holding).verdict == "already_reported"


def test_fail__keeps_the_result_it_brings_as_evidence_only(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())

    answer = ledger.worker.fail(holding, {**TEMPORARY, "result": RESULT})

    attempt = ledger.rows.attempt(holding.attempt_id)
    assert (answer.verdict, attempt.result, attempt.failure) == ("recorded", RESULT, TEMPORARY)
    assert ledger.rows.state(holding.job_id).accepted_attempt_id is None
