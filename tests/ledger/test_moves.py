"""Every allowed move of a job, driven through the ledger's functions, and every forbidden one, tried by its owner."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.rules.states import FINAL, FINISHED, JOB_MOVES, JobState, is_allowed
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

QUEUED, RUNNING, REVIEW = JobState.QUEUED, JobState.RUNNING, JobState.REVIEW
SUCCEEDED, FAILED, CANCELLED = JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED


def claim(ledger: Ledger) -> UUID:
    return ledger.worker.take(ledger.submit()).job_id


def no_handler(ledger: Ledger) -> UUID:
    job = ledger.submit()
    assert ledger.worker.claim(job, types=["other"]).verdict == "no_handler"
    return job


def become_due(ledger: Ledger) -> UUID:
    job = retry(ledger)
    ledger.ring_again(job)
    return job


def late_success(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.worker.complete(holding)
    return holding.job_id


def deadline_while_queued(ledger: Ledger) -> UUID:
    job = ledger.submit(deadline=5)
    ledger.clock.advance(5)
    assert ledger.coordinator.due()[job] == "failed"
    return job


def deadline_at_claim(ledger: Ledger) -> UUID:
    job = ledger.submit(deadline=5)
    ledger.clock.advance(5)
    assert ledger.worker.claim(job).verdict == "finished"
    return job


def exhausted_one_lease_later(ledger: Ledger) -> UUID:
    ledger.declare("work", attempts=1)
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.clock.advance(30)
    assert ledger.coordinator.due()[holding.job_id] == "failed"
    return holding.job_id


def cancel(ledger: Ledger) -> UUID:
    job = ledger.submit()
    assert ledger.producer.cancel(job).verdict == "cancelled"
    return job


def complete(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.complete(holding)
    return holding.job_id


def complete_in_own_transaction(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.complete_v1(holding)
    return holding.job_id


def retry(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit(rung=True))
    ledger.worker.fail(holding)
    return holding.job_id


def lost(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    return holding.job_id


def lost_seen_by_a_claim(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.clock.advance(30)
    assert ledger.open().claim(holding.job_id).verdict == "not_due"
    return holding.job_id


def release(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.release(holding)
    return holding.job_id


def snooze(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.snooze(holding, 60)
    return holding.job_id


def not_here(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.release(holding, "not_here")
    return holding.job_id


def unknown_outcome(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.fail(holding, {**TEMPORARY, "class": "unsafe"})
    return holding.job_id


def lost_after_its_start(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(holding)
    ledger.lose(holding)
    return holding.job_id


def fail_as(failure_class: str) -> Callable[[Ledger], UUID]:
    def fail(ledger: Ledger) -> UUID:
        holding = ledger.worker.take(ledger.submit())
        ledger.worker.fail(holding, {**TEMPORARY, "class": failure_class})
        return holding.job_id

    return fail


def exhausted(ledger: Ledger) -> UUID:
    ledger.declare("work", attempts=1)
    return fail_as("temporary")(ledger)


def deadline_while_running(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit(deadline=5))
    ledger.clock.advance(5)
    ledger.worker.fail(holding)
    return holding.job_id


def result_past_the_deadline(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit(deadline=5))
    ledger.clock.advance(5)
    ledger.worker.complete(holding)
    return holding.job_id


def cancel_seen_at_the_end(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.producer.cancel(holding.job_id)
    ledger.worker.fail(holding)
    return holding.job_id


def cancel_seen_when_lost(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit())
    ledger.producer.cancel(holding.job_id)
    ledger.lose(holding)
    return holding.job_id


def late_success_in_review(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(holding)
    ledger.lose(holding)
    ledger.worker.complete(holding)
    return holding.job_id


def decided(decision: str) -> Callable[[Ledger], UUID]:
    def decide(ledger: Ledger) -> UUID:
        job = unknown_outcome(ledger)
        assert ledger.operator.resolve(job, decision)["verdict"] == "decided"
        return job

    decide.__name__ = decision
    return decide


def retry_past_the_deadline(ledger: Ledger) -> UUID:
    holding = ledger.worker.take(ledger.submit(deadline=5))
    ledger.worker.fail(holding, {**TEMPORARY, "class": "unsafe"})
    ledger.clock.advance(5)
    assert ledger.operator.resolve(holding.job_id, "retry")["state"] == "failed"
    return holding.job_id


def retry_with_a_cancel_noted(ledger: Ledger) -> UUID:
    job = unknown_outcome(ledger)
    assert ledger.producer.cancel(job).verdict == "requested"
    assert ledger.operator.resolve(job, "retry")["state"] == "cancelled"
    return job


def replay(ledger: Ledger) -> UUID:
    job = fail_as("invalid")(ledger)
    assert ledger.operator.replay(job) == ["replayed"]
    return job


def adopt(ledger: Ledger) -> UUID:
    ledger.declare("work", attempts=1)
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.clock.advance(30)
    ledger.coordinator.due()
    assert ledger.worker.complete(holding).reason == "job_failed"
    assert ledger.operator.adopt(holding)["verdict"] == "adopted"
    return holding.job_id


# Every way that leads over each edge, and the reason that the job's record gives for it.
DRIVEN: dict[tuple[JobState, JobState], list[Callable[[Ledger], UUID]]] = {
    (QUEUED, RUNNING): [claim],
    (QUEUED, QUEUED): [no_handler, become_due],
    (QUEUED, SUCCEEDED): [late_success],
    (QUEUED, FAILED): [deadline_while_queued, deadline_at_claim, exhausted_one_lease_later],
    (QUEUED, CANCELLED): [cancel],
    (RUNNING, SUCCEEDED): [complete, complete_in_own_transaction],
    (RUNNING, QUEUED): [retry, lost, lost_seen_by_a_claim, release, snooze, not_here],
    (RUNNING, REVIEW): [unknown_outcome, lost_after_its_start],
    (RUNNING, FAILED): [
        fail_as("invalid"),
        fail_as("policy"),
        exhausted,
        deadline_while_running,
        result_past_the_deadline,
    ],
    (RUNNING, CANCELLED): [cancel_seen_at_the_end, cancel_seen_when_lost],
    (REVIEW, SUCCEEDED): [late_success_in_review, decided("happened")],
    (REVIEW, QUEUED): [decided("retry")],
    (REVIEW, FAILED): [decided("give_up"), retry_past_the_deadline],
    (REVIEW, CANCELLED): [retry_with_a_cancel_noted],
    (FAILED, QUEUED): [replay],
    (FAILED, SUCCEEDED): [adopt],
}
WAYS = [
    pytest.param(move, way, id=f"{move[0]}-{move[1]}-{way.__name__}") for move, ways in DRIVEN.items() for way in ways
]


def test_moves__are_all_driven() -> None:
    assert set(DRIVEN) == set(JOB_MOVES)


@pytest.mark.parametrize(("move", "way"), WAYS)
def test_moves__are_made_and_recorded(
    ledger: Ledger, move: tuple[JobState, JobState], way: Callable[[Ledger], UUID]
) -> None:
    job = way(ledger)

    states = [JobState(event.state) for event in ledger.rows.events(job) if event.state is not None]
    assert (states[0], JobState(ledger.rows.state(job).state)) == (QUEUED, move[1])
    assert move in set(pairwise(states))
    assert all(before == after or is_allowed(before, after) for before, after in pairwise(states))


@pytest.mark.parametrize(("move", "way"), WAYS)
def test_moves__leave_a_ring_a_timer_or_an_end(
    ledger: Ledger, move: tuple[JobState, JobState], way: Callable[[Ledger], UUID]
) -> None:
    """Rule R4: a claimable job has a doorbell, a waiting one a time, a failed one its dead letter, a review its row."""
    job = way(ledger)

    state = ledger.rows.state(job)
    dead, rings = ledger.rows.outbox(job, "dead"), ledger.rows.outbox(job)
    # A dead letter is dropped when it is published after its job has left that state.
    assert len(dead) == (1 if state.state == FAILED or move[0] == FAILED else 0)
    assert violations(ledger.owner, [job]) == []
    if state.state == QUEUED:
        assert rings if state.waiting == "delivery" else state.wait_until is not None
    if state.state == REVIEW:
        assert [review.closed_at for review in ledger.rows.reviews(job)] == [None]
    assert (state.finished_at is not None) == (state.state in FINISHED)


_IN_STATE: dict[JobState, Callable[[Ledger], UUID]] = {
    QUEUED: release,
    RUNNING: claim,
    REVIEW: unknown_outcome,
    SUCCEEDED: complete,
    FAILED: fail_as("invalid"),
    CANCELLED: cancel,
}
_FORCE = """
update brokerjobs.job_state set state = %(to)s,
    waiting = case when %(to)s = 'queued' then 'delivery' end,
    lease_until = case when %(to)s = 'running' then brokerjobs.clock() end,
    finished_at = case when %(to)s in ('succeeded', 'failed', 'cancelled') then brokerjobs.clock() end,
    accepted_attempt_id = case when %(to)s = 'succeeded' then gen_random_uuid() end,
    failure_class = case when %(to)s = 'failed' then 'invalid' end
  where job_id = %(job)s
"""


@pytest.mark.parametrize("after", JobState)
@pytest.mark.parametrize("before", JobState)
def test_moves__that_are_forbidden_are_refused_even_to_the_owner(
    ledger: Ledger, before: JobState, after: JobState
) -> None:
    job = _IN_STATE[before](ledger)
    assert ledger.rows.state(job).state == before

    if before not in FINAL and (before == after or is_allowed(before, after)):
        ledger.owner.execute(_FORCE, {"to": after.value, "job": job})
        assert ledger.rows.state(job).state == after
    else:
        with pytest.raises(psycopg.DatabaseError) as refused:
            ledger.owner.execute(_FORCE, {"to": after.value, "job": job})
        assert refused.value.sqlstate == "BJ004"
        assert ledger.rows.state(job).state == before


@pytest.mark.parametrize("column", ["fencing_number", "number"])
def test_state__never_counts_back(ledger: Ledger, column: str) -> None:
    job = claim(ledger)
    update = f"update brokerjobs.job_state set {column} = {column} - 1 where job_id = %s"

    with pytest.raises(psycopg.DatabaseError) as refused:
        ledger.owner.execute(update.encode(), [job])

    assert refused.value.sqlstate == "BJ004"
