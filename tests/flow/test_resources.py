"""Resources with real processes: never more holders than places, counted by lock files through kills."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from tests.flow import holding
from tests.flow.driving import coordinating, flow
from tests.flow.processes import ROOT
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from tests.databases import Database
    from tests.flow.driving import Flow

JOBS: Final = 1000
ACCOUNTS: Final = 10
WORKERS: Final = 4
KILLS: Final = 5
TURN_SECONDS: Final = 5.0

_EVENTS: Final = """
select e.seq, e.at, e.kind, e.job_id, n ->> 'name', (n ->> 'limit')::integer, a.fencing_number
  from brokerjobs.event e join brokerjobs.job j on j.id = e.job_id
    cross join lateral jsonb_array_elements(j.resources) n
    left join brokerjobs.attempt a on a.id = e.attempt_id and e.kind = 'claimed'
  order by e.seq
"""


def start(made: Flow, marks: Path, number: int) -> subprocess.Popen[bytes]:
    given = {
        "DATABASE_URL": made.options.database_url,
        "BROKER_URL": made.options.broker_url,
        "WORKER__NAME": f"worker-{number}",
        "WORKER__COORDINATOR": "false",
        "WORKER__HEARTBEAT": "1s",
        "WORKER__CONCURRENCY": "8",
        "TEST_NAMESPACE": made.app.namespace,
        "TEST_MARKS": str(marks),
    }
    environment = {**os.environ, **{f"BROKERJOBS_{key}": value for key, value in given.items()}}
    with (marks / f"worker-{number}.log").open("wb") as log:
        command = [sys.executable, "-m", "tests.flow.holding"]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)


def holders(marks: Path) -> set[int]:
    """The processes that hold a lock file just now, or held one when they were killed."""
    found: set[int] = set()
    for place in marks.iterdir():
        if place.suffix == "" and place.name != "told" and not place.name.startswith("."):
            with contextlib.suppress(FileNotFoundError, ValueError):
                found.add(int(place.read_text()))
    return found


@pytest.mark.timeout(400)  # a busy machine takes long to start eleven processes
async def test_resources__have_never_more_holders_than_places_through_a_thousand_jobs_and_kills(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    chance = random.Random(namespace)
    app, charge, send = holding.application(namespace)
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as admin,
    ):
        accounts = [{"account": str(n % ACCOUNTS)} for n in range(JOBS * 7 // 10)]
        await made.submit_many(charge, accounts)
        await made.submit_many(send, [{"account": "none"}] * (JOBS - len(accounts)))
        workers = [start(made, tmp_path, n) for n in range(WORKERS)]
        killed, kill_at = 0, time.monotonic()

        async def done() -> bool:
            nonlocal killed, kill_at
            if killed < KILLS and time.monotonic() >= kill_at:
                holding_now = [worker for worker in workers if worker.pid in holders(tmp_path)]
                if holding_now:
                    chosen = workers.index(chance.choice(holding_now))
                    workers[chosen].kill()
                    workers[chosen].wait(10)
                    killed, kill_at = killed + 1, time.monotonic() + chance.uniform(0.3, 2)
                    workers[chosen] = start(made, tmp_path, WORKERS + killed)
            unfinished = await admin.execute("select from brokerjobs.job_state where finished_at is null limit 1")
            return await unfinished.fetchone() is None

        try:
            await eventually(done, 300)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait(10)
    assert killed == KILLS
    assert not (tmp_path / "told").exists(), (tmp_path / "told").read_text()
    with psycopg.connect(database.admin_url) as owner:
        assert owner.execute("select distinct state from brokerjobs.job_state").fetchall() == [("succeeded",)]
        events = owner.execute(_EVENTS).fetchall()
    assert passed_by(events) == []
    lost = sum(kind == "lease_expired" for _, _, kind, *_ in events)
    print(f"{killed} kills cost {lost} attempts")  # noqa: T201
    assert lost > 0, "no kill hit an attempt"


def passed_by(events: list[tuple[int, datetime, str, UUID, str, int, int | None]]) -> list[str]:
    """Who took a resource before one who had waited for it longer, and numbers that did not grow."""
    since: dict[tuple[str, UUID], datetime] = {}  # by the ledger's clock, as it was when each was told to wait
    rung: dict[tuple[str, UUID], datetime] = {}
    last: dict[str, int] = {}
    found: list[str] = []
    for _, at, kind, job, name, limit, number in events:
        if kind == "resource_busy":
            since.setdefault((name, job), at)
            rung.pop((name, job), None)
        elif kind == "resource_free":
            rung[name, job] = at
        elif kind == "claimed":
            assert number is not None
            if number <= last.get(name, 0):
                found.append(f"{name}: {job} was given {number} after {last[name]}")
            last[name] = number
            own = since.pop((name, job), datetime.max.replace(tzinfo=UTC)), job
            late = {one for one, then in rung.items() if (at - then).total_seconds() >= TURN_SECONDS}
            # A batch writes its claims last: whom it told to wait after this turn was decided, this one has not passed.
            waiting = [(then, one) for (line, one), then in since.items() if line == name and (line, one) not in late]
            before = [one for one in waiting if one[0] < at and one < own]
            if len(before) >= limit:
                found.append(f"{name}: {job} passed {len(before)} who had waited longer")
            rung.pop((name, job), None)
    return found
