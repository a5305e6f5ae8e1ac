"""submit and submit_v1: one verdict a row, in the caller's transaction, which lives."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import errors
from uuid_utils.compat import uuid7

from brokerjobs.ledger import inquiries
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import new_job
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger


def test_submit__records_the_job_its_terms_and_one_ring(ledger: Ledger) -> None:
    observed = ledger.clock.now
    job = new_job({"b": 1, "a": [1.0]}, key="order-1", tags={"order": "1"}, deadline=600)

    (answer,) = ledger.submit_all([job])

    (ring,) = ledger.rows.outbox(job.id)
    record = ledger.producer.record(job.id)
    assert (answer.verdict, answer.job_id, answer.ticket, answer.route) == (
        "created",
        job.id,
        ring.ticket,
        ledger.place.route(),
    )
    assert (ring.made_at, ring.hold_until) == (ledger.clock.now, ledger.clock.now)
    assert (record["state"], record["waiting"]["for"], record["key"], record["tags"]) == (
        "queued",
        "delivery",
        "order-1",
        {"order": "1"},
    )
    assert (record["payload"], record["payload_checked"], record["submitted_by"]) == (
        {"a": [1.0], "b": 1},
        True,
        "tester",
    )
    assert record["terms"] == {
        "repeatable": True,
        "lease_seconds": 30,
        "time_limit_seconds": 600,
        "retry": {
            "attempts": 5,
            "elapsed_seconds": 86400,
            "first_delay_seconds": 1,
            "factor": 2,
            "max_delay_seconds": 600,
        },
    }
    assert datetime.fromisoformat(record["observed_submitted_at"]) == observed
    assert ledger.rows.state(job.id).deadline == ledger.clock.after(600)


def test_submit__freezes_the_terms(ledger: Ledger) -> None:
    before = ledger.submit()
    ledger.declare("work", lease=timedelta(seconds=5), attempts=1)
    after = ledger.submit()

    assert [ledger.worker.claim(job).lease_seconds for job in (before, after)] == [30, 5]


def test_submit__announced_is_left_to_its_client_for_two_seconds(ledger: Ledger) -> None:
    (answer,) = ledger.submit_all([new_job()], announced=True)

    assert ledger.rows.outbox(answer.id)[0].hold_until == ledger.clock.after(2)
    assert answer.id not in {m.job_id for m in ledger.coordinator.outbox_take()[0]}
    ledger.clock.advance(2)
    assert answer.id in {m.job_id for m in ledger.coordinator.outbox_take()[0]}


def test_submit__for_later_rings_when_it_is_due(ledger: Ledger) -> None:
    job = ledger.submit(not_before=timedelta(seconds=60))

    assert (ledger.rows.state(job).waiting, ledger.rows.outbox(job)) == ("schedule", [])
    assert ledger.worker.claim(job).verdict == "not_due"
    ledger.clock.advance(60)
    assert ledger.coordinator.due()[job] == "queued"
    assert len(ledger.rows.outbox(job)) == 1


def test_submit__for_a_time_that_has_passed_rings_at_once(ledger: Ledger) -> None:
    (answer,) = ledger.submit_all([new_job(not_before=ledger.clock.after(-1))])

    assert answer.ticket is not None
    assert ledger.rows.state(answer.id).waiting == "delivery"


def test_submit__with_the_same_key_and_payload_is_the_same_job(ledger: Ledger) -> None:
    (first,) = ledger.submit_all([new_job({"a": 1, "b": 2}, key="k")])
    ledger.clock.advance(1)

    (second,) = ledger.submit_all([new_job({"b": 2, "a": 1}, key="k")])

    assert (second.verdict, second.job_id, second.ticket) == ("existing", first.id, None)
    assert ledger.owner.execute(
        "select count(*) from brokerjobs.job where key = 'k' and namespace = %s", [ledger.place.namespace]
    ).fetchone() == (1,)


def test_submit__with_the_same_key_and_another_payload_is_a_conflict(ledger: Ledger) -> None:
    (first,) = ledger.submit_all([new_job(1, key="k")])
    made_at = ledger.clock.now

    (second,) = ledger.submit_all([new_job(2, key="k")])

    assert (second.verdict, second.job_id) == ("conflict", first.id)
    assert second.detail is not None
    detail = json.loads(second.detail)
    assert detail["first_submitted_by"] == "tester"
    assert datetime.fromisoformat(detail["first_submitted_at"]) == made_at


def test_submit__keys_belong_to_a_type_of_a_namespace(ledger: Ledger) -> None:
    (first,) = ledger.submit_all([new_job(key="k")])
    (other,) = ledger.submit_all([new_job(key="k")], "once")

    assert (first.verdict, other.verdict) == ("created", "created")


def test_submit__twice_the_same_key_in_one_batch_is_one_job(ledger: Ledger) -> None:
    answers = ledger.submit_all([new_job(1, key="k"), new_job(1, key="k"), new_job(2, key="k"), new_job(1)])

    assert [answer.verdict for answer in answers] == ["created", "existing", "conflict", "created"]
    assert answers[1].job_id == answers[0].id


def test_submit__asked_again_with_the_same_ids_is_created_once(ledger: Ledger) -> None:
    """The reply to a COMMIT was lost (rule R7)."""
    jobs = [new_job({"n": n}, key=f"k{n}" if n else None, deadline=60) for n in range(3)]
    first = ledger.submit_all(jobs)
    ledger.clock.advance(120)  # even when its deadline has passed meanwhile

    again = ledger.submit_all(jobs)

    assert [(a.verdict, a.job_id, a.route) for a in again] == [(a.verdict, a.job_id, a.route) for a in first]
    assert [len(ledger.rows.outbox(job.id)) for job in jobs] == [1, 1, 1]


def test_submit__with_an_id_that_another_job_has_is_invalid(ledger: Ledger) -> None:
    (first,) = ledger.submit_all([new_job(1)])

    for other in (new_job(2, job_id=first.id), new_job(1, job_id=first.id, key="k")):
        (answer,) = ledger.submit_all([other])
        assert answer.verdict == "invalid"
        assert str(first.id) in (answer.detail or "")
    assert ledger.producer.record(first.id)["payload"] == 1


def test_submit__with_one_id_twice_in_a_batch_takes_the_first(ledger: Ledger) -> None:
    job = uuid7()

    answers = ledger.submit_all([new_job(1, job_id=job), new_job(2, job_id=job), new_job(3)])

    assert [answer.verdict for answer in answers] == ["created", "invalid", "created"]
    assert ledger.producer.record(job)["payload"] == 1


def test_submit__asked_again_while_the_first_still_runs_is_answered_after_it(ledger: Ledger) -> None:
    job, other = new_job(1), ledger.open("producer")
    other.begin()
    ledger.submit_all([job], by=other)
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(ledger.submit_all, [job])
        eventually_sync(lambda: ledger.is_blocked(ledger.producer))
        other.commit()
        with pytest.raises(errors.SerializationFailure):  # which our own connections repeat
            answer.result()

    assert ledger.submit_all([job])[0].verdict == "created"
    assert len(ledger.rows.outbox(job.id)) == 1


def test_submit__of_a_key_that_another_transaction_holds_answers_and_lives(ledger: Ledger) -> None:
    holder, caller = ledger.open("producer"), ledger.open("producer")
    holder.begin()
    ledger.submit_all([new_job(key="a"), new_job(key="b"), new_job(key="c")], by=holder)
    caller.begin()
    mine = ledger.submit(by=caller)
    began = time.monotonic()

    answers = ledger.submit_all(
        [new_job(key="a"), new_job(key="b"), new_job(key="c"), new_job(key="d"), new_job()], by=caller
    )

    assert [answer.verdict for answer in answers] == ["key_in_flight"] * 3 + ["created"] * 2
    assert 1.9 < time.monotonic() - began < 4  # all keys together wait no longer than one may
    caller.commit()
    holder.rollback()
    assert [ledger.rows.state(job).state for job in (mine, answers[3].id, answers[4].id)] == ["queued"] * 3
    assert ledger.submit_all([new_job(key="a")])[0].verdict == "created"


@pytest.mark.parametrize(("end", "verdict"), [("commit", "existing"), ("rollback", "created")])
def test_submit__of_a_key_in_flight_waits_for_its_end(ledger: Ledger, end: str, verdict: str) -> None:
    holder = ledger.open("producer")
    holder.begin()
    ledger.submit_all([new_job(1, key="k")], by=holder)
    with ThreadPoolExecutor(1) as thread:
        answers = thread.submit(ledger.submit_all, [new_job(1, key="k")])
        eventually_sync(lambda: ledger.is_blocked(ledger.producer))
        holder.end(end)

        assert answers.result()[0].verdict == verdict


def test_submit__of_two_keys_in_opposite_order_deadlocks_nobody(ledger: Ledger) -> None:
    """The caller's transaction lives: the one that PostgreSQL picks is told that the key is in flight."""
    one, two = ledger.open("producer"), ledger.open("producer")
    one.begin()
    two.begin()
    ledger.submit_all([new_job(key="a")], by=one)
    ledger.submit_all([new_job(key="b")], by=two)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ledger.submit_all, [new_job(key="b")], by=one)
        eventually_sync(lambda: ledger.is_blocked(one))
        second = threads.submit(ledger.submit_all, [new_job(key="a")], by=two)
        verdicts = [future.result()[0].verdict for future in (first, second)]
    one.commit()
    two.commit()

    assert verdicts == ["key_in_flight"] * 2


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_submit__in_a_stricter_transaction_works_and_conflicts_as_there(ledger: Ledger, isolation: Any) -> None:
    caller = ledger.open("producer")
    caller.begin(isolation)
    assert ledger.submit_all([new_job(key="k")], by=caller)[0].verdict == "created"
    caller.commit()
    caller.begin(isolation)
    caller.sql("select")
    ledger.submit_all([new_job(key="other")])
    with pytest.raises(errors.SerializationFailure):
        ledger.submit_all([new_job(key="other")], by=caller)
    caller.rollback()


