"""Exclusive resources and limits: taken with the claim, free when the holder's attempt is closed (rule R1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from uuid_utils.compat import uuid7

from brokerjobs import needs
from tests.ledger.invariants import violations
from tests.ledger.needing import beat, holders, in_line, needing, rings

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


def test_resource__is_held_by_one_attempt_until_it_closes(ledger: Ledger) -> None:
    first, second = needing(ledger, "account"), needing(ledger, "account")
    beat(ledger, ledger.worker)
    held = ledger.worker.take(first)

    busy = ledger.worker.claim(second)

    assert (busy.verdict, busy.state) == ("resource", "queued")
    assert holders(ledger, "account") == [first]
    assert ledger.rows.state(second).waiting == "resource"
    ledger.worker.complete(held)
    assert rings(ledger, second) == 1
    assert ledger.worker.claim(second).verdict == "granted"
    assert holders(ledger, "account") == [second]


def test_resource__is_told_as_not_due_to_a_worker_that_does_not_know_the_word(ledger: Ledger) -> None:
    first, second = needing(ledger, "account"), needing(ledger, "account")
    ledger.worker.take(first)

    assert ledger.worker.claim(second).verdict == "not_due"
    assert ledger.rows.state(second).waiting == "resource"


@pytest.mark.parametrize("how", ["fail", "release", "lose", "cancel", "deadline", "complete_v1"])
def test_resource__is_free_however_its_attempt_ends(ledger: Ledger, how: str) -> None:
    first = needing(ledger, "account", deadline=20 if how == "deadline" else None)
    second = needing(ledger, "account")
    held = ledger.worker.take(first)
    ledger.worker.claim(second)

    match how:
        case "fail":
            ledger.worker.fail(held)
        case "release":
            ledger.worker.release(held)
        case "lose":
            ledger.lose(held)
        case "cancel":
            ledger.producer.cancel(first)
            ledger.worker.complete(held)
        case "complete_v1":
            ledger.worker.complete_v1(held)
        case _:
            ledger.clock.advance(20)
            ledger.coordinator.due()

    assert holders(ledger, "account") == []
    assert rings(ledger, second) == 1
    assert ledger.worker.claim(second).verdict == "granted"
    assert violations(ledger.owner, [first, second]) == []


def test_resource__may_be_taken_again_by_the_same_job(ledger: Ledger) -> None:
    job = needing(ledger, "account")
    first = ledger.worker.take(job)
    ledger.worker.release(first)

    second = ledger.worker.take(job)

    assert second.fencing_number > first.fencing_number
    assert holders(ledger, "account") == [job]


def test_resource__is_granted_again_to_who_lost_the_reply(ledger: Ledger) -> None:
    job, attempt = needing(ledger, "account"), uuid7()
    first = ledger.worker.claim(job, attempt)

    again = ledger.worker.claim(job, attempt)

    assert (again.verdict, again.fencing_number) == ("granted", first.fencing_number)


def test_resource__goes_to_one_of_a_batch(ledger: Ledger) -> None:
    jobs = [needing(ledger, "account") for _ in range(3)]

    answers = ledger.worker.claim_all([(job, uuid7()) for job in jobs])

    assert [a.verdict for a in answers] == ["granted", "not_due", "not_due"]
    assert in_line(ledger, "account") == jobs[1:]


def test_limit__is_never_exceeded_in_a_batch_or_by_several(ledger: Ledger) -> None:
    jobs = [needing(ledger, needs.limit("smtp", 3)) for _ in range(6)]

    together = ledger.worker.claim_all([(job, uuid7()) for job in jobs[:2]])
    alone = [ledger.open().claim(job) for job in jobs[2:]]

    assert [a.verdict for a in (*together, *alone)] == ["granted"] * 3 + ["not_due"] * 3
    assert sorted(holders(ledger, "smtp")) == sorted(jobs[:3])


def test_limit__that_jobs_disagree_on_lets_the_stricter_one_have_its_turn(ledger: Ledger) -> None:
    """It needs the resource alone: those who come after it wait, although there would be room for them."""
    first = needing(ledger, needs.limit("smtp", 3))
    alone = needing(ledger, "smtp")
    later = needing(ledger, needs.limit("smtp", 3))
    held = ledger.worker.take(first)
    assert ledger.worker.claim(alone).verdict == "not_due"

    assert ledger.worker.claim(later).verdict == "not_due"

    ledger.worker.complete(held)
    assert (rings(ledger, alone), rings(ledger, later)) == (1, 0)
    assert ledger.worker.claim(alone).verdict == "granted"
    assert holders(ledger, "smtp") == [alone]


def test_numbers__grow_with_every_holder_whatever_the_clock_says(ledger: Ledger) -> None:
    jobs = [needing(ledger, needs.limit("smtp", 2)) for _ in range(3)]
    numbers: list[int] = []
    for job in jobs:
        held = ledger.worker.take(job)
        numbers.append(held.fencing_number)
        if len(numbers) > 1:
            ledger.worker.complete(held)

    assert numbers[0] < numbers[1] < numbers[2]


def test_numbers__are_larger_than_those_of_a_server_whose_clock_was_ahead(ledger: Ledger) -> None:
    job = needing(ledger, "account")
    ahead = ledger.rows.scalar(
        "update brokerjobs.resource set fencing_number = 9000000000000000 where namespace = %s"
        " returning fencing_number",
        [ledger.place.namespace],
        of=int,
    )

    assert ledger.worker.take(job).fencing_number == ahead + 1


def test_success__that_comes_late_is_accepted_while_nobody_has_taken_the_resource(ledger: Ledger) -> None:
    job = needing(ledger, "account")
    held = ledger.worker.take(job)
    ledger.lose(held)

    answer = ledger.worker.complete(held)

    assert (answer.verdict, answer.late) == ("accepted", True)
    assert violations(ledger.owner, [job]) == []


@pytest.mark.parametrize("released", [False, True], ids=["while another holds it", "after another held it"])
def test_success__of_a_former_holder_is_rejected_once_another_has_taken_the_resource(
    ledger: Ledger, *, released: bool
) -> None:
    job, other = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(job)
    ledger.lose(held)
    second = ledger.worker.take(other)
    if released:
        ledger.worker.complete(second)
    before = ledger.rows.state(job)

    answer = ledger.worker.complete(held)

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", "resource_taken", "queued")
    assert ledger.worker.complete(held) == answer
    after = ledger.rows.state(job)
    assert (after.waiting, after.wait_until, after.charged) == (before.waiting, before.wait_until, before.charged)
    attempt = ledger.rows.attempt(held.attempt_id)
    assert (attempt.verdict_reason, attempt.result, attempt.shown) == (
        "resource_taken",
        {"done": True},
        "rejected_stale",
    )
    assert violations(ledger.owner, [job, other]) == []


def test_transaction__of_a_former_holder_cannot_commit_once_another_has_taken_the_resource(ledger: Ledger) -> None:
    job, other = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(job)
    ledger.lose(held)
    ledger.worker.take(other)

    with pytest.raises(psycopg.Error, match="stale: resource_taken") as raised:
        ledger.worker.complete_v1(held)
    assert raised.value.sqlstate == "BJ003"
    with pytest.raises(psycopg.Error, match="stale: lease_expired"):
        ledger.worker.fence_v1(held)


def test_success__of_a_review_is_rejected_once_another_has_taken_the_resource(ledger: Ledger) -> None:
    job, other = needing(ledger, "account", kind="once"), needing(ledger, "account")
    held = ledger.worker.take(job)
    ledger.worker.start(held)
    ledger.lose(held)
    ledger.worker.take(other)

    answer = ledger.worker.complete(held)

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", "resource_taken", "review")
    resolved = ledger.operator.resolve(job, "happened")
    assert (resolved["verdict"], resolved["state"]) == ("decided", "succeeded")


def test_adopt__is_refused_once_another_has_taken_the_resource(ledger: Ledger) -> None:
    ledger.declare("work", attempts=1)
    job, other = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(job)
    ledger.lose(held)
    ledger.ring_again(job)
    assert ledger.worker.complete(held).reason == "job_failed"
    ledger.worker.take(other)

    answer = ledger.operator.adopt(held)

    assert (answer["verdict"], answer["why"]) == ("refused", "another attempt has taken its resource since")


def test_claim__of_a_lost_holder_lets_the_next_of_the_same_batch_take_the_resource(ledger: Ledger) -> None:
    """The claim takes the reaper's step: what it closes is closed when it commits, and nothing can come between."""
    first, second = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(first)
    ledger.clock.advance(31)

    answers = ledger.worker.claim_all([(first, uuid7()), (second, uuid7())])

    assert [a.verdict for a in answers] == ["not_due", "granted"]
    assert ledger.worker.complete(held).reason == "resource_taken"


