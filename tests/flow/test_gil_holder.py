"""What no thread can keep: a handler that holds the interpreter's lock silences every thread of its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases import Database


async def test_holder_of_the_gil__loses_its_lease_is_fenced_and_named(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        job = await on.made.submit(on.repeatable, ["line:ran", "first", "hold:4"])
        with on.worker(WORKER__PREFETCH="1") as holding:

            async def holds() -> bool:
                return on.lines("ran") == ["1"]

            async def reported() -> bool:
                record = await on.made.record(job.id)
                return record["attempts"][0]["report"] is not None

            await eventually(holds, 20)
            with on.worker("worker-b"):
                await on.made.reached(job.id, "succeeded", 20)
                await eventually(reported, 20)
            record = await on.made.record(job.id)
    first, second = record["attempts"]
    assert (first["state"], first["report"]["verdict"]) == ("rejected_stale", "rejected")
    assert (second["state"], record["result"]) == ("completed", "attempt 2")
    assert "held the interpreter's lock (GIL)" in holding.said
    assert f"Running or just begun: repeatable {job.id}" in holding.said