def test_submit__rolled_back_leaves_nothing(ledger: Ledger) -> None:
    caller = ledger.open("producer")
    caller.begin()
    (answer,) = ledger.submit_all([new_job(key="k")], by=caller)
    caller.rollback()

    job = answer.id
    assert ledger.producer.fetch(_status(job)) == []
    assert (ledger.rows.outbox(job), ledger.rows.events(job)) == ([], [])
    assert ledger.worker.claim(job).verdict == "unknown_job"
    assert ledger.submit_all([new_job("other", key="k")])[0].verdict == "created"


def test_submit__of_an_unknown_type_says_so_for_every_row(ledger: Ledger) -> None:
    assert [a.verdict for a in ledger.submit_all([new_job(), new_job()], "nobody")] == ["unknown_type"] * 2
    assert ledger.submit_all([new_job()], namespace="nowhere")[0].verdict == "unknown_type"


BAD: dict[str, dict[str, Any]] = {
    "payload_too_large": {"payload": "x" * 262_143},
    "a key has 1 to 255 characters": {"key": ""},
    "not_before is more than a year ahead": {"not_before": timedelta(days=367)},
    "the deadline is more than a year ahead": {"deadline": timedelta(days=367)},
    "the deadline has passed": {"deadline": timedelta(0)},
    "tags are more than 8192 characters of JSON": {"tags": {"t": "x" * 8200}},
}


