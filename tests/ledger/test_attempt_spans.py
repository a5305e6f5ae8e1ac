"""The contexts of attempts' spans: the first one stays, nothing waits for them, and the last two attempts are told."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from brokerjobs.ledger.attempt_spans import attempt_spans, traced_attempts

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.attempt_spans import TracedAttempt
    from tests.ledger.ledger_driver import Ledger

ONE = f"00-{1:032x}-{2:016x}-01"
OTHER = f"00-{1:032x}-{3:016x}-01"


def test_context__is_kept_once_and_in_the_record(ledger: Ledger) -> None:
    job = ledger.submit()
    holding = ledger.worker.take(job)
    other = ledger.worker.take(ledger.submit())
    ledger.worker.fetch(attempt_spans({holding.attempt_id: ONE, other.attempt_id: "x" * 100_000, uuid4(): ONE}))
    ledger.worker.fetch(attempt_spans({holding.attempt_id: OTHER}))
    assert [one["traceparent"] for one in ledger.producer.record(job)["attempts"]] == [ONE]
    assert [one["traceparent"] for one in ledger.producer.record(other.job_id)["attempts"]] == [None]


def test_context__waits_for_nobody(ledger: Ledger) -> None:
    """Of an attempt that somebody is writing it is left out."""
    held, free = (ledger.worker.take(ledger.submit()) for _ in range(2))
    with ledger.owner.transaction():
        ledger.owner.execute("select from brokerjobs.attempt where id = %s for update", [held.attempt_id])
        ledger.worker.fetch(attempt_spans({held.attempt_id: ONE, free.attempt_id: OTHER}))
    assert [known(ledger, one.job_id) for one in (held, free)] == [[None], [OTHER]]


def test_last_two_attempts__are_told_with_how_they_were_closed(ledger: Ledger) -> None:
    job = ledger.submit()
    holding = ledger.worker.take(job)
    for number in (1, 2):
        holding = ledger.worker.take(job) if number == 2 else holding
        ledger.clock.advance(31)
        assert job in ledger.coordinator.expire()
        ledger.clock.advance(3_600)
    last = ledger.worker.take(job)
    ledger.worker.fetch(attempt_spans({last.attempt_id: OTHER}))
    before, now = told(ledger, job)
    assert (before.attempt_id, before.number, before.closed_as, before.closed_by is not None) == (
        holding.attempt_id,
        2,
        "timed_out",
        True,
    )
    assert before.closed_seconds == 3_600
    assert (now.attempt_id, now.number, now.state, now.closed_at) == (last.attempt_id, 3, "running", None)
    assert (before.attempt_traceparent, now.attempt_traceparent) == (None, OTHER)
    assert (now.type, now.queue, now.namespace) == (before.type, before.queue, before.namespace)
    assert told(ledger, uuid4()) == told(ledger, ledger.submit()) == []


def told(ledger: Ledger, job: UUID) -> list[TracedAttempt]:
    return ledger.coordinator.fetch(traced_attempts([job]))


def known(ledger: Ledger, job: UUID) -> list[str | None]:
    return [one.attempt_traceparent for one in told(ledger, job)]
