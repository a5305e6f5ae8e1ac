"""A worker whose model refuses a payload that another model took is not qualified: never a reason to fail the job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from brokerjobs.ledger import services

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

REFUSAL = {"type": "InvalidPayload", "message": "payload of job type 'work' is invalid at currency: too new"}


def worker_with(ledger: Ledger, model: str | None) -> Caller:
    """A worker that has told the fingerprint of its model, or that is older than that."""
    worker = ledger.open()
    detail: dict[str, Any] = {} if model is None else {"models": {"work": model, "once": "another"}}
    beat = services.Heartbeat(
        worker.process, "worker", ledger.place.namespace, ["work"], [], "online", ledger.clock.now, detail
    )
    worker.fetch(services.heartbeat(beat))
    return worker


def refuse(worker: Caller, job: UUID, model: str | None) -> None:
    """Claim the job and give it back, as a worker does whose model refuses its payload."""
    fingerprint = {} if model is None else {"fingerprint": model}
    assert worker.release(worker.take(job), "not_here", **REFUSAL, **fingerprint).verdict == "recorded"


def test_not_qualified__costs_no_attempt_and_says_why_the_job_waits(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    refuse(worker_with(ledger, "old"), job, "old")

    state = ledger.rows.state(job)
    assert (state.state, state.waiting, state.charged, state.uncharged) == ("queued", "placement", 0, 1)
    assert state.wait_detail == {
        "after": "InvalidPayload",
        "not_qualified": "work",
        "message": REFUSAL["message"],
        "attempt": 1,
    }
    assert ledger.rows.outbox(job) == []  # not straight back to the queue: the scheduler rings


def test_worker__that_was_not_qualified_is_not_asked_again(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    worker = worker_with(ledger, None)
    refuse(worker, job, None)

    waits: list[float] = []
    for _ in range(6):
        ledger.ring_again(job)
        answer = worker.claim(job)
        assert (answer.verdict, answer.state) == ("no_handler", "queued")
        assert answer.until is not None
        waits.append((answer.until - ledger.clock.now).total_seconds())

    state = ledger.rows.state(job)
    assert waits == [1, 2, 4, 8, 16, 30]
    assert (state.number, state.charged, state.uncharged) == (1, 0, 1)
    assert state.wait_detail == {"not_qualified": "work", "worker": worker.process.name, "refusals": 6}
    assert len(ledger.rows.events(job, "not_qualified")) == 6


def test_worker__with_the_same_model_is_not_asked_and_one_with_another_is(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    refuse(worker_with(ledger, "old"), job, "old")
    for _ in range(25):
        ledger.ring_again(job)
        assert worker_with(ledger, "old").claim(job).verdict == "no_handler"
    ledger.ring_again(job)
    right = worker_with(ledger, "new")

    assert right.complete(right.take(job)).verdict == "accepted"
    state = ledger.rows.state(job)
    assert (state.number, state.charged, state.uncharged) == (2, 1, 1)
    assert [attempt.charged for attempt in ledger.rows.attempts(job)] == [False, True]


def test_worker__that_was_started_anew_is_asked_again(ledger: Ledger) -> None:
    """It may have another model by now."""
    job = ledger.submit(rung=True)
    worker = worker_with(ledger, None)
    refuse(worker, job, None)
    ledger.ring_again(job)
    worker.process = replace(worker.process, id=uuid4())

    assert worker.claim(job).verdict == "granted"


def test_refusal__of_one_job_says_nothing_of_another(ledger: Ledger) -> None:
    worker = worker_with(ledger, "old")
    refuse(worker, ledger.submit(rung=True), "old")
    other = ledger.submit(rung=True)
    worker.release(worker.take(other), "drain")

    assert worker.claim(other).verdict == "granted"


def test_not_qualified__is_charged_after_twenty_uncharged_roads(ledger: Ledger) -> None:
    """So many different models that refuse what one took are no rolling release any more."""
    ledger.declare("work", attempts=2)
    job = ledger.submit(rung=True)
    for number in range(22):
        refuse(worker_with(ledger, f"model {number}"), job, f"model {number}")
        if ledger.rows.state(job).state == "queued":
            ledger.ring_again(job)

    state = ledger.rows.state(job)
    assert (state.state, state.failure_class, state.charged, state.uncharged) == ("failed", "exhausted", 2, 20)
