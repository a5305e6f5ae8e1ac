"""Case 29: a sync handler that blocks in the system for ever, beyond its time limit, in a thread and in a process."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import psycopg

from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases import Database
    from tests.flow.processes import Stage


def send(on: Stage, name: str) -> None:
    """What the handler waits for."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(b"x", str(on.marks / name))


async def told(database: Database) -> int:
    """The last heartbeat's number of handlers that cannot be stopped."""
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        found = await connection.execute("select sum((detail ->> 'leaked_threads')::int) from brokerjobs.worker")
        row = await found.fetchone()
    return int(row[0] or 0) if row else 0


async def test_case_29_a_thread_is_fenced_off_and_counted_and_its_worker_replaced(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        with on.worker(WORKER__LEAKED_THREADS="2") as worker:
            job = await on.made.submit(on.threaded, ["receive:a"])
            record = await on.made.reached(job.id, "failed", 20)

            async def counted() -> bool:
                return await told(database) == 1

            await eventually(counted)
            send(on, "a")

            async def kept() -> bool:
                return [one["result"] for one in (await on.made.record(job.id))["late_reports"]] == ["attempt 1"]

            await eventually(kept)

            async def free() -> bool:
                return await told(database) == 0

            await eventually(free)
            after = await on.made.record(job.id)
            others = [await on.made.submit(on.threaded, [f"receive:{name}"]) for name in ("b", "c")]
            code = await worker.ended()
            states = [await on.made.state(other.id) for other in others]
        with on.worker("worker-b"):  # its supervisor's
            fine = await on.made.submit(on.threaded, [])
            await on.made.reached(fine.id, "succeeded", 20)
    (attempt,) = record["attempts"]
    assert (attempt["state"], attempt["failure"]["type"]) == ("failed", "TimeLimitExceeded")
    assert "its thread cannot be stopped and goes on" in attempt["failure"]["message"]
    assert (after["state"], after["result"]) == ("failed", None)
    assert (code, states) == (12, ["failed", "failed"])
    assert "this worker drains and ends with code 12" in worker.said


async def test_case_29_a_process_is_killed(database: Database, namespace: str, broker_url: str, tmp_path: Path) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        with on.worker() as worker:
            job = await on.made.submit(on.pooled_once, ["pid:blocked", "receive:a"])
            record = await on.made.reached(job.id, "review", 20)
            next_one = await on.made.submit(on.pooled, ["pid:next"])
            await on.made.reached(next_one.id, "succeeded", 20)
            assert worker.popen.poll() is None
            assert await told(database) == 0
    (attempt,) = record["attempts"]
    assert (attempt["state"], attempt["failure"]["type"]) == ("failed", "TimeLimitExceeded")
    assert (on.marks / "next").read_text() != (on.marks / "blocked").read_text()
