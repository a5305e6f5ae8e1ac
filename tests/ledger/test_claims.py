"""What a claim answers, and what it leaves behind (rules R4, R5, R7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from uuid_utils.compat import uuid7

from brokerjobs.ledger import calls
from brokerjobs.ledger.inquiries import Cancelled
from tests.ledger.ledger_caller import holding_of, new_job

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


def test_claim__grants_what_its_worker_needs(ledger: Ledger) -> None:
    job = ledger.submit_all([new_job({"n": 1}, key="k", tags={"order": "9"}, deadline=900)])[0].id
    ticket = uuid4()

    answer = ledger.worker.claim(job, ticket=ticket, redelivered=True)

    state, attempt = ledger.rows.state(job), ledger.rows.attempt(answer.attempt_id)
    assert (answer.verdict, answer.state, answer.number, answer.payload) == ("granted", "running", 1, '{"n": 1}')
    assert (answer.key, answer.submitted_by, answer.tags, answer.checked) == ("k", "tester", {"order": "9"}, True)
    assert (answer.lease_seconds, answer.time_limit_seconds, answer.repeatable) == (30, 600, True)
    assert (answer.until, answer.deadline) == (ledger.clock.after(30), ledger.clock.after(900))
    assert (state.attempt_id, state.lease_until, state.charged) == (answer.attempt_id, answer.until, 1)
    assert (attempt.fencing_number, attempt.lease_first_until, attempt.shown) == (
        answer.fencing_number,
        answer.until,
        "claimed",
    )


def test_claim__asked_again_with_the_same_ids_grants_the_same(ledger: Ledger) -> None:
    job, attempt = ledger.submit(), uuid7()
    first = ledger.worker.claim(job, attempt)
    ledger.clock.advance(3)

    again = ledger.worker.claim(job, attempt)

    assert (again.verdict, again.number, again.fencing_number, again.until) == (
        "granted",
        first.number,
        first.fencing_number,
        first.until,
    )
    assert again.lease_seconds == 27
    assert ledger.rows.state(job).charged == 1
    assert len(ledger.rows.events(job, "claimed")) == 1


def test_claim__of_another_while_the_lease_lives_is_held(ledger: Ledger) -> None:
    job = ledger.submit()
    ledger.worker.take(job)

    answer = ledger.open().claim(job)

    assert (answer.verdict, answer.state, answer.until) == ("held", "running", ledger.clock.after(30))
    assert [event.kind for event in ledger.rows.events(job)][-1] == "duplicate_delivery"


def test_claim__of_an_attempt_that_was_lost_is_lost_for_good(ledger: Ledger) -> None:
    job, attempt = ledger.submit(), uuid7()
    ledger.lose(holding_of(ledger.worker.claim(job, attempt)))
    assert ledger.worker.claim(job, attempt).verdict == "lost"
    ledger.ring_again(job)
    assert ledger.worker.claim(job, attempt).verdict == "lost"
    second = ledger.worker.take(job)

    assert ledger.worker.claim(job, attempt).verdict == "lost"
    ledger.worker.complete(second)
    assert ledger.worker.claim(job, attempt).verdict == "lost"
    assert ledger.rows.state(job).number == 2


def test_claim__never_takes_a_running_job_over(ledger: Ledger) -> None:
    """It performs the reaper's step and answers from its result."""
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.clock.advance(30)

    answer = ledger.open().claim(job)

    assert (answer.verdict, ledger.rows.state(job).waiting) == ("not_due", "retry")
    assert ledger.rows.attempt(first.attempt_id).closed_by == "claim"
    assert ledger.worker.renew(first).verdict == "lost"


def test_claim__of_a_lost_job_in_review_or_without_budget_says_so(ledger: Ledger) -> None:
    ledger.declare("poor", attempts=1)
    ledger.worker.place = ledger.place = type(ledger.place)(ledger.place.namespace, ("once", "poor"))
    once, poor = ledger.worker.take(ledger.submit("once")), ledger.worker.take(ledger.submit("poor"))
    ledger.worker.start(once)
    ledger.clock.advance(30)

    assert ledger.worker.claim(once.job_id).verdict == "review"
    assert ledger.worker.claim(poor.job_id).verdict == "not_due"
    ledger.clock.advance(30)
    assert ledger.worker.claim(poor.job_id).verdict == "finished"


def test_claim__spares_a_running_job_while_no_reaper_ticks(ledger: Ledger) -> None:
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.clock.advance(30, ticking=False)

    assert ledger.open().claim(job).verdict == "held"
    assert ledger.worker.renew(first).verdict == "kept"
    ledger.clock.advance(0)


