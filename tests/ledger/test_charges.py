"""Rule R5: what is charged, what is given back and how often, and how a job without a handler waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

ENDINGS = ("temporary", "invalid", "policy", "unsafe", "drain", "snooze", "not_here", "lost", "refused")
_LONG = 10_000.0  # a deadline that no lease reaches, in seconds


def test_release__is_uncharged_twenty_times_and_then_charged(ledger: Ledger) -> None:
    ledger.declare("work", attempts=2)
    job = ledger.submit()
    charged: list[tuple[int, int]] = []
    for i in range(22):
        worker = _another(ledger)  # one that was not qualified is not asked again
        worker.release(worker.take(job), ("drain", "snooze", "not_here")[i % 3], until=_at(ledger))
        state = ledger.rows.state(job)
        charged.append((state.charged, state.uncharged))
        if state.waiting in {"schedule", "placement"}:
            ledger.ring_again(job)

    assert charged == [*((0, n) for n in range(1, 21)), (1, 20), (2, 20)]
    state = ledger.rows.state(job)
    assert (state.state, state.failure_class) == ("failed", "exhausted")
    assert [attempt.charged for attempt in ledger.rows.attempts(job)] == [False] * 20 + [True] * 2


def test_release__gives_the_charge_of_a_last_attempt_back(ledger: Ledger) -> None:
    ledger.declare("work", attempts=1)
    job = ledger.submit()

    assert ledger.worker.release(ledger.worker.take(job)).state == "queued"
    assert ledger.worker.complete(ledger.worker.take(job)).verdict == "accepted"


def test_snooze__past_elapsed_ends_the_job(ledger: Ledger) -> None:
    ledger.declare("work", elapsed=timedelta(seconds=60))
    holding = ledger.worker.take(ledger.submit())

    assert ledger.worker.snooze(holding, 61).state == "failed"


def test_snooze__is_claimable_at_its_time_and_not_before(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    ledger.worker.snooze(ledger.worker.take(job), 60)
    ledger.clock.advance(59)
    assert ledger.worker.claim(job).verdict == "not_due"
    assert job not in ledger.coordinator.due()
    ledger.clock.advance(1)

    assert ledger.coordinator.due()[job] == "queued"
    assert len(ledger.rows.outbox(job)) == 1
    assert ledger.worker.claim(job).verdict == "granted"


def test_not_here__backs_off_and_never_rings_at_once(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    waits: list[float] = []
    for _ in range(7):
        worker = _another(ledger)
        answer = worker.release(worker.take(job), "not_here")
        assert answer.until is not None
        assert ledger.rows.outbox(job) == []
        waits.append((answer.until - ledger.clock.now).total_seconds())
        ledger.ring_again(job)
        ledger.coordinator.outbox_done(*(ring.ticket for ring in ledger.rows.outbox(job)))

    assert waits == [2, 4, 8, 16, 30, 30, 30]


def test_no_handler__backs_off_from_one_second_to_thirty(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    waits: list[float] = []
    for _ in range(7):
        answer = ledger.worker.claim(job, types=["other"])
        assert (answer.verdict, answer.state) == ("no_handler", "queued")
        assert answer.until is not None
        waits.append((answer.until - ledger.clock.now).total_seconds())
        assert ledger.rows.outbox(job) == []
        ledger.ring_again(job)
        ledger.coordinator.outbox_done(*(ring.ticket for ring in ledger.rows.outbox(job)))

    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert (ledger.rows.state(job).number, ledger.rows.state(job).charged) == (0, 0)
    assert ledger.worker.claim(job).verdict == "granted"


def test_case_11__a_job_that_kills_its_worker_runs_out(ledger: Ledger) -> None:
    """Three attempts end without a word, then the job has failed, with all of them in its record; others go on."""
    ledger.declare("work", attempts=3)
    poison, other = ledger.submit(rung=True), ledger.submit(rung=True)
    for _ in range(3):
        dead = ledger.open()
        killed = dead.take(poison)
        ledger.lose(killed)
        ledger.ring_again(poison)

    assert ledger.worker.complete(ledger.worker.take(other)).verdict == "accepted"
    state = ledger.rows.state(poison)
    assert (state.state, state.failure_class, state.failure_reason) == ("failed", "exhausted", "3 of 3 attempts used")
    record = ledger.producer.record(poison)
    assert [(a["state"], a["closed"]["why"]) for a in record["attempts"]] == [("timed_out", "lease expired")] * 3
    assert ledger.worker.claim(poison).verdict == "finished"
    (dead_letter,) = ledger.rows.outbox(poison, "dead")
    assert dead_letter.job_id == poison


def _another(ledger: Ledger) -> Caller:
    """The same connection as another process."""
    ledger.worker.process = replace(ledger.worker.process, id=uuid4())
    return ledger.worker


def _at(ledger: Ledger) -> str:
    return ledger.clock.after(1).isoformat()