@pytest.mark.parametrize("problem", BAD)
def test_submit__refuses_bad_input_and_takes_the_rest(ledger: Ledger, problem: str) -> None:
    answers = ledger.submit_all([new_job(), new_job(**BAD[problem]), new_job()])

    assert [answer.verdict for answer in answers] == ["created", "invalid", "created"]
    assert json.loads(answers[1].detail or "")["problem"] == problem


def test_submit__takes_what_is_just_within_its_limits(ledger: Ledger) -> None:
    payload = "é" * 131_071  # 262 142 bytes, and two quotes
    jobs = [
        ledger.submit_all([new_job()])[0],
        *ledger.submit_all([new_job(key="k" * 255, not_before=timedelta(days=365), deadline=timedelta(days=365))]),
    ]
    text = json.dumps(payload, ensure_ascii=False)
    assert len(text.encode()) == 262_144
    verdict = ledger.producer.sql(
        "select verdict from brokerjobs.submit_v1(%s, 'work', %s::jsonb)", ledger.place.namespace, text
    )

    assert {job.verdict for job in jobs} == {"created"}
    assert verdict == [("created",)]


def test_submit__of_nothing_is_nothing(ledger: Ledger) -> None:
    assert ledger.submit_all([]) == []


def test_submit__leaves_a_sound_ledger(own_ledger: Ledger) -> None:
    own_ledger.submit_all([new_job(key=f"{n % 7}", not_before=timedelta(seconds=n % 3)) for n in range(50)])

    assert violations(own_ledger.owner) == []


def _status(job: UUID) -> Any:
    return inquiries.status([job])