def test_claim__of_strangers_is_refused(ledger: Ledger) -> None:
    job = ledger.submit()

    assert ledger.worker.claim(uuid4()).verdict == "unknown_job"
    assert ledger.worker.claim(job, route=ledger.place.route("other")).verdict == "wrong_route"
    assert ledger.worker.claim(job, namespace="elsewhere").verdict == "wrong_route"
    assert ledger.rows.state(job).number == 0


def test_claim__answers_each_row_of_a_batch_with_its_own_facts(ledger: Ledger) -> None:
    granted, done, twice = (
        ledger.submit_all([new_job({"n": 1}, key="k", tags={"a": "b"})])[0].id,
        ledger.submit(),
        ledger.submit(),
    )
    ledger.worker.complete(ledger.worker.take(done))

    answers = ledger.worker.claim_all(
        [(granted, uuid7()), (done, uuid7()), (uuid4(), uuid7()), (twice, uuid7()), (twice, uuid7())]
    )

    assert [answer.verdict for answer in answers] == ["granted", "finished", "unknown_job", "granted", "locked"]
    for answer in (answers[1], answers[2], answers[4]):
        told = (answer.key, answer.tags, answer.submitted_by, answer.payload, answer.number, answer.repeatable)
        assert [*told, answer.checked, answer.time_limit_seconds, answer.deadline, answer.traceparent] == [None] * 10


def test_claim__stops_granting_when_its_answer_is_full(ledger: Ledger) -> None:
    jobs = [answer.id for answer in ledger.submit_all([new_job("x" * 250_000) for _ in range(40)])]

    answers = ledger.worker.claim_all([(job, uuid7()) for job in jobs])

    verdicts = [answer.verdict for answer in answers]
    assert verdicts == ["granted"] * 34 + ["again"] * 6  # 8 MiB, one row over
    assert {ledger.rows.state(job).state for job in jobs[34:]} == {"queued"}


def test_claim__of_nothing_is_nothing(ledger: Ledger) -> None:
    assert ledger.worker.claim_all([]) == []


def test_start__is_kept_and_repeated_and_refused_after_a_cancel(ledger: Ledger) -> None:
    first, second = ledger.worker.take(ledger.submit("once")), ledger.worker.take(ledger.submit("once"))
    ledger.producer.cancel(second.job_id)

    assert [ledger.worker.start(first), ledger.worker.start(first)] == ["started", "started"]
    ledger.producer.cancel(first.job_id)
    assert ledger.worker.start(first) == "started"  # asked again: the handler is running
    assert ledger.worker.start(second) == "cancel_requested"
    assert (ledger.rows.state(first.job_id).started, ledger.rows.state(second.job_id).started) == (True, False)
    assert [event.kind for event in ledger.rows.events(first.job_id)].count("started") == 1
    assert ledger.rows.attempt(first.attempt_id).shown == "active"


def test_start__after_the_lease_ran_out_is_lost_so_that_the_job_is_retried(ledger: Ledger) -> None:
    """Nobody has given the attempt up yet, but its handler must not begin: it would end in review."""
    late, begun = ledger.worker.take(ledger.submit("once")), ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(begun)
    ledger.clock.advance(30)

    assert ledger.worker.start(late) == "lost"
    assert ledger.worker.start(begun) == "started"  # asked again: the handler is running
    expired = ledger.coordinator.expire()
    assert (expired[late.job_id].state, expired[begun.job_id].state) == ("queued", "review")


def test_start__of_one_attempt_says_nothing_about_the_next(ledger: Ledger) -> None:
    ledger.declare("once", repeatable=False, first_delay=timedelta(0))
    job = ledger.submit("once")
    first = ledger.worker.take(job)
    ledger.worker.start(first)
    ledger.worker.fail(first, {"class": "temporary", "classified": True})
    ledger.ring_again(job)
    second = ledger.worker.take(job)

    assert ledger.rows.state(job).started is False
    assert ledger.lose(second).state == "queued"  # claimed, never started: retried


