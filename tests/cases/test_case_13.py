"""Case 13: a worker dies and another comes under its name; its jobs end by their leases, each as its type says."""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from tests.flow.driving import coordinating
from tests.flow.processes import stage

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tests.databases import Database

NAME = "pod-0"


async def processes(database: Database) -> list[tuple[datetime, str]]:
    """The last heartbeat and the state of each process that had the name, the first one first."""
    async with await psycopg.AsyncConnection.connect(database.owner_url) as connection:
        rows = await connection.execute(
            "select heartbeat_at, state from brokerjobs.worker where name = %s order by started_at", [NAME]
        )
        return await rows.fetchall()


async def test_case_13_a_name_that_lives_again_keeps_no_lease(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        with on.worker(NAME) as dying:
            once = await on.made.submit(on.once, ["line:paid", "touch:once", "first", "wait:never"])
            again = await on.made.submit(on.repeatable, ["line:drawn", "touch:again", "first", "wait:never"])
            await on.marked("once")
            await on.marked("again")
            dying.signal(signal.SIGKILL)
            await dying.ended()
        with on.worker(NAME) as living:
            succeeded = await on.made.reached(again.id, "succeeded", 30)
            review = await on.made.reached(once.id, "review", 30)
            shown = await processes(database)
            assert await living.drain() == 0

    # Both processes are shown, the lost one with its last heartbeat.
    assert [state for _, state in shown] == ["online", "online"]
    assert shown[0][0] + timedelta(seconds=1) < shown[1][0]

    # The heartbeats of the name's new owner kept neither attempt alive, and no job had to reap them.
    first, second = succeeded["attempts"]
    assert (first["state"], first["closed"]["why"], second["state"]) == ("timed_out", "lease expired", "completed")
    assert (first["worker"], second["worker"]) == (NAME, NAME)
    assert first["worker_id"] != second["worker_id"]
    assert first["safe_to_retry"] == {"safe": True, "why": "its type is repeatable"}
    assert on.lines("drawn") == ["1", "2"]

    # What may not be repeated was not: a person decides.
    (lost,) = review["attempts"]
    assert (lost["state"], lost["closed"]["why"]) == ("timed_out", "lease expired")
    assert lost["safe_to_retry"]["safe"] is False
    assert on.lines("paid") == ["1"]
    (opened,) = review["reviews"]
    assert opened["closed_at"] is None
    assert opened["cause"] == "the attempt had started, its outcome is unknown and it is not repeatable"
