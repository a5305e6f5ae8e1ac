"""The retry budget of a queue, and how the retries of a storm are spread."""

from __future__ import annotations

import statistics
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

import pytest

from tests.ledger.ledger_caller import TEMPORARY, holding_of, new_job

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

JOBS: Final = 5_000
BATCH: Final = 200


def _attempt_id(ledger: Ledger, number: int) -> UUID:
    """An id as a worker makes it whose clock is the ledger's, `number` milliseconds ago."""
    milliseconds = int(ledger.clock.now.timestamp() * 1000) - 1 - number
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0x8 << 60 | uuid4().int & 0xFFFFFFFFFFFF)


def _claim(ledger: Ledger, jobs: list[UUID]) -> list[Holding]:
    claimed = ledger.worker.claim_all([(job, _attempt_id(ledger, n % 1000)) for n, job in enumerate(jobs)])
    assert {one.verdict for one in claimed} == {"granted"}
    return [holding_of(one) for one in claimed]


def _fail(ledger: Ledger, holdings: list[Holding]) -> list[float]:
    from brokerjobs.ledger import calls  # noqa: PLC0415

    reports = [ledger.worker.report(holding, TEMPORARY) for holding in holdings]
    answers = ledger.worker.fetch(calls.fail(reports))
    assert {answer.state for answer in answers} == {"queued"}
    return [(answer.until - ledger.clock.now).total_seconds() for answer in answers if answer.until is not None]


def _jobs(ledger: Ledger, count: int) -> list[UUID]:
    return [job.id for job in ledger.submit_all([new_job() for _ in range(count)], "work")]


def _stretched(ledger: Ledger, limit: int = 100_000) -> dict[str, tuple[int, int, float]]:
    rows = ledger.coordinator.sql("select * from brokerjobs.stretch_retries(%s)", limit)
    return {route: (first, retries, stretch) for route, first, retries, stretch in rows}


def _storm(ledger: Ledger, firsts: int, retries: int) -> None:
    """So many first attempts have failed, and so many of them were tried again."""
    ledger.clock.advance(2)  # past the last count
    jobs = _jobs(ledger, firsts)
    for start in range(0, firsts, BATCH):
        _fail(ledger, _claim(ledger, jobs[start : start + BATCH]))
    ledger.clock.advance(3)
    ledger.coordinator.due(firsts)
    again = [job for job in jobs if ledger.rows.state(job).waiting == "delivery"][:retries]
    assert len(again) == retries
    for start in range(0, retries, BATCH):
        _claim(ledger, again[start : start + BATCH])
    ledger.clock.advance(1)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("stretch", [1.0, 4.0])
def test_fail__of_five_thousand_at_once_spreads_their_retries_evenly(ledger: Ledger, stretch: float) -> None:
    """The coefficient of variation of a uniform spread from zero is 1/sqrt(3), 0.577."""
    longest = 100.0
    ledger.declare("work", first_delay=timedelta(seconds=longest), elapsed=timedelta(days=30))
    jobs = _jobs(ledger, JOBS)
    ledger.owner.execute(
        "insert into brokerjobs.retry_budget values (%s, 0, 0, %s, %s)",
        [ledger.place.route(), stretch, ledger.clock.after(30)],
    )
    waits: list[float] = []
    for start in range(0, JOBS, BATCH):
        waits += _fail(ledger, _claim(ledger, jobs[start : start + BATCH]))

    longest *= stretch
    assert len(waits) == JOBS
    assert 0 <= min(waits) < longest / 100
    assert longest * 0.99 < max(waits) <= longest
    variation = statistics.pstdev(waits) / statistics.fmean(waits)
    assert variation == pytest.approx(0.577, abs=0.03)  # five standard errors of 0.006
    tenths = [sum(n * longest / 10 <= wait < (n + 1) * longest / 10 for wait in waits) for n in range(10)]
    assert all(400 < count < 600 for count in tenths)  # 500 each, with a standard deviation of 21


