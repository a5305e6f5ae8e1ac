"""Needs that a submission adds are checked at the claim; nobody waits for placement beyond the placement deadline."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from brokerjobs import needs
from brokerjobs.ledger import pauses
from brokerjobs.ledger.decisions import Request
from tests.ledger.needing import beat, in_line, needing, rings

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

GPU = needs.equal("gpu", "a100")
HOUR = timedelta(hours=1)


def test_claim__of_a_worker_that_lacks_what_a_submission_needs_parks_the_job(ledger: Ledger) -> None:
    job = needing(ledger, GPU, needs.equal("os", "linux"))
    beat(ledger, ledger.worker, capabilities={"os": ["linux"]})

    answer = ledger.worker.claim(job)

    state = ledger.rows.state(job)
    assert (answer.verdict, answer.state, state.waiting, state.number) == ("no_handler", "queued", "placement", 0)
    assert state.wait_until == answer.until == ledger.clock.after(1)
    assert state.wait_detail == {
        "not_qualified": "work",
        "unmet": [GPU.as_data()],
        "worker": ledger.worker.process.name,
        "refusals": 1,
    }
    (event,) = ledger.rows.events(job, "not_qualified")
    assert event.detail is not None
    assert event.detail["unmet"] == [GPU.as_data()]


def test_claim__refused_for_an_added_need_is_rung_soon_while_another_worker_meets_it(ledger: Ledger) -> None:
    """Else the job would wait longer and longer for a worker that is there, whenever the unfit one takes its ring."""
    job, able = needing(ledger, GPU), ledger.open()
    beat(ledger, ledger.worker, capabilities={"": {}, "os": ["linux"]})

    def refused() -> float:
        answer = ledger.worker.claim(job)
        assert (answer.verdict, answer.until is None) == ("no_handler", False)
        waits = ((answer.until or ledger.clock.now) - ledger.clock.now).total_seconds()
        ledger.clock.advance(waits)
        ledger.coordinator.due()
        return waits

    assert [refused() for _ in range(4)] == [1, 2, 4, 8]
    beat(ledger, ledger.worker, capabilities={"": {}, "os": ["linux"]})
    beat(ledger, able, routes=[ledger.place.route()], capabilities={"": {}, "gpu": ["a100"]})
    assert [refused() for _ in range(3)] == [1, 1, 1]
    ledger.clock.advance(60)  # it has not been heard of since
    assert refused() == 30


def test_claim__of_a_worker_that_meets_what_a_submission_needs_is_granted(ledger: Ledger) -> None:
    job = needing(ledger, GPU, "account")
    capabilities = {"gpu": ["a100"], "os": ["linux"]}
    beat(ledger, ledger.worker, capabilities=capabilities)

    answer = ledger.worker.claim(job)

    assert (answer.verdict, answer.needs) == ("granted", [GPU.as_data()])
    stored = "select capabilities from brokerjobs.attempt where id = %s"
    assert ledger.rows.scalar(stored, [answer.attempt_id], of=dict) == capabilities
    assert ledger.worker.claim(job, answer.attempt_id).needs == answer.needs


def test_claim__of_a_job_without_needs_says_and_stores_none(ledger: Ledger) -> None:
    answer = ledger.worker.claim(ledger.submit())

    assert (answer.verdict, answer.needs) == ("granted", None)
    assert ledger.owner.execute(
        "select capabilities from brokerjobs.attempt where id = %s", [answer.attempt_id]
    ).fetchall() == [(None,)]


def test_claim__of_an_older_worker_that_tells_no_capabilities_parks_a_job_with_added_needs(ledger: Ledger) -> None:
    job = needing(ledger, GPU)
    (answer,) = ledger.worker.sql(
        "select verdict from brokerjobs.claim(%s, 'w', %s, '{work}', array[%s]::uuid[], array[%s]::uuid[], array[%s],"
        " array[%s]::uuid[], '{f}', array[now()])",
        ledger.worker.process.id,
        ledger.place.namespace,
        job,
        uuid4(),
        ledger.place.route(),
        uuid4(),
    )

    assert answer == ("no_handler",)
    assert ledger.rows.state(job).waiting == "placement"


def test_claim__of_a_job_whose_queue_is_paused_parks_it(ledger: Ledger) -> None:
    ledger.owner.execute(
        "insert into brokerjobs.queue_pause (id, namespace, queue, paused_at, paused_by, login, reason, until)"
        " values (gen_random_uuid(), %s, 'default', now(), 'ann', 'ann', 'the bank is away', %s)",
        [ledger.place.namespace, ledger.clock.after(60)],
    )
    beat(ledger, ledger.worker)
    job = ledger.submit(rung=True)

    answer = ledger.worker.claim(job)
    assert (answer.verdict, answer.state, ledger.rows.state(job).waiting) == ("paused", "queued", "pause")

    ledger.clock.advance(60)  # over by itself, and nobody has recorded it yet
    other = ledger.submit(rung=True)
    assert ledger.worker.claim(other).verdict == "granted"


def unplaced(ledger: Ledger, *wanted: needs.Need | str) -> UUID:
    ledger.declare("work", placement_deadline=HOUR)
    return needing(ledger, *wanted)


def test_placement_deadline__ends_a_job_that_nobody_qualifies_for(ledger: Ledger) -> None:
    job = unplaced(ledger, GPU)
    while ledger.rows.state(job).state == "queued":
        assert ledger.worker.claim(job).verdict == "no_handler"
        until = ledger.rows.state(job).wait_until
        assert until is not None
        assert until <= ledger.rows.events(job)[0].at + HOUR
        ledger.clock.set(until)
        ledger.coordinator.due()

    state = ledger.rows.state(job)
    assert ledger.clock.now == ledger.rows.events(job, "submitted")[0].at + HOUR
    assert (state.state, state.failure_class) == ("failed", "policy")
    assert state.failure_reason == f"unplaceable: worker {ledger.worker.process.name} does not meet gpu"
    (event,) = ledger.rows.events(job, "unplaceable")
    assert event.detail is not None
    assert event.detail["report"]["unmet"] == [GPU.as_data()]
    assert len(ledger.rows.outbox(job, "dead")) == 1


def test_placement_deadline__ends_a_job_that_waits_for_a_resource(ledger: Ledger) -> None:
    holder = unplaced(ledger, "account")
    held = ledger.worker.take(holder)
    job, next_job = unplaced(ledger, "account"), unplaced(ledger, "account")
    ledger.worker.claim(job)
    ledger.clock.advance(1)
    ledger.worker.claim(next_job)
    for _ in range(240):
        ledger.clock.advance(14.998)
        ledger.worker.renew(held)
    ledger.coordinator.due()

    state = ledger.rows.state(job)
    assert (state.state, state.failure_class) == ("failed", "policy")
    assert state.failure_reason is not None
    assert state.failure_reason.startswith(f"unplaceable: resource account, held by job {holder} until ")
    assert in_line(ledger, "account") == [next_job]
    (letter,) = (m.body for m in ledger.coordinator.outbox_take()[0] if (m.kind, m.job_id) == ("dead", job))
    (frozen,) = (e["detail"]["report"] for e in json.loads(letter or "")["events"] if e["kind"] == "unplaceable")
    assert frozen["resources"][0]["held_by"][0]["job"] == str(holder)


def test_placement_deadline__passes_for_a_waiter_that_was_rung_and_is_refused_again(ledger: Ledger) -> None:
    job = unplaced(ledger, GPU)
    ledger.worker.claim(job)
    ledger.ring_again(job)
    ledger.clock.advance(3600)

    answer = ledger.worker.claim(job)

    assert (answer.verdict, answer.state) == ("finished", "failed")
    assert ledger.rows.state(job).failure_class == "policy"


def test_placement_deadline__is_told_by_the_claim_that_comes_first(ledger: Ledger) -> None:
    job = unplaced(ledger, GPU)
    ledger.worker.claim(job)
    ledger.owner.execute(
        "update brokerjobs.job_state set wait_until = unplaced_since + interval '1 hour' where job_id = %s", [job]
    )
    ledger.clock.advance(3600)

    answer = ledger.worker.claim(job)

    assert (answer.verdict, answer.state) == ("finished", "failed")


def test_placement_deadline__counts_anew_after_a_grant_a_replay_and_a_pause(ledger: Ledger) -> None:
    since = "select unplaced_since is null from brokerjobs.job_state where job_id = %s"
    granted = unplaced(ledger, GPU)
    ledger.worker.claim(granted)
    assert not ledger.rows.scalar(since, [granted], of=bool)
    ledger.ring_again(granted)
    beat(ledger, ledger.worker, capabilities={"gpu": ["a100"]})
    held = ledger.worker.take(granted)
    assert ledger.rows.scalar(since, [granted], of=bool)
    ledger.worker.complete(held)

    beat(ledger, ledger.worker)
    replayed = unplaced(ledger, GPU)
    ledger.worker.claim(replayed)
    ledger.clock.advance(3600)
    ledger.coordinator.due()
    ledger.worker.claim(replayed)
    assert ledger.rows.state(replayed).state == "failed"
    ledger.operator.replay(replayed)
    assert ledger.rows.scalar(since, [replayed], of=bool)
    assert ledger.worker.claim(replayed).verdict == "no_handler"

    paused = unplaced(ledger, GPU)
    ledger.worker.claim(paused)
    ledger.ring_again(paused)
    assert rings(ledger, paused) == 1
    request = Request(id=uuid4(), by="ann", reason="the bank is away")
    ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, "work", request))
    ledger.worker.claim(paused)
    ledger.clock.advance(7200)
    again = Request(id=uuid4(), by="ann", reason="it is back")
    ledger.operator.fetch(pauses.resume_type(ledger.place.namespace, "work", again))
    ledger.coordinator.due()
    assert rings(ledger, paused) == 1
    assert ledger.worker.claim(paused).verdict == "no_handler"
