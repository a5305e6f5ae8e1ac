"""Negative controls: guards that look right and accept a stale result are caught by the test that the product passes.

PostgreSQL, READ COMMITTED: an UPDATE that waited for a row looks again at that row alone; other tables, and rows read
before without a lock, are still those of its old snapshot (PostgreSQL manual, transaction-iso.html 13.2.1).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString

import pytest

from tests.ledger.invariants import violations
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

# `complete` with the arguments and answers of the product's, and another guard in $guarded, which moves the job.
_WRONG: LiteralString = """
create or replace function brokerjobs.complete(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_results text[], p_observed_at timestamptz[],
  p_started_at timestamptz[], p_renewals integer[], p_margins double precision[], p_round_trips double precision[])
returns table (job_id uuid, attempt_id uuid, verdict text, reason text, late boolean, state text, until timestamptz)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
#variable_conflict use_column
declare
  p_job uuid := p_jobs[1];
  p_attempt uuid := p_attempts[1];
  p_fencing_number bigint := p_fencing_numbers[1];
begin
  job_id := p_job; attempt_id := p_attempt;
  $guarded;
  verdict := case when found then 'accepted' else 'rejected' end;
  reason := case when not found then 'newer_attempt' end;
  if found then
    update attempt a set closed_at = coalesce(closed_at, clock()), closed_as = coalesce(closed_as, 'completed'),
        closed_by = coalesce(closed_by, 'report'), reported_at = clock(), reported_as = 'completed',
        verdict = 'accepted', result = p_results[1]::jsonb
      where a.id = p_attempt;
    insert into event (at, job_id, attempt_id, kind, state)
      values (clock(), p_job, p_attempt, 'succeeded', 'succeeded');
  end if;
  return next;
end $$
"""
_SET: LiteralString = (
    "set state = 'succeeded', waiting = null, wait_until = null, lease_until = null, reported = true,"
    " accepted_attempt_id = p_attempt, finished_at = clock()"
)
_GUARDS: dict[str, LiteralString] = {
    "the guard stands in an EXISTS on another table": f"""
      update job_state x {_SET} where x.job_id = p_job
        and exists (select from attempt a
          where a.id = p_attempt and a.fencing_number = p_fencing_number and a.closed_at is null)""",
    "the guard is a join": f"""
      update job_state x {_SET} from attempt a where x.job_id = p_job
        and a.id = p_attempt and a.fencing_number = p_fencing_number and a.closed_at is null""",
    "the row is locked in a CTE, the guard stands outside": f"""
      with l as (select x.job_id from job_state x where x.job_id = p_job for update)
      update job_state x {_SET} from l where x.job_id = l.job_id
        and exists (select from attempt a
          where a.id = p_attempt and a.fencing_number = p_fencing_number and a.closed_at is null)""",
    "the guard is read in a CTE without a lock": f"""
      with l as materialized (select x.job_id from job_state x where x.job_id = p_job and x.attempt_id = p_attempt
        and x.fencing_number = p_fencing_number and x.state = 'running')
      update job_state x {_SET} from l where x.job_id = l.job_id""",
    "the guard is the state alone": f"""
      update job_state x {_SET} where x.job_id = p_job and x.state = 'running'""",
}


def _race(ledger: Ledger) -> tuple[str, Holding]:
    """A's completion meets B's takeover, done and not yet committed; answers what A's worker is told in the end."""
    ledger.declare("work", first_delay=timedelta(0))
    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.clock.advance(30)
    late, other = ledger.worker, ledger.open()
    other.begin()
    second = other.take(job)
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(_complete_until_answered, late, first)
        # The wrong ones wait for the row; the product's says `locked` and is asked again.
        eventually_sync(lambda: ledger.is_blocked(late) or late.process.name in _asked_again)
        other.commit()
        verdict = answer.result()
    _asked_again.clear()
    assert ledger.rows.state(job).fencing_number == second.fencing_number
    return verdict, first


_asked_again: set[str] = set()


def _complete_until_answered(caller: Caller, holding: Holding) -> str:
    while (answer := caller.complete(holding)).verdict == "locked":
        _asked_again.add(caller.process.name)
    return answer.verdict


def test_complete__refuses_what_a_takeover_made_stale(own_ledger: Ledger) -> None:
    verdict, first = _race(own_ledger)

    assert verdict == "rejected"
    assert own_ledger.rows.attempt(first.attempt_id).verdict_reason == "newer_attempt"
    assert violations(own_ledger.owner) == []


@pytest.mark.parametrize("guard", _GUARDS)
def test_race__catches_a_wrong_guard(own_ledger: Ledger, guard: str) -> None:
    own_ledger.owner.execute(_WRONG.replace("$guarded", _GUARDS[guard]).encode())

    verdict, first = _race(own_ledger)

    assert verdict == "accepted"  # a stale result, with the other attempt at work
    broken = {rule for rule, job in violations(own_ledger.owner) if job == first.job_id}
    assert "the accepted attempt holds the job's last fencing number" in broken