def test_stretch_retries__leaves_a_tenth_alone_and_stretches_what_is_above(own_ledger: Ledger) -> None:
    own_ledger.declare("work", attempts=9, first_delay=timedelta(seconds=2))
    own_ledger.clock.advance(10)
    assert _stretched(own_ledger) == {}
    _storm(own_ledger, 400, 90)
    assert _stretched(own_ledger) == {}  # a hundred retries in five minutes are no storm
    _storm(own_ledger, 400, 210)

    first, retries, stretch = _stretched(own_ledger)[own_ledger.place.route()]

    assert (first, retries) == (800, 300)
    assert stretch == pytest.approx(3.0)  # of the hundred that are always free
    own_ledger.clock.advance(301)
    assert _stretched(own_ledger) == {}


def test_stretch_retries__counts_against_the_first_attempts(own_ledger: Ledger) -> None:
    own_ledger.declare("work", attempts=9, first_delay=timedelta(seconds=2))
    own_ledger.clock.advance(10)
    _storm(own_ledger, 2_000, 260)
    assert _stretched(own_ledger)[own_ledger.place.route()][2] == pytest.approx(1.3)


def test_stretch_retries__counts_no_attempt_that_was_given_back(own_ledger: Ledger) -> None:
    own_ledger.clock.advance(10)
    jobs = _jobs(own_ledger, BATCH)
    for holding in _claim(own_ledger, jobs):
        own_ledger.worker.release(holding)
    own_ledger.clock.advance(1)
    _claim(own_ledger, jobs)
    own_ledger.clock.advance(1)

    assert _stretched(own_ledger) == {}
    (count,) = own_ledger.owner.execute(
        "select sum(first_attempts), sum(retries) from brokerjobs.retry_count"
    ).fetchall()
    assert count == (BATCH, 0)


def test_stretch_retries__by_two_at_once_counts_once(own_ledger: Ledger) -> None:
    counted = "select counted_to from brokerjobs.retry_counting"
    other, own = own_ledger.open("coordinator"), own_ledger.owner
    before = own.execute(counted).fetchall()
    own.execute("begin")
    own.execute("select from brokerjobs.retry_counting for update")
    assert other.sql("select * from brokerjobs.stretch_retries(9)") == []
    own.execute("rollback")

    assert own.execute(counted).fetchall() == before


@pytest.mark.parametrize("bound", ["elapsed", "deadline"])
def test_stretch__never_ends_a_job_that_may_be_retried(ledger: Ledger, bound: str) -> None:
    """A storm makes retries later, not fewer."""
    elapsed = timedelta(seconds=120) if bound == "elapsed" else timedelta(days=1)
    ledger.declare("work", first_delay=timedelta(seconds=60), elapsed=elapsed)
    ledger.owner.execute(
        "insert into brokerjobs.retry_budget values (%s, 0, 0, 10, %s) on conflict (route) do update set stretch = 10",
        [ledger.place.route(), ledger.clock.after(30)],
    )
    deadline = 120 if bound == "deadline" else None
    jobs = [job.id for job in ledger.submit_all([new_job(deadline=deadline) for _ in range(100)], "work")]

    waits = _fail(ledger, _claim(ledger, jobs))

    assert max(waits) <= 120
    assert max(waits) > 80  # stretched, as far as the bound allows: one in a billion that all of them lie below


def test_stretch__that_nobody_writes_any_more_ends(ledger: Ledger) -> None:
    ledger.declare("work", first_delay=timedelta(seconds=60))
    ledger.owner.execute(
        "insert into brokerjobs.retry_budget values (%s, 0, 0, 10, %s)", [ledger.place.route(), ledger.clock.after(30)]
    )
    ledger.clock.advance(30)

    assert max(_fail(ledger, _claim(ledger, _jobs(ledger, 100)))) <= 60


def test_retry_after__is_not_stretched(ledger: Ledger) -> None:
    ledger.owner.execute(
        "insert into brokerjobs.retry_budget values (%s, 0, 0, 10, %s)", [ledger.place.route(), ledger.clock.after(30)]
    )
    holding = ledger.worker.take(ledger.submit())

    assert ledger.worker.fail(holding, {**TEMPORARY, "retry_after": 90}).until == ledger.clock.after(90)
