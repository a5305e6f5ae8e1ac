"""Who says what became of an unknown effect: people, reconcilers, and facts that arrive after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.effects import Effects, events, record
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import TEMPORARY
from tests.ledger.test_retention import DAY, HORIZONS, remove

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger


@pytest.fixture
def effects(ledger: Ledger) -> Effects:
    return Effects(ledger.worker)


def in_review(ledger: Ledger, effects: Effects, *, limit: float = 10.0, kind: str = "work") -> Holding:
    """A job whose attempt was lost between the intent and the outcome of an effect that may not be repeated."""
    holding = ledger.worker.take(ledger.submit(kind))
    if kind == "once":
        ledger.worker.start(holding)
    effects.grant(holding, limit=limit)
    ledger.lose(holding)
    assert ledger.rows.state(holding.job_id).state == "review"
    return holding


def test_review__shows_its_open_effects(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)

    [effect] = ledger.operator.review(holding.job_id)["effects"]

    assert (effect["name"], effect["key"], effect["outcome"]) == ("charge", f"{holding.job_id}/charge", None)
    assert effect["intents"][0]["attempt"] == str(holding.attempt_id)


def test_retry__says_that_it_did_not_happen_and_the_next_attempt_gets_a_new_key(
    ledger: Ledger, effects: Effects
) -> None:
    holding = in_review(ledger, effects)

    assert ledger.operator.resolve(holding.job_id, "retry")["state"] == "queued"

    [effect] = record(ledger, holding.job_id)["effects"]
    assert (effect["outcome"]["as"], effect["outcome"]["by"]) == ("did_not_happen", "review")
    second = ledger.worker.take(holding.job_id)
    assert effects.grant(second).try_ == 2
    effects.happened(second, try_=2)
    assert ledger.worker.complete(second).verdict == "accepted"


def test_retry__that_was_wrong_is_contradicted_and_looked_at_again(ledger: Ledger, effects: Effects) -> None:
    """A process that was paused between intent and call wakes up and calls: nothing can keep it from that."""
    holding = in_review(ledger, effects)
    ledger.operator.resolve(holding.job_id, "retry")
    second = ledger.worker.take(holding.job_id)
    effects.grant(second)
    effects.happened(second, try_=2)

    assert effects.happened(holding).verdict == "contradicts"

    assert ledger.worker.complete(second).state == "review"
    assert "effect charge" in ledger.operator.review(holding.job_id)["cause"]
    ledger.operator.resolve(holding.job_id, "happened")
    found = record(ledger, holding.job_id)
    assert found["state"] == "succeeded"
    assert found["effects"][0]["settled_at"] is not None


def test_retry__that_was_wrong_stops_every_later_try(ledger: Ledger, effects: Effects) -> None:
    """Also one that comes after another try of which it is known that it did not happen."""
    holding = in_review(ledger, effects)
    ledger.operator.resolve(holding.job_id, "retry")
    second = ledger.worker.take(holding.job_id)
    effects.grant(second)
    effects.did_not_happen(second, try_=2)
    ledger.worker.fail(second, TEMPORARY)
    assert effects.happened(holding).verdict == "contradicts"
    ledger.ring_again(holding.job_id)
    third = ledger.worker.take(holding.job_id)

    answer = effects.intend(third)

    assert (answer.verdict, answer.try_) == ("unknown", 1)
    assert ledger.worker.fail(third, TEMPORARY).state == "review"


def test_retry__that_was_wrong_lets_a_waiting_job_wait(ledger: Ledger, effects: Effects) -> None:
    """The attempt was only slow: what it says of its effect refuses its own success; the next one goes to review."""
    holding = in_review(ledger, effects)
    ledger.operator.resolve(holding.job_id, "retry")
    assert effects.happened(holding).verdict == "contradicts"

    refused, again = ledger.worker.complete(holding), ledger.worker.complete(holding)

    assert (refused.verdict, refused.reason, refused.state) == ("rejected", "unknown_effect", "queued")
    assert again == refused
    assert violations(ledger.owner, [holding.job_id]) == []
    second = ledger.worker.take(holding.job_id)
    assert effects.intend(second).verdict == "unknown"
    assert ledger.worker.complete(second).state == "review"


def test_happened__is_written_on_the_effect_too(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)

    ledger.operator.resolve(holding.job_id, "happened", reference="psp 4711")

    found = record(ledger, holding.job_id)
    assert found["state"] == "succeeded"
    outcome = found["effects"][0]["outcome"]
    assert (outcome["as"], outcome["by"], outcome["reference"]) == ("happened", "review", "psp 4711")
    assert effects.happened(holding).verdict == "recorded"  # the attempt agrees, whatever its call returned


def test_give_up__leaves_it_unknown_and_a_replay_asks_again_before_doing_it(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    ledger.operator.resolve(holding.job_id, "give_up")
    assert record(ledger, holding.job_id)["effects"][0]["unknown"]
    ledger.operator.replay(holding.job_id)
    second = ledger.worker.take(holding.job_id)

    assert effects.intend(second).verdict == "unknown"

    assert ledger.worker.fail(second, TEMPORARY).state == "review"


def test_give_up__lets_the_outcome_come_after_a_replay_and_a_cancel(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    ledger.operator.resolve(holding.job_id, "give_up")
    ledger.operator.replay(holding.job_id)
    ledger.producer.cancel(holding.job_id)

    assert effects.happened(holding).verdict == "recorded"

    found = record(ledger, holding.job_id)
    assert (found["state"], found["effects"][0]["outcome"]["as"]) == ("cancelled", "happened")


def test_adopt__is_refused_while_an_effect_is_unknown(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    ledger.operator.resolve(holding.job_id, "give_up")
    assert ledger.worker.complete(holding).reason == "job_failed"

    refused = ledger.operator.adopt(holding)

    assert (refused["verdict"], refused["why"]) == ("refused", "what became of its effect charge is unknown")
    effects.happened(holding)
    assert ledger.operator.adopt(holding)["verdict"] == "adopted"


def test_reconciler__is_given_an_open_review_and_nobody_else_is(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    other = Effects(ledger.open("worker"))

    [review] = effects.ask("work", seconds=30)

    assert (review.job_id, review.asked, review.type) == (holding.job_id, 1, "work")
    assert review.effects[0]["key"] == f"{holding.job_id}/charge"
    assert other.ask("work") == []
    ledger.clock.advance(30)  # its worker has died
    assert [one.asked for one in other.ask("work")] == [2]
    assert effects.found(review, **{"as": "happened", "result": 1, "reference": "r"}).verdict == "superseded"


def test_reconciler__is_not_given_reviews_of_other_types(ledger: Ledger, effects: Effects) -> None:
    in_review(ledger, effects)

    assert effects.ask("once") == []


def test_it_happened__ends_the_job_with_its_result_and_reference(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    [review] = effects.ask("work")

    found_out = effects.found(review, **{"as": "happened", "result": {"paid": 9}, "reference": "psp 4711"})

    assert (found_out.verdict, found_out.state) == ("decided", "succeeded")
    found = record(ledger, holding.job_id)
    assert (found["state"], found["result"]) == ("succeeded", {"paid": 9})
    [closed] = found["reviews"]
    assert (closed["closed_by"], closed["reference"]) == ("reconciling", "psp 4711")
    assert found["effects"][0]["outcome"]["by"] == "reconciler"
    assert "reconciled" in events(ledger, holding.job_id)


def test_it_happened__lets_the_late_success_be_rejected(ledger: Ledger, effects: Effects) -> None:
    """It changes no row of a job that has ended for good; an error would fail all reports of its batch."""
    holding = in_review(ledger, effects)
    [review] = effects.ask("work")
    effects.found(review, **{"as": "happened", "result": 1, "reference": "r"})

    answer = ledger.worker.complete(holding)

    assert (answer.verdict, answer.reason) == ("rejected", "job_succeeded")


def test_it_did_not_happen__is_believed_only_after_the_calls_time_limit(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding, limit=20)
    ledger.worker.fail(holding, TEMPORARY)  # at once: the call may still be under way
    [review] = effects.ask("work")

    early = effects.found(review, **{"as": "did_not_happen", "why": "no such charge"})

    assert (early.verdict, early.state) == ("too_early", "review")
    assert effects.ask("work") == []
    ledger.clock.advance(20)
    [again] = effects.ask("work")
    late = effects.found(again, **{"as": "did_not_happen", "why": "no such charge"})
    assert (late.verdict, late.state) == ("decided", "queued")
    ledger.ring_again(holding.job_id)
    assert effects.grant(ledger.worker.take(holding.job_id)).try_ == 2


def test_it_did_not_happen__is_not_believed_of_a_look_before_the_limit_however_late_it_is_said(
    ledger: Ledger, effects: Effects
) -> None:
    """The outside was asked, then the call arrived there, then the answer came."""
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding, limit=20)
    ledger.worker.fail(holding, TEMPORARY)
    [review] = effects.ask("work")
    ledger.clock.advance(21)

    assert effects.found(review, **{"as": "did_not_happen"}).verdict == "too_early"

    [again] = effects.ask("work")
    assert effects.found(again, **{"as": "did_not_happen"}).verdict == "decided"


def test_it_did_not_happen__waits_for_a_call_whose_permission_was_asked_for_again(
    ledger: Ledger, effects: Effects
) -> None:
    """The answer was lost; the call of the second one begins later than the intent says."""
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding, limit=10)
    ledger.clock.advance(15)
    effects.grant(holding, limit=10)
    ledger.worker.fail(holding, TEMPORARY)
    [review] = effects.ask("work")

    assert effects.found(review, **{"as": "did_not_happen"}).verdict == "too_early"

    ledger.clock.advance(10)
    [again] = effects.ask("work")
    assert effects.found(again, **{"as": "did_not_happen"}).verdict == "decided"


def test_it_did_not_happen__obeys_a_cancel(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    ledger.producer.cancel(holding.job_id)
    [review] = effects.ask("work")

    assert effects.found(review, **{"as": "did_not_happen"}).state == "cancelled"


def test_it_did_not_happen__of_a_not_repeatable_type_waits_for_the_handlers_time_limit(
    ledger: Ledger, effects: Effects
) -> None:
    in_review(ledger, effects, kind="once")
    [review] = effects.ask("once")
    assert effects.found(review, **{"as": "did_not_happen"}).verdict == "too_early"

    ledger.clock.advance(600)

    [again] = effects.ask("once")
    assert effects.found(again, **{"as": "did_not_happen"}).state == "queued"


def test_still_unknown__is_asked_again_later_and_later(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    waits: list[float] = []
    for _ in range(4):
        [review] = effects.ask("work")
        assert effects.found(review, **{"as": "unknown", "why": "no answer"}).verdict == "noted"
        [(wait,)] = ledger.setting_up.sql(
            "select extract(epoch from ask_at - brokerjobs.clock()) from brokerjobs.review where id = %s",
            review.review_id,
        )
        waits.append(float(wait))
        assert effects.ask("work") == []
        ledger.clock.advance(waits[-1])

    assert waits == [10, 20, 40, 80]
    assert events(ledger, holding.job_id).count("reconciler_unknown") == 4


def test_finding__after_a_person_has_decided_changes_nothing(ledger: Ledger, effects: Effects) -> None:
    holding = in_review(ledger, effects)
    [review] = effects.ask("work")
    ledger.operator.resolve(holding.job_id, "give_up")

    answer = effects.found(review, **{"as": "happened", "result": 1, "reference": "r"})

    assert (answer.verdict, answer.state) == ("closed", "failed")


def test_retention__removes_effects_with_their_job(ledger: Ledger, effects: Effects) -> None:
    ledger.coordinator.sql("select brokerjobs.make_partitions(8)")
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)
    effects.happened(holding)
    ledger.worker.complete(holding)
    ledger.clock.advance(HORIZONS.succeeded.total_seconds() + DAY)

    remove(ledger.coordinator)

    for table in ("effect", "effect_intent", "job_state"):
        left = ledger.setting_up.sql("select count(*) from brokerjobs." + table + " where job_id = %s", holding.job_id)  # pyright: ignore[reportArgumentType]  # of these three
        assert left == [(0,)], table
