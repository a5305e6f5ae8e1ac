"""Failed jobs: grouped by how they failed, replayed, discarded, or given the success that came late."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from psycopg import errors

from brokerjobs.ledger import decisions
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import RESULT, TEMPORARY, asking

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

INVALID = {**TEMPORARY, "class": "invalid"}


def failed(ledger: Ledger, message: str = "no such account", kind: str = "work", **failure: Any) -> Holding:
    holding = ledger.worker.take(ledger.submit(kind))
    answer = ledger.worker.fail(holding, {**INVALID, "message": message, **failure})
    assert answer.state == "failed", answer
    return holding


def lost_for_good(ledger: Ledger) -> Holding:
    ledger.declare("work", attempts=1)
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.clock.advance(30)
    assert ledger.coordinator.due()[holding.job_id] == "failed"
    return holding


def test_groups__are_jobs_of_a_type_that_failed_in_the_same_way(ledger: Ledger) -> None:
    first = failed(ledger, "account 17 of order 01a228e1-4445-7002-ae13-6846b66c6ebf is gone").job_id
    first_at = ledger.clock.now
    ledger.clock.advance(60)
    failed(ledger, "account 4711 of\n order 99999999-4445-7002-ae13-6846b66c6ebf is gone")
    last = failed(ledger, "account 3 of order ffffffff-4445-7002-ae13-6846b66c6ebf is gone").job_id
    last_at = ledger.clock.now
    ledger.clock.advance(60)
    apart = failed(ledger, "account 3 is closed"), failed(ledger, "account 3 is closed", type="OtherError")
    other = failed(ledger, "account 3 is closed", kind="once")

    groups = ledger.operator.groups()

    assert [group.jobs for group in groups] == [1, 1, 1, 3]
    assert {group.example for group in groups[:3]} == {one.job_id for one in (*apart, other)}
    group = groups[3]
    assert (group.first_at, group.last_at, group.example) == (first_at, last_at, last)
    assert (group.namespace, group.type) == (ledger.place.namespace, "work")
    assert (group.failure_class, group.error_type) == ("invalid", "TemporaryFailure")
    assert group.message == "account <n> of order <id> is gone"
    jobs = ledger.operator.fetch(decisions.dead_jobs(group.group_id, None, 2))
    rest = ledger.operator.fetch(decisions.dead_jobs(group.group_id, jobs[-1].job_id, 2))
    assert [one.job_id for one in (*jobs, *rest)][::2] == [first, last]
    assert jobs[0].message == "account 17 of order 01a228e1-4445-7002-ae13-6846b66c6ebf is gone"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("timeout after 30.5s", "timeout after <n>s"),
        ("object at 0x7f3a2b4c5d6e", "object at <hex>"),
        ("blob 9f86d081884c7d659a2feaa0c55ad015", "blob <hex>"),
        ("the facade is effaced", "the facade is effaced"),
        ("  two\n\tlines ", "two lines"),
        ("", ""),
        ("x" * 5_000, "x" * 200),
        ("1" * 5_000, "<hex>"),
        ("a'; drop table brokerjobs.dead; --", "a'; drop table brokerjobs.dead; --"),
    ],
)
def test_group__leaves_out_what_differs_from_job_to_job(ledger: Ledger, message: str, kind: str) -> None:
    assert ledger.owner.execute("select brokerjobs.without_particulars(%s)", [message]).fetchone() == (kind,)


def test_groups__tell_lost_jobs_and_passed_deadlines_from_others(ledger: Ledger) -> None:
    lost_for_good(ledger)
    ledger.submit(deadline=5)
    ledger.clock.advance(5)
    ledger.coordinator.due()

    late, lost = ledger.operator.groups()

    assert (late.failure_class, late.error_type, late.message) == ("deadline", None, "the deadline passed")
    assert (lost.failure_class, lost.error_type) == ("exhausted", "lease expired")


def test_replay__lets_the_same_job_run_again_with_its_history_and_all_its_attempts(ledger: Ledger) -> None:
    ledger.declare("work", attempts=2, elapsed=timedelta(hours=1), first_delay=timedelta(seconds=1))
    job = failed(ledger).job_id
    ledger.clock.advance(7200)

    assert ledger.operator.replay(job) == ["replayed"]

    state = ledger.rows.state(job)
    assert (state.state, state.waiting, state.failure_class, state.finished_at) == ("queued", "delivery", None, None)
    assert len(ledger.rows.outbox(job)) == 2
    (event,) = ledger.rows.events(job, "replayed")
    assert {"by": "ann", "login": "brokerjobs_test_operator", "reason": "looked into it"}.items() <= (
        event.detail or {}
    ).items()
    retried = ledger.worker.fail(ledger.worker.take(job), TEMPORARY)
    assert retried.state == "queued"
    assert retried.until is not None
    assert retried.until <= ledger.clock.after(1)  # the back-off begins anew
    ledger.ring_again(job)
    assert ledger.worker.fail(ledger.worker.take(job), TEMPORARY).state == "failed"
    record = ledger.producer.record(job)
    assert [one["number"] for one in record["attempts"]] == [1, 2, 3]
    assert (record["charged"], record["forgiven"], record["granted"]) == (3, 1, 2)
    assert ledger.rows.state(job).failure_reason == "2 of 2 attempts used"
    assert violations(ledger.owner, [job]) == []


def test_replay__grants_as_many_attempts_as_are_said(ledger: Ledger) -> None:
    job = failed(ledger).job_id

    ledger.operator.replay(job, attempts=1)

    assert ledger.worker.fail(ledger.worker.take(job), TEMPORARY).state == "failed"
    assert ledger.rows.state(job).failure_reason == "1 of 1 attempts used"


@pytest.mark.parametrize("attempts", [0, 101, -1])
def test_replay__grants_no_more_than_a_type_may_have(ledger: Ledger, attempts: int) -> None:
    with pytest.raises(errors.InvalidParameterValue, match="1 to 100 attempts"):
        ledger.operator.replay(failed(ledger).job_id, attempts=attempts)


def test_replay__fences_off_every_earlier_attempt(ledger: Ledger) -> None:
    holding = lost_for_good(ledger)
    ledger.operator.replay(holding.job_id)

    answer = ledger.worker.complete(holding)

    assert (answer.verdict, answer.reason) == ("rejected", "decided")
    assert ledger.worker.take(holding.job_id).fencing_number > holding.fencing_number
    assert ledger.worker.complete(holding) == answer
    assert violations(ledger.owner, [holding.job_id]) == []


def test_replay__asked_twice_with_one_request_grants_once(ledger: Ledger) -> None:
    job, request = failed(ledger).job_id, asking()
    assert ledger.operator.replay(job, request=request) == ["replayed"]
    ledger.worker.fail(ledger.worker.take(job), INVALID)

    assert ledger.operator.replay(job, request=request) == ["replayed, repeated"]
    assert ledger.rows.state(job).state == "failed"
    assert ledger.operator.replay(job, request=request, attempts=7) == ["request_reused"]
    assert ledger.operator.replay(job) == ["replayed"]
    assert len(ledger.rows.events(job, "replayed")) == 2


def test_replay__twice_in_one_batch_is_done_once(ledger: Ledger) -> None:
    job = failed(ledger).job_id

    assert ledger.operator.replay(job, job) == ["replayed", "replayed, repeated"]


def test_replay__of_what_has_not_failed_is_refused(ledger: Ledger) -> None:
    running = ledger.worker.take(ledger.submit()).job_id

    assert ledger.operator.replay(ledger.submit(), running, uuid4()) == ["refused", "refused", "unknown"]


def test_replay__waits_for_nobody(ledger: Ledger) -> None:
    first, second = failed(ledger).job_id, failed(ledger).job_id
    other = ledger.open("operator")
    other.begin()
    other.discard(first)

    assert ledger.operator.replay(first, second) == ["locked", "replayed"]
    other.rollback()


def test_replay__past_the_deadline_needs_a_new_one(ledger: Ledger) -> None:
    job = ledger.submit(deadline=5)
    ledger.clock.advance(5)
    ledger.coordinator.due()

    assert ledger.operator.replay(job) == ["deadline"]
    assert ledger.operator.replay(job, deadline=timedelta(minutes=1)) == ["replayed"]
    assert ledger.worker.claim(job).deadline == ledger.clock.after(60)
    record = ledger.producer.record(job)
    assert record["deadline"] == f"{ledger.clock.after(60):%Y-%m-%dT%H:%M:%S.%fZ}"
    for span in (timedelta(seconds=-1), timedelta(days=366)):
        with pytest.raises(errors.InvalidParameterValue, match="within a year"):
            ledger.operator.replay(job, deadline=span)


def test_replay__withdraws_a_cancel_that_was_noted_in_its_review(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.fail(holding, {**TEMPORARY, "class": "unsafe"})
    ledger.producer.cancel(holding.job_id)
    ledger.operator.resolve(holding.job_id, "give_up")

    assert ledger.operator.replay(holding.job_id) == ["replayed"]

    assert ledger.worker.complete(ledger.worker.take(holding.job_id)).verdict == "accepted"
    assert violations(ledger.owner, [holding.job_id]) == []


def test_dead_letter__of_a_job_replayed_before_it_was_published_is_dropped(ledger: Ledger) -> None:
    gone, stays = failed(ledger).job_id, failed(ledger).job_id
    ledger.operator.replay(gone)

    messages, _ = ledger.coordinator.outbox_take()

    taken = {message.job_id for message in messages if message.kind == "dead"}
    assert taken & {gone, stays} == {stays}
    assert ledger.rows.outbox(gone, "dead") == []


def test_discard__hides_the_job_and_keeps_its_record(ledger: Ledger) -> None:
    job, request = failed(ledger).job_id, asking("known, harmless")
    (group,) = ledger.operator.groups()

    assert ledger.operator.discard(job, request=request) == ["discarded"]

    assert ledger.operator.groups() == []
    assert ledger.operator.fetch(decisions.dead_jobs(group.group_id, None, 10)) == []
    assert ledger.producer.record(job)["state"] == "failed"
    (place,) = ledger.operator.fetch(decisions.dead_show(job))
    assert (place.group_id, place.discarded_by, place.discarded_why) == (group.group_id, "ann", "known, harmless")
    assert ledger.operator.discard(job, request=request) == ["discarded, repeated"]
    assert ledger.operator.discard(job) == ["discarded, repeated"]
    assert len(ledger.rows.events(job, "discarded")) == 1
    assert ledger.operator.discard(ledger.submit(), uuid4()) == ["refused", "unknown"]
    assert violations(ledger.owner, [job]) == []


def test_discarded_job__can_be_replayed_and_is_shown_again_when_it_fails_again(ledger: Ledger) -> None:
    job = failed(ledger).job_id
    ledger.operator.discard(job)

    assert ledger.operator.replay(job) == ["replayed"]
    ledger.worker.fail(ledger.worker.take(job), INVALID)

    assert [group.example for group in ledger.operator.groups()] == [job]


def test_adopt__takes_the_kept_success_of_the_lost_last_attempt(ledger: Ledger) -> None:
    holding, request = lost_for_good(ledger), asking("the file is there")
    rejected = ledger.worker.complete(holding)
    assert rejected.reason == "job_failed"

    assert ledger.operator.adopt(holding, request) == {"verdict": "adopted", "state": "succeeded"}

    record = ledger.producer.record(holding.job_id)
    assert (record["state"], record["result"]) == ("succeeded", RESULT)
    assert record["accepted_attempt"] == str(holding.attempt_id)
    assert record["attempts"][0]["state"] == "rejected_stale"  # as it was answered: that stays
    (event,) = ledger.rows.events(holding.job_id, "adopted")
    assert {"by": "ann", "reason": "the file is there"}.items() <= (event.detail or {}).items()
    assert ledger.worker.complete(holding) == rejected
    assert ledger.operator.adopt(holding, request)["repeated"] is True
    assert ledger.operator.groups() == []
    assert violations(ledger.owner, [holding.job_id]) == []


def test_adopt__after_a_person_gave_up_is_possible(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(holding)
    ledger.lose(holding)
    ledger.operator.resolve(holding.job_id, "give_up")
    ledger.worker.complete(holding)

    assert ledger.operator.adopt(holding)["verdict"] == "adopted"
    assert violations(ledger.owner, [holding.job_id]) == []


def test_adopt__of_anything_else_is_refused_and_says_why(ledger: Ledger) -> None:
    silent, reported = lost_for_good(ledger), failed(ledger)
    late = ledger.worker.take(ledger.submit(deadline=31))
    ledger.lose(late)
    ledger.clock.advance(5)
    ledger.coordinator.due()
    ledger.worker.complete(late)
    done = ledger.worker.take(ledger.submit())
    ledger.worker.complete(done)
    again = lost_for_good(ledger)
    ledger.worker.complete(again)
    ledger.operator.replay(again.job_id)
    ledger.worker.fail(ledger.worker.take(again.job_id), INVALID)

    def why(holding: Holding) -> str:
        answer = ledger.operator.adopt(holding)
        assert answer["verdict"] == "refused", answer
        return str(answer["why"])

    assert why(silent) == "no success of the attempt is kept"
    assert why(reported) == "the attempt was not lost"
    assert why(late) == "its deadline had passed"
    assert why(done) == "only a failed job can adopt a result"
    assert why(again) == "a later attempt was made"
    assert ledger.operator.adopt(calls_of(uuid4(), silent))["verdict"] == "unknown"
    assert why(calls_of(silent.job_id, done)) == "it has no such attempt"


def calls_of(job: UUID, holding: Holding) -> Holding:
    """The same attempt, said of another job."""
    return type(holding)(job, holding.attempt_id, holding.fencing_number)


def test_retention__removes_what_people_asked_with_the_job(own_ledger: Ledger) -> None:
    ledger = own_ledger
    job = failed(ledger).job_id
    ledger.operator.discard(job)
    ledger.clock.advance(200 * 86_400)
    ledger.coordinator.sql("select brokerjobs.retain_jobs('30 days', '180 days', 1000)")

    left = ledger.owner.execute(
        "select (select count(*) from brokerjobs.dead where job_id = %(job)s),"
        " (select count(*) from brokerjobs.request where job_id = %(job)s)",
        {"job": job},
    ).fetchone()
    assert left == (0, 0)
