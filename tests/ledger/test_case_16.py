"""Case 16 (riverqueue/river#1302 and others): a result that arrives in the moment in which its lease is given up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from uuid_utils.compat import uuid7

from brokerjobs.rules.states import FINISHED
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import Caller, holding_of, new_job

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

ROUNDS = 1_000
LEASE = 3_600


@dataclass(slots=True)
class Racers:
    """A completes, B gives the lease up and takes the job; a barrier sends both off at once."""

    a: Caller
    b: Caller
    barrier: threading.Barrier

    def complete(self, holding: Holding, head_start: int) -> str:
        self.barrier.wait()
        for _ in range(head_start):
            self.a.sql("select")
        while (answer := self.a.complete(holding, {"by": "A"})).verdict == "locked":
            pass
        return answer.verdict

    def take_over(self, job: UUID, attempt: UUID, head_start: int) -> str:
        self.barrier.wait()
        for _ in range(head_start):
            self.b.sql("select")
        while (answer := self.b.claim(job, attempt)).verdict == "locked":
            pass
        if answer.verdict != "granted":
            return answer.verdict
        while (reported := self.b.complete(holding_of(answer), {"by": "B"})).verdict == "locked":
            pass
        return reported.verdict


@pytest.mark.timeout(240)  # a thousand rounds, on a machine that may be busy
def test_case_16__a_completion_races_with_the_expiry_of_its_lease(own_ledger: Ledger) -> None:
    ledger = own_ledger
    ledger.declare("work", lease=timedelta(seconds=LEASE), first_delay=timedelta(0))
    racers = Racers(ledger.open(), ledger.open(), threading.Barrier(2))
    jobs = [answer.id for answer in ledger.submit_all([new_job() for _ in range(ROUNDS)])]
    holdings = [holding_of(answer) for answer in racers.a.claim_all([(job, uuid7()) for job in jobs])]
    # Renewed a second apart, so that in each second one lease runs out, and one only.
    ledger.owner.execute(
        "update brokerjobs.job_state x set lease_until = x.lease_until + make_interval(secs => n)"
        " from unnest(%s::uuid[]) with ordinality j (id, n) where x.job_id = j.id",
        [jobs],
    )
    ledger.clock.advance(LEASE + 1)

    outcomes: dict[tuple[str, str], int] = {}
    with ThreadPoolExecutor(2) as threads:
        for i, (job, holding) in enumerate(zip(jobs, holdings, strict=True)):
            # Who comes first is left to chance in every second round, and to each of them in the others.
            starts = ((0, 0), (1, 0), (0, 0), (0, 1))[i % 4]
            completed = threads.submit(racers.complete, holding, starts[0])
            taken = threads.submit(racers.take_over, job, uuid7(), starts[1])
            outcome = (completed.result(), taken.result())
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            ledger.clock.advance(1)

    # Either A's result is accepted and B finds the job finished, or B has taken it and A's result is kept and rejected.
    assert set(outcomes) == {("accepted", "finished"), ("rejected", "accepted")}
    assert min(outcomes.values()) > ROUNDS / 100, outcomes
    assert violations(ledger.owner) == []
    assert _ends(ledger) == {1}
    assert _losers_kept(ledger) == outcomes["rejected", "accepted"]


def _ends(ledger: Ledger) -> set[int]:
    """How many times a job reached an end."""
    rows = ledger.owner.execute(
        "select count(*) from brokerjobs.event where kind <> 'duplicate_delivery' and kind <> 'report_rejected'"
        " and state = any (%s) group by job_id",
        [list(FINISHED)],
    )
    return {row[0] for row in rows}


def _losers_kept(ledger: Ledger) -> int:
    return ledger.rows.scalar(
        "select count(*) from brokerjobs.attempt where verdict = 'rejected'"
        " and verdict_reason = any (array['newer_attempt', 'job_succeeded'])"
        " and closed_as = 'timed_out' and result = '{\"by\": \"A\"}' and reported_at is not null",
        of=int,
    )