def test_claim__does_not_take_a_resource_whose_holder_only_looks_lost(ledger: Ledger) -> None:
    first, second = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(first)
    ledger.clock.advance(31)

    assert ledger.worker.claim(second).verdict == "not_due"
    assert ledger.worker.complete(held).verdict == "accepted"


def test_claim__answers_locked_while_another_is_at_the_resource(ledger: Ledger) -> None:
    first, second = needing(ledger, "account"), needing(ledger, "account")
    other = ledger.open()
    other.begin()
    other.claim(first)

    assert ledger.worker.claim(second).verdict == "locked"
    assert ledger.rows.state(second).waiting == "delivery"
    other.rollback()
    assert ledger.worker.claim(second).verdict == "granted"


def test_complete__answers_locked_while_another_is_at_the_resource(ledger: Ledger) -> None:
    first, second = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(first)
    other = ledger.open()
    other.begin()
    other.claim(second)

    assert ledger.worker.complete(held).verdict == "locked"
    other.commit()
    assert ledger.worker.complete(held).verdict == "accepted"


def test_effect__is_granted_to_no_attempt_whose_resource_another_has_taken(ledger: Ledger) -> None:
    """Such an attempt is closed, and only a running one is granted an intent: no look at resources is needed."""
    job, other = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(job)
    ledger.lose(held)
    ledger.worker.take(other)

    ((*_, verdict, reason),) = ledger.worker.sql(
        "select e.verdict, e.reason from brokerjobs.effect_intent(array[%s]::uuid[], array[%s]::uuid[],"
        " array[%s]::bigint[], '{charge}', '{f}', '{60}', '{5}', array[now()]) e",
        held.job_id,
        held.attempt_id,
        held.fencing_number,
    )

    assert (verdict, reason) == ("lost", "lease_expired")
