"""Case 27: workers whose clocks are ten minutes wrong: the ledger's clock decides, and the skew is said."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.flow.driving import coordinating
from tests.flow.processes import Stage, WorkerProcess, stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from tests.databases import Database

TEN_MINUTES = 600.0


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("clock_seconds", [TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
async def test_case_27_the_ledgers_clock_decides_and_the_skew_is_said(
    database: Database, namespace: str, broker_url: str, tmp_path: Path, clock_seconds: float
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        with on.worker(clock_seconds=clock_seconds, WORKER__CLOCK_SKEW="2s") as worker:
            await eventually(lambda: _says(worker, "is up for"), 30)
            long = await on.made.submit(on.once, ["line:long", "touch:began", "wait:go"])
            late = await on.made.submit(on.repeatable, ["touch:late", "wait:overdue"], deadline=timedelta(minutes=5))
            retried = await on.made.submit(on.repeatable, ["line:retried", "first", "raise:once"])
            timely = await on.made.submit(on.repeatable, ["line:timely"], deadline=timedelta(minutes=5))
            for job in (long, late, retried, timely):
                await on.made.ring(job.id)
            delayed = await on.made.submit(on.repeatable, ["line:delayed"], not_before=timedelta(seconds=1.5))
            await on.marked("began")
            await on.marked("late")
            records = {
                name: await on.made.reached(job.id, "succeeded", 30)
                for name, job in (("delayed", delayed), ("retried", retried), ("timely", timely))
            }
            await eventually(lambda: _renewed_for(on, long.id, 2.0), 30)
            on.mark("go")
            await _let_pass(database, late.id)
            on.mark("overdue")
            records["long"] = await on.made.reached(long.id, "succeeded", 20)
            (measured,) = await _processes(database, "worker")
            assert await worker.drain() == 0
            records["late"] = await on.made.reached(late.id, "failed", 20)

    direction = "ahead of" if clock_seconds > 0 else "behind"
    assert re.search(
        rf"clock of this host is (599|600)\.\d s {direction} the ledger's, over the limit of 2s", worker.said
    )
    assert worker.said.count("the clock of this host is") == 1
    assert abs(measured["clock_skew_seconds"] - clock_seconds) < 2
    assert {name: len(record["attempts"]) for name, record in records.items()} == {
        "long": 1,
        "delayed": 1,
        "retried": 2,
        "timely": 1,
        "late": 1,
    }
    assert records["late"]["failure"]["class"] == "deadline"
    assert at(records["delayed"]["attempts"][0]["claimed_at"]) >= at(records["delayed"]["not_before"])
    for record in records.values():
        for attempt in record["attempts"]:
            _decided_by_the_ledger(attempt, clock_seconds)
        events = [at(event["at"]) for event in record["events"]]
        assert events == sorted(events)


def _decided_by_the_ledger(attempt: dict[str, Any], clock_seconds: float) -> None:
    """The lease is the ledger's, and each observed time stands beside the one when the ledger heard of it."""
    claimed = at(attempt["claimed_at"])
    assert at(attempt["lease"]["first_until"]) - claimed == timedelta(seconds=1)
    # Either the ledger ended it at its deadline, and the report came after that, or the report was the end.
    assert attempt["late"] is (attempt["closed"]["as"] == "timed_out")
    for observed, received in (
        (attempt["report"]["observed_at"], attempt["report"]["received_at"]),
        (attempt["observed_started_at"], attempt["claimed_at"]),
        (attempt["delivery"]["observed_at"], attempt["claimed_at"]),
    ):
        off = (at(observed) - at(received)).total_seconds()
        assert abs(off - clock_seconds) < 30
    assert claimed <= at(attempt["started_at"]) <= at(attempt["report"]["received_at"])


async def _let_pass(database: Database, job_id: UUID) -> None:
    """Puts the job's deadline before the ledger's now, which the worker's clock may see otherwise."""
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        await connection.execute(
            "update brokerjobs.job_state set deadline = clock_timestamp() - interval '1 ms' where job_id = %s", [job_id]
        )


async def _says(worker: WorkerProcess, words: str) -> bool:
    return words in worker.said


async def _renewed_for(on: Stage, job_id: UUID, seconds: float) -> bool:
    """Whether the job's lease of one second was renewed for so long."""
    lease = (await on.made.record(job_id))["attempts"][0]["lease"]
    return at(lease["last_until"]) - at(lease["first_until"]) > timedelta(seconds=seconds)


async def _processes(database: Database, role: str) -> list[dict[str, Any]]:
    async with await psycopg.AsyncConnection.connect(database.admin_url) as connection:
        rows = await connection.execute("select detail from brokerjobs.worker where role = %s", [role])
        return [row[0] for row in await rows.fetchall()]
