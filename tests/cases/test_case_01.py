"""Case 01: a delivery that is acknowledged at its claim is in no queue any more: the ledger brings its job back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.broker import raw
from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases import Database


async def test_case_01_a_worker_that_dies_after_it_acknowledged_at_the_claim_loses_no_job(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        # A time limit of ten minutes is over half of this time-out.
        with on.worker(BROKER__CONSUMER_TIMEOUT="5s") as worker:
            job = await on.made.submit(on.repeatable, ["line:ran", "touch:began", "first", "wait:never"])
            await on.made.ring(job.id)
            await on.marked("began")

            async def acknowledged() -> bool:
                return (await on.made.record(job.id))["attempts"][0]["ack_sent_at"] is not None

            await eventually(acknowledged, 20)
            worker.kill()
        assert await raw.messages_in(broker_url, f"{namespace}.q.default") == 0, (
            "the broker has nothing to deliver again"
        )
        with on.worker("worker-b", BROKER__CONSUMER_TIMEOUT="5s") as successor:
            record = await on.made.reached(job.id, "succeeded", 30)
            assert await successor.drain() == 0
    assert [attempt["state"] for attempt in record["attempts"]] == ["timed_out", "completed"]
    assert [attempt["worker"] for attempt in record["attempts"]] == ["worker-a", "worker-b"]
    assert on.lines("ran") == ["1", "2"]
