"""Whole jobs over the broker in memory: what it loses, repeats and reorders costs time, and never a job."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from brokerjobs import App
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.memory.address import named
from brokerjobs.broker.memory.faults import drawn
from brokerjobs.broker.memory.store import MemoryBroker
from brokerjobs.broker.names import route_name
from brokerjobs.servers.memory import PrivateMemoryBroker
from tests.flow.driving import coordinating, flow
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from tests.databases import Database

QUICK: dict[str, Any] = {"reconcile": timedelta(milliseconds=200), "probe_timeout": timedelta(seconds=1)}
HEARTBEAT = timedelta(milliseconds=300)


@pytest.fixture
def server() -> Iterator[PrivateMemoryBroker]:
    folder = Path(tempfile.mkdtemp(prefix="brokerjobs-"))
    with PrivateMemoryBroker.start(folder / "broker") as started:
        yield started
    shutil.rmtree(folder)


async def count(database: Database, query: str, *params: object) -> int:
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        row = await (await connection.execute(query.encode(), params)).fetchone()
    assert row is not None
    return int(row[0])


async def all_succeeded(database: Database, jobs: Sequence[UUID], within_seconds: float = 50.0) -> None:
    async def have() -> bool:
        done = "select count(*) from brokerjobs.job_state where job_id = any (%s) and state = 'succeeded'"
        return await count(database, done, list(jobs)) == len(jobs)

    await eventually(have, within_seconds)
    assert await count(database, "select count(*) from brokerjobs.attempt where verdict = 'accepted'") == len(jobs)


@pytest.mark.parametrize("seed", [1, 2])
async def test_doorbells__that_are_lost_repeated_and_reordered_cost_no_job(
    database: Database, namespace: str, seed: int
) -> None:
    """In one process, with the worker and the coordinator of production."""
    app = App(namespace)
    runs: list[int] = []

    @app.job("work", repeatable=True)
    async def work(payload: int) -> int:
        runs.append(payload)
        return payload

    memory = MemoryBroker()
    with named(memory) as url:
        async with flow(app, database, url) as made:
            # Longer than there are jobs: some of it befalls the probes that look for what was lost.
            memory.faults.plan(drawn(seed, 105, drop=0.2, repeat=0.2, hold=0.2), seed)
            jobs = await made.submit_many(work, range(100))
            async with coordinating(made, **QUICK), made.working(made.worker(heartbeat=HEARTBEAT)):
                await all_succeeded(database, jobs)
    assert sorted(runs) == list(range(100)), "each ran once: what was repeated was answered from the ledger"
    assert await count(database, "select count(*) from brokerjobs.event where kind = 'rung_again'") > 0
    assert await count(database, "select count(*) from brokerjobs.event where kind = 'duplicate_delivery'") > 0


async def test_broker__whose_process_is_killed_costs_no_job(
    database: Database, namespace: str, server: PrivateMemoryBroker
) -> None:
    """Its queues are declared anew, and the ledger rings what it had."""
    app = App(namespace)

    @app.job("work", repeatable=True)
    async def work(payload: int) -> int:
        return payload

    route = route_name(namespace, "default")
    async with flow(app, database, server.url) as made, coordinating(made, **QUICK):
        jobs = await made.submit_many(work, range(50))

        async def all_are_there() -> bool:
            return await broker_at(server.url).message_count(route) == 50

        await eventually(all_are_there, 20)
        server.kill()
        server.resume()
        assert await broker_at(server.url).message_count(route) is None
        async with made.working(made.worker(heartbeat=HEARTBEAT)):
            await all_succeeded(database, jobs)


async def test_worker_process__that_is_killed_gives_its_deliveries_back(
    database: Database, namespace: str, server: PrivateMemoryBroker, tmp_path: Path
) -> None:
    """Real processes: what the dead one had not claimed comes to the other at once, what it ran after its lease."""
    async with stage(database, namespace, server.url, tmp_path) as on:
        jobs = await on.made.submit_many(on.repeatable, [["touch:began", "wait:go"]] * 4)
        async with coordinating(on.made):
            with on.worker("worker-a", WORKER__CONCURRENCY="1", WORKER__PREFETCH="4") as dead:
                await on.marked("began")

                async def all_are_held() -> bool:
                    return await broker_at(server.url).message_count(route_name(namespace, "default")) == 0

                await eventually(all_are_held, 20)
                dead.kill()
            on.mark("go")
            with on.worker("worker-b") as alive:
                await all_succeeded(database, jobs)
                assert await alive.drain() == 0
            assert "is for demo, tests and simulation" in alive.said
    assert await count(database, "select count(*) from brokerjobs.attempt where closed_as = 'timed_out'") == 1