def test_renew__records_the_observed_start_once(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    observed = ledger.clock.after(-1)
    ledger.clock.advance(10)

    answer = ledger.worker.renew(holding, observed)

    assert (answer.verdict, answer.lease_seconds) == ("kept", 30)
    assert ledger.rows.state(holding.job_id).lease_until == ledger.clock.after(30)
    attempt = ledger.rows.attempt(holding.attempt_id)
    assert (attempt.started_at, attempt.observed_started_at, attempt.shown) == (ledger.clock.now, observed, "active")
    ledger.clock.advance(1)
    ledger.worker.renew(holding, ledger.clock.now)
    assert ledger.rows.attempt(holding.attempt_id).observed_started_at == observed


def test_renew__after_the_lease_ran_out_is_lost_even_if_nobody_gave_it_up(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.clock.advance(30)

    assert ledger.worker.renew(holding).verdict == "lost"
    assert ledger.worker.complete(holding).verdict == "accepted"  # the result is not refused


def test_renew__says_that_a_cancel_is_wanted_and_keeps_the_lease(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.producer.cancel(holding.job_id)
    ledger.clock.advance(20)

    assert ledger.worker.renew(holding).verdict == "cancel_requested"
    assert ledger.rows.state(holding.job_id).lease_until == ledger.clock.after(30)


def test_renew__and_start_without_a_fencing_number_are_lost(ledger: Ledger) -> None:
    without: Any = None
    holding = ledger.worker.take(ledger.submit())
    ledger.clock.advance(1)
    for stranger in (
        replace(holding, fencing_number=without),
        replace(holding, attempt_id=without),
        replace(holding, fencing_number=holding.fencing_number + 1),
        replace(holding, attempt_id=uuid4()),
        replace(holding, job_id=uuid4()),
    ):
        assert ledger.worker.renew(stranger).verdict == "lost"
        assert ledger.worker.start(stranger) == "lost"

    assert ledger.rows.state(holding.job_id).lease_until == ledger.clock.after(29)
    assert ledger.rows.state(holding.job_id).started is False


def test_renew__of_both_rows_of_one_job_keeps_it(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.clock.advance(1)

    answers = ledger.worker.fetch(calls.renew([holding, holding], [None, None]))

    assert [answer.verdict for answer in answers] == ["kept", "kept"]
    assert ledger.rows.state(holding.job_id).lease_until == ledger.clock.after(30)


def test_cancel__asked_again_after_a_lost_reply_has_the_same_answer(ledger: Ledger) -> None:
    queued, running, done = ledger.submit(), ledger.submit(), ledger.submit()
    holding = ledger.worker.take(running)
    ledger.worker.complete(ledger.worker.take(done))

    first = [ledger.producer.cancel(job).verdict for job in (queued, running, done)]
    ledger.worker.release(holding, "cancel")
    again = [ledger.producer.cancel(job) for job in (queued, running, done)]
    of_another = [ledger.producer.cancel(job, "for another reason").verdict for job in (queued, running, done)]

    assert first == ["cancelled", "requested", "refused"]
    assert again == [
        Cancelled(first[0], "cancelled"),
        Cancelled(first[1], "cancelled"),
        Cancelled(first[2], "succeeded"),
    ]
    assert of_another == ["refused"] * 3


def test_cancel__answers_by_the_state(ledger: Ledger) -> None:
    queued, running, done = ledger.submit(), ledger.submit(), ledger.submit()
    holding = ledger.worker.take(running)
    ledger.worker.complete(ledger.worker.take(done))

    assert ledger.producer.cancel(queued) == Cancelled("cancelled", "cancelled")
    assert [ledger.producer.cancel(running).verdict for _ in range(2)] == ["requested", "requested"]
    assert ledger.producer.cancel(done) == Cancelled("refused", "succeeded")
    assert ledger.producer.cancel(uuid4()).verdict == "unknown_job"
    assert len(ledger.rows.events(running, "cancel_requested")) == 1
    assert ledger.rows.state(running).attempt_id == holding.attempt_id  # a mere request clears nothing
    cancelled = ledger.rows.state(running).cancel
    assert cancelled is not None
    assert (cancelled["by"], cancelled["reason"]) == ("tester", "not wanted any more")


def test_hand_back__rings_those_that_wait_for_a_delivery(ledger: Ledger) -> None:
    waiting, running, later = ledger.submit(rung=True), ledger.submit(rung=True), ledger.submit(rung=True)
    ledger.worker.take(running)
    ledger.worker.snooze(ledger.worker.take(later), 60)

    rung = ledger.worker.hand_back(waiting, running, later, waiting, uuid4())

    assert rung == 1
    assert [len(ledger.rows.outbox(job)) for job in (waiting, running, later)] == [1, 0, 0]
    assert len(ledger.rows.events(waiting, "handed_back")) == 1


def test_acked__is_kept_once_by_the_workers_clock(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    sent = ledger.clock.after(-2)
    ledger.worker.fetch(
        calls.acked([calls.SentAck(one, sent, calls.LeaseFigures()) for one in (holding.attempt_id, uuid4())])
    )
    ledger.worker.fetch(calls.acked([calls.SentAck(holding.attempt_id, ledger.clock.now, calls.LeaseFigures())]))

    assert ledger.rows.attempt(holding.attempt_id).ack_sent_at == sent
