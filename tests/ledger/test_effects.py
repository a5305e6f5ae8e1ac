"""Effects in the ledger: intents, outcomes, and what an unknown one does to its job (design section 8, rule R8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.ledger.effects import Effects, events, record
from tests.ledger.ledger_caller import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger


@pytest.fixture
def effects(ledger: Ledger) -> Effects:
    return Effects(ledger.worker)


def test_intent__is_granted_to_the_running_attempt_and_again_to_the_same(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())

    first, again = effects.grant(holding), effects.grant(holding)

    assert first.key == f"{holding.job_id}/charge"
    assert (first.key, first.try_) == (again.key, again.try_)
    [effect] = record(ledger, holding.job_id)["effects"]
    assert [intent["attempt"] for intent in effect["intents"]] == [str(holding.attempt_id)]
    assert events(ledger, holding.job_id).count("effect_intent") == 1


def test_intent__is_refused_to_an_attempt_that_is_not_the_running_one(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)

    answer = effects.intend(holding)

    assert (answer.verdict, answer.reason, answer.try_) == ("lost", "lease_expired", None)
    assert record(ledger, holding.job_id)["effects"] == []


def test_intent__of_a_lost_attempt_that_holds_one_says_which(ledger: Ledger, effects: Effects) -> None:
    """So that a worker which asked, got no answer and never called can say that it did not happen."""
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)
    ledger.lose(holding)

    answer = effects.intend(holding)

    assert (answer.verdict, answer.try_) == ("lost", 1)


@pytest.mark.parametrize(("cancelled", "reason"), [(True, "job_cancelled"), (False, "deadline")])
def test_intent__is_refused_when_the_result_could_not_be_accepted(
    ledger: Ledger, effects: Effects, *, cancelled: bool, reason: str
) -> None:
    job = ledger.submit(deadline=None if cancelled else 5)
    holding = ledger.worker.take(job)
    if cancelled:
        ledger.producer.cancel(job)
    else:
        ledger.clock.advance(5)

    answer = effects.intend(holding)

    assert (answer.verdict, answer.reason) == ("lost", reason)


def test_intent__has_the_calls_time_limit_left_on_the_lease(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.clock.advance(25)

    answer = effects.grant(holding, limit=10)

    until = ledger.rows.state(holding.job_id).lease_until
    assert answer.lease_seconds == 30
    assert until == ledger.clock.after(30)


def test_intent__whose_call_may_take_longer_than_the_lease_is_refused(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())

    answer = effects.intend(holding, limit=31)

    assert (answer.verdict, answer.lease_seconds) == ("too_long", 30)


def test_outcome__that_is_recorded_is_answered_instead_of_a_grant(ledger: Ledger, effects: Effects) -> None:
    first = ledger.worker.take(ledger.submit())
    effects.grant(first)
    effects.happened(first, {"paid": 9})
    ledger.lose(first)
    ledger.ring_again(first.job_id)
    second = ledger.worker.take(first.job_id)

    answer = effects.intend(second)

    assert (answer.verdict, answer.result) == ("happened", '{"paid": 9}')
    assert ledger.worker.complete(second).verdict == "accepted"


def test_did_not_happen__gives_the_next_attempt_a_new_key(ledger: Ledger, effects: Effects) -> None:
    first = ledger.worker.take(ledger.submit())
    effects.grant(first)
    effects.did_not_happen(first)
    assert ledger.worker.fail(first).state == "queued"
    ledger.ring_again(first.job_id)
    second = ledger.worker.take(first.job_id)

    answer = effects.grant(second)

    assert (answer.key, answer.try_) == (f"{first.job_id}/charge/2", 2)


def two_with_one_key(ledger: Ledger, effects: Effects) -> tuple[Holding, Holding]:
    """Two attempts that were granted the same try of a repeatable effect: the first is lost, the second runs."""
    first = ledger.worker.take(ledger.submit())
    effects.grant(first, repeatable=True)
    ledger.lose(first)
    ledger.ring_again(first.job_id)
    second = ledger.worker.take(first.job_id)
    effects.grant(second, repeatable=True)
    return first, second


def test_did_not_happen__of_one_of_two_attempts_keeps_the_key(ledger: Ledger, effects: Effects) -> None:
    """The other may have called with it: a new key would do it a second time."""
    first, second = two_with_one_key(ledger, effects)
    ledger.lose(second)

    answers = [effects.did_not_happen(first).verdict for _ in range(2)]

    assert answers == ["recorded", "recorded"]
    found = record(ledger, first.job_id)
    assert found["effects"][0]["outcome"] is None
    assert [(one["attempt"], one["as"], one["reason"]) for one in found["late_reports"]] == [
        (str(first.attempt_id), "effect charge/1 did_not_happen", "one_of_several")
    ]
    assert events(ledger, first.job_id).count("effect_not_by_one") == 1
    ledger.ring_again(first.job_id)
    assert effects.grant(ledger.worker.take(first.job_id), repeatable=True).key == f"{first.job_id}/charge"


def test_did_not_happen__of_all_attempts_gives_a_new_key(ledger: Ledger, effects: Effects) -> None:
    first, second = two_with_one_key(ledger, effects)
    effects.did_not_happen(first)

    effects.did_not_happen(second)

    assert record(ledger, first.job_id)["effects"][0]["outcome"]["as"] == "did_not_happen"
    ledger.worker.fail(second)
    ledger.ring_again(first.job_id)
    assert effects.grant(ledger.worker.take(first.job_id), repeatable=True).try_ == 2


def test_did_not_happen__of_one_does_not_contradict_another_whose_call_happened(
    ledger: Ledger, effects: Effects
) -> None:
    first, second = two_with_one_key(ledger, effects)
    effects.happened(second)

    assert effects.did_not_happen(first).verdict == "recorded"
    assert ledger.worker.complete(second).verdict == "accepted"


def test_did_not_happen__of_the_attempt_that_said_it_happened_contradicts(ledger: Ledger, effects: Effects) -> None:
    first, _ = two_with_one_key(ledger, effects)
    effects.happened(first)

    assert effects.did_not_happen(first).verdict == "contradicts"


def test_repeatable__keeps_its_key_over_attempts(ledger: Ledger, effects: Effects) -> None:
    first = ledger.worker.take(ledger.submit())
    key = effects.grant(first, repeatable=True, valid_for=3600).key
    assert ledger.lose(first).state == "queued"
    ledger.ring_again(first.job_id)
    second = ledger.worker.take(first.job_id)

    assert effects.grant(second, repeatable=True, valid_for=3600).key == key
    assert effects.happened(second).verdict == "recorded"
    assert ledger.worker.complete(second).verdict == "accepted"


@pytest.mark.parametrize("change", ["expired", "no longer repeatable"])
def test_repeatable__goes_to_review_when_its_key_can_no_longer_be_relied_on(
    ledger: Ledger, effects: Effects, change: str
) -> None:
    first = ledger.worker.take(ledger.submit())
    effects.grant(first, repeatable=True, valid_for=100)
    ledger.lose(first)
    ledger.ring_again(first.job_id)
    if change == "expired":
        ledger.clock.advance(100)
    second = ledger.worker.take(first.job_id)

    answer = effects.intend(second, repeatable=change == "expired", valid_for=100)

    assert answer.verdict == "unknown"
    refused = ledger.worker.complete(second)  # even if its handler swallows that and returns
    assert (refused.verdict, refused.reason, refused.state) == ("rejected", "unknown_effect", "review")


def lost(ledger: Ledger, holding: Holding) -> None:
    ledger.lose(holding)


def raised(ledger: Ledger, holding: Holding) -> None:
    ledger.worker.fail(holding, TEMPORARY)


def time_limit(ledger: Ledger, holding: Holding) -> None:
    ledger.worker.fail(holding, TEMPORARY | {"classified": False, "type": "TimeLimitExceeded"})


def invalid(ledger: Ledger, holding: Holding) -> None:
    ledger.worker.fail(holding, {"class": "invalid", "classified": True, "type": "InvalidJob", "message": "…"})


def drained(ledger: Ledger, holding: Holding) -> None:
    ledger.worker.release(holding, "drain")


def snoozed(ledger: Ledger, holding: Holding) -> None:
    ledger.worker.snooze(holding, 60)


def cancelled(ledger: Ledger, holding: Holding) -> None:
    ledger.producer.cancel(holding.job_id)
    ledger.worker.fail(holding, TEMPORARY)


def past_deadline(ledger: Ledger, holding: Holding) -> None:
    ledger.clock.advance(20)
    ledger.worker.fail(holding, TEMPORARY)


def result(ledger: Ledger, holding: Holding) -> None:
    ledger.worker.complete(holding)


ENDINGS = [lost, raised, time_limit, invalid, drained, snoozed, cancelled, past_deadline, result]


@pytest.mark.parametrize("end", ENDINGS)
def test_unknown_unsafe_effect__sends_its_job_to_review_however_the_attempt_ends(
    ledger: Ledger, effects: Effects, end: Callable[[Ledger, Holding], None]
) -> None:
    holding = ledger.worker.take(ledger.submit(deadline=20))
    effects.grant(holding)

    end(ledger, holding)

    found = record(ledger, holding.job_id)
    assert found["state"] == "review"
    [review] = found["reviews"]
    assert "effect charge" in review["cause"]
    assert [one["unknown"] for one in found["effects"]] == [True]


@pytest.mark.parametrize("end", ENDINGS)
def test_known_effect__does_not(ledger: Ledger, effects: Effects, end: Callable[[Ledger, Holding], None]) -> None:
    holding = ledger.worker.take(ledger.submit(deadline=20))
    effects.grant(holding)
    effects.happened(holding)

    end(ledger, holding)

    assert record(ledger, holding.job_id)["reviews"] == []


@pytest.mark.parametrize("end", ENDINGS)
def test_unknown_repeatable_effect__does_not(
    ledger: Ledger, effects: Effects, end: Callable[[Ledger, Holding], None]
) -> None:
    holding = ledger.worker.take(ledger.submit(deadline=20))
    effects.grant(holding, repeatable=True)

    end(ledger, holding)

    assert record(ledger, holding.job_id)["reviews"] == []


def test_result_with_an_unknown_unsafe_effect__is_kept_with_the_review(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)

    refused = ledger.worker.complete(holding, {"answer": 42})

    assert (refused.verdict, refused.reason, refused.state) == ("rejected", "unknown_effect", "review")
    [attempt] = record(ledger, holding.job_id)["attempts"]
    assert attempt["result"] == {"answer": 42}


def test_complete_v1__with_an_unknown_unsafe_effect_raises(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)

    with pytest.raises(psycopg.DatabaseError) as refused:
        ledger.worker.complete_v1(holding)

    assert (refused.value.sqlstate, str(refused.value).splitlines()[0][-14:]) == ("BJ003", "unknown_effect")


def test_late_outcome__closes_the_review_and_the_late_success_is_accepted(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)
    ledger.lose(holding)
    assert ledger.rows.state(holding.job_id).state == "review"

    known = effects.happened(holding)

    assert (known.verdict, known.late) == ("recorded", True)
    found = record(ledger, holding.job_id)
    assert (found["state"], found["waiting"]["for"]) == ("queued", "retry")
    assert [review["closed_by"] for review in found["reviews"]] == ["effect_known"]
    accepted = ledger.worker.complete(holding)
    assert (accepted.verdict, accepted.late) == ("accepted", True)


@pytest.mark.parametrize("outcome", ["happened", "did_not_happen"])
def test_late_outcome__of_a_job_to_be_cancelled_ends_it(ledger: Ledger, effects: Effects, outcome: str) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)
    ledger.lose(holding)
    ledger.producer.cancel(holding.job_id)

    getattr(effects, outcome)(holding)

    assert ledger.rows.state(holding.job_id).state == "cancelled"


def test_late_outcome__leaves_the_job_of_a_not_repeatable_type_in_review(ledger: Ledger, effects: Effects) -> None:
    """The effect is known; what else its handler did is not."""
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(holding)
    effects.grant(holding)
    ledger.lose(holding)

    effects.happened(holding)

    state = ledger.rows.state(holding.job_id)
    assert state.state == "review"
    assert record(ledger, holding.job_id)["effects"][0]["outcome"]["as"] == "happened"


def test_two_unknown_effects__need_two_outcomes(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding, "charge")
    effects.grant(holding, "mail")
    ledger.lose(holding)

    effects.happened(holding, name="charge")
    assert ledger.rows.state(holding.job_id).state == "review"
    effects.happened(holding, name="mail")

    assert ledger.rows.state(holding.job_id).state == "queued"


def test_effect_that_was_unknown__and_became_known_before_its_attempt_ended_needs_no_review(
    ledger: Ledger, effects: Effects
) -> None:
    first = ledger.worker.take(ledger.submit())
    effects.grant(first, repeatable=True)
    ledger.lose(first)
    ledger.ring_again(first.job_id)
    second = ledger.worker.take(first.job_id)
    assert effects.intend(second, repeatable=False).verdict == "unknown"
    effects.happened(first)

    ended = ledger.worker.fail(second, {**TEMPORARY, "class": "unsafe", "type": "EffectUnknown"})

    assert (ended.verdict, ended.state) == ("recorded", "queued")


def test_outcome__fills_once_and_the_same_again_is_the_same_answer(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)

    first, again = effects.happened(holding), effects.happened(holding)

    assert first == again
    assert events(ledger, holding.job_id).count("effect_happened") == 1


@pytest.mark.parametrize("finished", [True, False])
def test_outcome__that_contradicts_is_kept_and_the_job_goes_to_review(
    ledger: Ledger, effects: Effects, *, finished: bool
) -> None:
    first = ledger.worker.take(ledger.submit())
    effects.grant(first, repeatable=True)
    ledger.lose(first)
    ledger.ring_again(first.job_id)
    second = ledger.worker.take(first.job_id)
    effects.grant(second, repeatable=True)
    effects.happened(second, "one receipt")
    if finished:
        ledger.worker.complete(second)

    answers = [effects.happened(first, "another receipt") for _ in range(2)]

    assert {answer.verdict for answer in answers} == {"contradicts"}
    ended = ledger.worker.complete(second)
    found = record(ledger, first.job_id)
    assert found["state"] == ("succeeded" if finished else "review")
    assert ended.verdict == ("accepted" if finished else "rejected")
    [effect] = found["effects"]
    assert effect["outcome"]["result"] == "one receipt"
    assert effect["contradicted_at"] is not None
    assert [(one["as"], one["reason"], one["result"]) for one in found["late_reports"]] == [
        ("effect charge/1 happened", "contradicts", "another receipt")
    ]


def test_outcome__without_an_intent_is_only_evidence(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())

    answer = effects.happened(holding)

    assert answer.verdict == "no_intent"
    assert [one["reason"] for one in record(ledger, holding.job_id)["late_reports"]] == ["no_intent"]


def test_outcome__with_another_fencing_number_is_only_evidence(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)
    forged = type(holding)(holding.job_id, holding.attempt_id, holding.fencing_number + 1)

    assert effects.happened(forged).verdict == "no_intent"
    assert record(ledger, holding.job_id)["effects"][0]["outcome"] is None


def test_a_busy_row__is_answered_locked(ledger: Ledger, effects: Effects) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)
    ledger.setting_up.begin()
    ledger.setting_up.sql("select from brokerjobs.job_state where job_id = %s for update", holding.job_id)

    answers = effects.intend(holding).verdict, effects.happened(holding).verdict
    ledger.setting_up.rollback()

    assert answers == ("locked", "locked")


CHANGES: list[Any] = [
    "name = 'x'",
    "try = 2",
    "key = 'x'",
    "valid_until = now()",
    "made_at = now()",
    "repeatable = true",
    "outcome = 'did_not_happen'",
    "outcome = null, known_at = null, known_by = null",
    "known_at = now()",
    "observed_known_at = now()",
    "known_by = 'review'",
    "attempt_id = null",
    "late = not late",
    "result = '1'",
    "reference = 'x'",
]


@pytest.mark.parametrize("change", CHANGES)
def test_effect__that_is_known_is_never_rewritten(ledger: Ledger, effects: Effects, change: str) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects.grant(holding)
    effects.happened(holding)

    with pytest.raises(psycopg.DatabaseError) as refused:
        ledger.owner.execute(f"update brokerjobs.effect set {change} where job_id = %s".encode(), [holding.job_id])

    assert refused.value.sqlstate == "BJ004"


@pytest.mark.parametrize(
    "statement", ["update brokerjobs.effect_intent set at = now()", "delete from brokerjobs.effect_intent"]
)
def test_intent__is_never_rewritten(ledger: Ledger, effects: Effects, statement: str) -> None:
    effects.grant(ledger.worker.take(ledger.submit()))

    with pytest.raises(psycopg.DatabaseError) as refused:
        ledger.owner.execute(statement.encode())

    assert refused.value.sqlstate == "BJ004"
