"""Retention: no record goes while its artifacts have objects, and none goes without the rows of its artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.ledger import artifacts, retention, ticks
from tests.ledger.staging import DAY, Staging, named

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

SUCCEEDED = retention.Horizons().succeeded.total_seconds()
ENDED = retention.Horizons().ended.total_seconds()
INVALID = {"class": "invalid", "classified": True, "type": "E", "message": "no"}


@pytest.fixture
def staging(ledger: Ledger) -> Staging:
    """The artifacts of a test; these let more time pass than the months of events that set-up has made."""
    ledger.coordinator.sql("select brokerjobs.make_partitions(36)")
    return Staging(ledger)


def retain(staging: Staging, limit: int = 1000) -> int:
    """How many jobs one tick removes; those of other tests are gone before."""
    by = staging.ledger.coordinator
    candidacy = ticks.Candidacy(f"retention of {staging.store}", by.process, 60)
    (removed,) = by.fetch(retention.remove(candidacy, retention.Horizons(), limit))
    assert removed.leading
    return removed.jobs or 0


def is_there(staging: Staging, job: UUID) -> bool:
    """Whether the job's record is."""
    query = "select exists (select from brokerjobs.job_state where job_id = %s)"
    return staging.ledger.rows.scalar(query, [job], of=bool)


def rows_of(staging: Staging, job: UUID) -> int:
    """The rows of a job's artifacts."""
    return staging.ledger.rows.scalar("select count(*) from brokerjobs.artifact where job_id = %s", [job], of=int)


def take(staging: Staging, kind: str = "work") -> Holding:
    """A running attempt."""
    return staging.ledger.worker.take(staging.ledger.submit(kind))


def test_job__stays_until_its_objects_are_gone(staging: Staging) -> None:
    """Nobody else knows where they are."""
    holding, artifact_id = staging.handed_over(keep_for=40 * DAY)
    staging.ledger.clock.advance(SUCCEEDED + 1)
    retain(staging)
    assert is_there(staging, holding.job_id)
    staging.ledger.clock.advance(10 * DAY)
    assert staging.sweep() == {artifact_id: "unacknowledged"}
    retain(staging)
    assert is_there(staging, holding.job_id)

    staging.removed(artifact_id)
    retain(staging)

    assert not is_there(staging, holding.job_id)
    assert rows_of(staging, holding.job_id) == 0
    assert staging.ledger.producer.fetch(artifacts.artifact(artifact_id)) == []


def test_job__without_artifacts_is_not_held_up_by_others(staging: Staging) -> None:
    for _ in range(3):
        staging.handed_over(keep_for=40 * DAY)
    other = take(staging)
    staging.ledger.worker.complete(other)
    staging.ledger.clock.advance(SUCCEEDED + 1)

    while retain(staging, limit=1):
        pass

    assert not is_there(staging, other.job_id)


@pytest.mark.parametrize("how", ["failed", "cancelled", "adoptable"])
def test_ended_job__gives_what_it_has_left_to_the_sweeper(staging: Staging, how: str) -> None:
    """And goes after it; what could be adopted for so long is not kept for ever."""
    ledger = staging.ledger
    ledger.declare("work", attempts=1)
    holding = take(staging)
    ready, begun = staging.put(holding, "a"), staging.begun(holding, "b")
    staging.discard(gone := staging.begun(holding, "c"), holding)
    staging.sweep()
    staging.removed(gone)
    if how == "failed":
        ledger.worker.fail(holding, INVALID)
    elif how == "cancelled":
        ledger.producer.cancel(holding.job_id)
        ledger.worker.release(holding, "cancelled")
    else:
        until = ledger.lose(holding).until
        assert until is not None
        ledger.clock.set(until)
        ledger.coordinator.due()
        ledger.worker.complete(holding, named(ready))
    ledger.clock.advance(ENDED - 1)
    retain(staging)
    assert {staging.shown(one).state for one in (ready, begun)} == {"ready", "staging"}
    ledger.clock.advance(2)

    retain(staging)
    assert is_there(staging, holding.job_id)
    assert staging.sweep() == {ready: "not_accepted", begun: "incomplete"}
    retain(staging)
    assert is_there(staging, holding.job_id)
    if how == "adoptable":
        answer = ledger.operator.adopt(holding)
        assert (answer["verdict"], "being removed" in answer["why"]) == ("refused", True)
    staging.removed(ready, begun)
    retain(staging)
    assert not is_there(staging, holding.job_id)
    assert rows_of(staging, holding.job_id) == 0


def test_jobs__that_wait_for_the_sweeper_hold_up_no_others(staging: Staging) -> None:
    jobs: list[UUID] = []
    for _ in range(3):
        holding = take(staging)
        staging.put(holding)
        staging.ledger.worker.fail(holding, INVALID)
        staging.ledger.clock.advance(1)
        jobs.append(holding.job_id)
    other = take(staging)
    staging.ledger.worker.fail(other, INVALID)
    staging.ledger.clock.advance(ENDED + 1)

    for _ in range(50):
        if not is_there(staging, other.job_id):
            break
        retain(staging, limit=2)

    assert [is_there(staging, job) for job in (*jobs, other.job_id)] == [True, True, True, False]


def test_retention__waits_for_no_artifact(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.put(holding)
    staging.ledger.worker.fail(holding, INVALID)
    staging.ledger.clock.advance(ENDED + 1)
    other = staging.ledger.open("owner")
    other.begin()
    other.sql("select from brokerjobs.artifact where id = %s for update", artifact_id)
    staging.ledger.coordinator.sql("set statement_timeout = '2s'")

    retain(staging)
    assert staging.shown(artifact_id).removing is None
    other.rollback()
    retain(staging)

    staging.ledger.coordinator.sql("set statement_timeout = 0")
    assert staging.shown(artifact_id).removing is not None


def test_row__whose_job_is_gone_is_swept_and_forgotten(staging: Staging) -> None:
    """One that was staged in a transaction which stayed open all the time."""
    holding = take(staging)
    open_all_the_time = staging.ledger.open("worker")
    open_all_the_time.begin()
    artifact_id = staging.begun(holding, by=open_all_the_time)
    staging.ledger.worker.complete(holding)
    staging.ledger.clock.advance(SUCCEEDED + 1)
    retain(staging)
    assert not is_there(staging, holding.job_id)
    open_all_the_time.commit()

    assert staging.sweep() == {artifact_id: "incomplete"}
    staging.removed(artifact_id)
    staging.ledger.clock.advance(ENDED - 1)
    retain(staging)
    assert rows_of(staging, holding.job_id) == 1
    staging.ledger.clock.advance(2)
    retain(staging)
    assert rows_of(staging, holding.job_id) == 0


def test_orphans__that_are_gone_are_forgotten(staging: Staging) -> None:
    by = staging.ledger.coordinator
    by.sql("select * from brokerjobs.artifacts_known(%s, '{x,y}', '{1,1}')", staging.store)
    by.sql("select brokerjobs.orphans_removed(%s, '{x}')", staging.store)
    staging.ledger.clock.advance(retention.Horizons().quarantine.total_seconds() + 1)
    retain(staging)

    query = "select path from brokerjobs.artifact_orphan where store = %s"
    assert staging.ledger.owner.execute(query, [staging.store]).fetchall() == [("y",)]
