"""Reviews: opened however an attempt ended, decided once and on what was read, closed by facts that arrive late."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from psycopg import errors

from brokerjobs.ledger import decisions, inquiries
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import RESULT, TEMPORARY, asking
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

UNCLASSIFIED = {"class": "unsafe", "classified": False, "type": "ConnectError", "message": "reset by peer"}


def started(ledger: Ledger, **other: float) -> Holding:
    holding = ledger.worker.take(ledger.submit("once", **other))  # type: ignore[arg-type]  # a deadline
    assert ledger.worker.start(holding) == "started"
    return holding


def in_review(ledger: Ledger, **other: float) -> Holding:
    holding = started(ledger, **other)
    ledger.lose(holding)
    return holding


def lost(ledger: Ledger) -> Holding:
    return in_review(ledger)


def raised(ledger: Ledger) -> Holding:
    holding = started(ledger)
    ledger.worker.fail(holding, UNCLASSIFIED)
    return holding


def time_limit(ledger: Ledger) -> Holding:
    holding = started(ledger)
    ledger.worker.fail(holding, {**UNCLASSIFIED, "type": "TimeLimitExceeded"})
    return holding


def drain_limit(ledger: Ledger) -> Holding:
    holding = started(ledger)
    ledger.worker.release(holding, "drain")
    return holding


def failed_with_a_cancel(ledger: Ledger) -> Holding:
    holding = started(ledger)
    ledger.producer.cancel(holding.job_id)
    ledger.worker.fail(holding, UNCLASSIFIED)
    return holding


def result_with_a_cancel(ledger: Ledger) -> Holding:
    holding = started(ledger)
    ledger.producer.cancel(holding.job_id)
    assert ledger.worker.complete(holding).verdict == "rejected"
    return holding


def result_past_the_deadline(ledger: Ledger) -> Holding:
    holding = started(ledger, deadline=5)
    ledger.clock.advance(5)
    assert ledger.worker.complete(holding).verdict == "rejected"
    return holding


@pytest.mark.parametrize(
    ("way", "known"),
    [
        (lost, {"ended": "lease_expired", "why": "lease expired"}),
        (raised, {"ended": "attempt_failed", "error_type": "ConnectError", "error": "reset by peer"}),
        (time_limit, {"ended": "attempt_failed", "error_type": "TimeLimitExceeded"}),
        (drain_limit, {"ended": "attempt_released", "why": "drain"}),
        (failed_with_a_cancel, {"ended": "attempt_failed"}),
        (result_with_a_cancel, {"ended": "result_refused", "result_refused": "job_cancelled"}),
        (result_past_the_deadline, {"ended": "result_refused", "result_refused": "deadline"}),
    ],
)
def test_review__opens_however_the_attempt_ended_with_what_is_known(
    ledger: Ledger, way: Callable[[Ledger], Holding], known: dict[str, str]
) -> None:
    holding = way(ledger)

    review = ledger.operator.review(holding.job_id)
    assert known.items() <= review["known"].items()
    assert (review["known"]["attempt"], review["attempt"]) == (1, str(holding.attempt_id))
    assert review["known"]["started_at"] is not None
    assert review["closed"] is None
    (opened,) = ledger.rows.events(holding.job_id, "review_opened")
    assert opened.detail == {"review": review["id"]}
    assert violations(ledger.owner, [holding.job_id]) == []


def test_review__owes_a_message_which_relays_of_before_are_not_given(ledger: Ledger) -> None:
    opened, closed = in_review(ledger).job_id, in_review(ledger).job_id
    ledger.operator.resolve(closed, "give_up")

    before = {message.job_id for message in ledger.coordinator.outbox_take()[0] if message.kind == "review"}
    now = ledger.coordinator.sql(
        "select job_id, body from brokerjobs.outbox_messages('0', 1000, '{review}') where kind = 'review'"
    )

    assert before == set()
    (body,) = [body for job, body in now if job == opened]
    assert json.loads(body)["state"] == "review"
    assert closed not in {job for job, _ in now}
    assert ledger.rows.outbox(closed, "review") == []


def test_review__is_found_by_its_own_id_and_by_its_jobs(ledger: Ledger) -> None:
    holding = in_review(ledger)
    by_job = ledger.operator.review(holding.job_id)

    (by_id,) = ledger.operator.fetch(decisions.review_show(by_job["id"]))

    assert json.loads(by_id.review) == by_job
    assert json.loads(by_id.record)["id"] == str(holding.job_id)


def test_reviews__are_listed_oldest_first_in_pages_and_only_while_open(ledger: Ledger) -> None:
    place = ledger.place.namespace
    jobs = [str(in_review(ledger).job_id) for _ in range(4)]
    ledger.operator.resolve(in_review(ledger).job_id, "give_up")

    first = ledger.operator.fetch(decisions.review_list(place, None, None, 3))
    rest = ledger.operator.fetch(decisions.review_list(place, "once", first[-1].review["id"], 3))

    assert [row.review["job"] for row in (*first, *rest)] == jobs
    assert ledger.operator.fetch(decisions.review_list(place, "work", None, 3)) == []


def test_happened__ends_the_job_with_the_result_given_and_says_who_when_and_why(ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    ledger.clock.advance(7)

    answer = ledger.operator.resolve(job, "happened", reference="psp 4711", result='{"paid": 1}', checked=True)

    assert (answer["verdict"], answer["state"]) == ("decided", "succeeded")
    record = ledger.producer.record(job)
    assert (record["state"], record["result"], record["accepted_attempt"]) == ("succeeded", {"paid": 1}, None)
    (review,) = record["reviews"]
    assert record["accepted_review"] == review["id"]
    assert {
        "decision": "happened",
        "closed_by": "ann",
        "login": "brokerjobs_test_operator",
        "reason": "looked into it",
        "reference": "psp 4711",
        "result_given": True,
        "result_checked": True,
    }.items() <= review.items()
    assert review["closed_at"] == f"{ledger.clock.now:%Y-%m-%dT%H:%M:%S.%fZ}"
    (event,) = ledger.rows.events(job, "review_decided")
    assert {"by": "ann", "decision": "happened", "reference": "psp 4711"}.items() <= (event.detail or {}).items()
    assert ledger.producer.sql("select brokerjobs.status_v1(%s) -> 'result'", job) == [({"paid": 1},)]
    assert violations(ledger.owner, [job]) == []


def test_happened__without_a_result_is_told_to_waiters_as_a_decision(ledger: Ledger) -> None:
    with_one, without = in_review(ledger).job_id, in_review(ledger).job_id
    ledger.operator.resolve(with_one, "happened", result="null")
    ledger.operator.resolve(without, "happened")

    outcomes = {row.job_id: row for row in ledger.producer.fetch(inquiries.results([with_one, without]))}

    assert outcomes[with_one].result == "null"
    assert outcomes[without].result is None
    assert {"by": "ann", "reason": "looked into it", "reference": "receipt 7", "result_given": False}.items() <= (
        outcomes[without].decided or {}
    ).items()


def test_happened__needs_a_reference_and_a_result_within_the_limit(ledger: Ledger) -> None:
    job = in_review(ledger).job_id

    with pytest.raises(errors.CheckViolation):
        ledger.operator.resolve(job, "happened", reference=None)
    answer = ledger.operator.resolve(job, "happened", result=json.dumps("x" * 262_144))

    assert (answer["verdict"], answer["size"], answer["limit"]) == ("too_large", 262_146, 262_144)
    assert ledger.rows.state(job).state == "review"


def test_retry__admits_the_old_attempt_until_somebody_claims_the_job(ledger: Ledger) -> None:
    first, second = in_review(ledger), in_review(ledger)
    for holding in (first, second):
        assert ledger.operator.resolve(holding.job_id, "retry")["state"] == "queued"

    assert ledger.worker.complete(first).verdict == "accepted"
    ledger.worker.take(second.job_id)
    assert ledger.worker.complete(second).reason == "newer_attempt"
    assert violations(ledger.owner, [first.job_id, second.job_id]) == []


def test_retry__runs_once_more_even_if_every_attempt_is_used_and_time_has_passed(ledger: Ledger) -> None:
    ledger.declare("once", repeatable=False, attempts=1)
    job = in_review(ledger).job_id
    ledger.clock.advance(3 * 86_400)

    ledger.operator.resolve(job, "retry")
    holding = ledger.worker.take(job)
    failed = ledger.worker.fail(holding, TEMPORARY)

    assert (failed.state, ledger.rows.state(job).failure_reason) == ("failed", "2 of 2 attempts used")
    assert violations(ledger.owner, [job]) == []


def test_retry__with_attempts_left_has_all_its_elapsed_time_again(ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    ledger.clock.advance(3 * 86_400)

    ledger.operator.resolve(job, "retry")

    assert ledger.worker.fail(ledger.worker.take(job), TEMPORARY).state == "queued"


@pytest.mark.parametrize("noted", ["cancel", "deadline"])
def test_retry__is_disabled_by_a_cancel_and_by_a_deadline_and_the_review_says_so(ledger: Ledger, noted: str) -> None:
    job = in_review(ledger, deadline=60).job_id
    assert ledger.operator.review(job)["retry_ends_as"] == "queued"
    if noted == "cancel":
        ledger.producer.cancel(job, "changed my mind")
    else:
        ledger.clock.advance(60)

    review = ledger.operator.review(job)
    ended = "cancelled" if noted == "cancel" else "failed"
    assert review["retry_ends_as"] == ended
    assert review["past_deadline"] == (noted == "deadline")
    assert ledger.operator.resolve(job, "retry")["state"] == ended
    assert ledger.rows.outbox(job, "doorbell")[1:] == []
    assert violations(ledger.owner, [job]) == []


def test_give_up__fails_the_job_and_rejects_what_comes_later(ledger: Ledger) -> None:
    holding = in_review(ledger)

    assert ledger.operator.resolve(holding.job_id, "give_up")["state"] == "failed"

    state = ledger.rows.state(holding.job_id)
    assert (state.failure_class, state.failure_reason) == ("unsafe", "ann gave up: looked into it")
    assert ledger.worker.complete(holding).reason == "job_failed"
    assert len(ledger.rows.outbox(holding.job_id, "dead")) == 1
    assert violations(ledger.owner, [holding.job_id]) == []


@pytest.mark.parametrize("decision", ["happened", "give_up"])
def test_decision__counts_although_a_cancel_is_noted(ledger: Ledger, decision: str) -> None:
    job = in_review(ledger).job_id
    ledger.producer.cancel(job)

    assert ledger.operator.resolve(job, decision)["state"] == {"happened": "succeeded"}.get(decision, "failed")
    assert violations(ledger.owner, [job]) == []


def late_failure(ledger: Ledger, holding: Holding) -> None:
    assert ledger.worker.fail(holding, UNCLASSIFIED).late


def refused_success(ledger: Ledger, holding: Holding) -> None:
    ledger.producer.cancel(holding.job_id)
    version = int(ledger.operator.review(holding.job_id)["version"])
    assert ledger.worker.complete(holding).verdict == "rejected"
    assert int(ledger.operator.review(holding.job_id)["version"]) > version


def cancel(ledger: Ledger, holding: Holding) -> None:
    ledger.producer.cancel(holding.job_id)


@pytest.mark.parametrize("moves", [late_failure, refused_success, cancel])
def test_decision__is_refused_if_the_record_has_moved_since_it_was_read(
    ledger: Ledger, moves: Callable[[Ledger, Holding], None]
) -> None:
    holding = in_review(ledger)
    read = int(ledger.operator.review(holding.job_id)["version"])
    moves(ledger, holding)

    answer = ledger.operator.resolve(holding.job_id, "retry", version=read)

    assert answer["verdict"] == "moved"
    assert answer["version"] == ledger.operator.review(holding.job_id)["version"]
    assert ledger.rows.state(holding.job_id).state == "review"


def test_decision__is_not_disturbed_by_a_doorbell_that_rings_in_vain(ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    read = int(ledger.operator.review(job)["version"])
    assert ledger.worker.claim(job).verdict == "review"

    assert ledger.operator.resolve(job, "retry", version=read)["verdict"] == "decided"


def test_decision__asked_twice_with_one_request_acts_once_and_gets_the_same_answer(ledger: Ledger) -> None:
    job, request = in_review(ledger).job_id, asking()
    read = int(ledger.operator.review(job)["version"])
    first = ledger.operator.resolve(job, "retry", version=read, request=request)
    holding = ledger.worker.take(job)  # what it led to has gone on

    again = ledger.operator.resolve(job, "retry", version=read, request=request)

    assert again == {**first, "repeated": True}
    assert len(ledger.rows.events(job, "review_decided")) == 1
    other = ledger.operator.resolve(job, "give_up", version=read, request=request)
    assert (other["verdict"], other["by"]) == ("request_reused", "ann")
    assert ledger.rows.state(job).attempt_id == holding.attempt_id


def test_decision__that_comes_second_is_told_whose_was_first(ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    read = int(ledger.operator.review(job)["version"])
    other = ledger.open("operator")
    other.begin()
    other.resolve(job, "happened", version=read, reference="psp 4711")

    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(ledger.operator.resolve, job, "retry", version=read)
        eventually_sync(lambda: ledger.is_blocked(ledger.operator))
        other.commit()

    answer = second.result()
    assert (answer["verdict"], answer["state"]) == ("closed", "succeeded")
    assert {"by": "ann", "decision": "happened", "reference": "psp 4711"}.items() <= answer["closed"].items()


def test_late_success__closes_the_review_and_the_decision_that_comes_second_is_told(ledger: Ledger) -> None:
    holding = in_review(ledger)
    read = int(ledger.operator.review(holding.job_id)["version"])

    assert ledger.worker.complete(holding).verdict == "accepted"

    answer = ledger.operator.resolve(holding.job_id, "give_up", version=read)
    assert answer["verdict"] == "closed"
    assert (answer["closed"]["by"], answer["closed"]["decision"]) == ("late success", None)
    assert ledger.producer.record(holding.job_id)["result"] == RESULT


def test_decision__about_what_is_not_there_is_said(ledger: Ledger) -> None:
    assert ledger.operator.resolve(ledger.submit(), "retry", version=1)["verdict"] == "no_review"
    assert ledger.operator.resolve(asking().id, "retry", version=1)["verdict"] == "unknown"


def test_review__that_has_closed_is_never_changed(ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    ledger.operator.resolve(job, "give_up")

    for change in ("reason = 'another'", "closed_by = 'another'", "result = '1'"):
        with pytest.raises(errors.DatabaseError) as refused:
            ledger.owner.execute(f"update brokerjobs.review set {change} where job_id = %s".encode(), [job])
        assert refused.value.sqlstate == "BJ004"
