"""One job for real: submitted, rung, claimed, run, accepted, acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from brokerjobs import App
from tests.flow.driving import flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from brokerjobs.context import JobContext
    from tests.databases import Database


class Add(BaseModel):
    left: int
    right: int


async def test_job__is_run_once_accepted_and_acknowledged(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    seen: list[tuple[int, int]] = []

    @app.job("add", repeatable=True)
    async def add(payload: Add, ctx: JobContext) -> int:
        seen.append((payload.left, ctx.attempt.number))
        return payload.left + payload.right

    async with flow(app, database, broker_url) as made:
        job = await made.submit(add, Add(left=1, right=2))
        async with made.working(made.worker()):
            await made.ring(job.id)
            await made.reached(job.id, "succeeded")
        record = await made.record(job.id)
    assert seen == [(1, 1)]
    assert record["result"] == 3
    (attempt,) = record["attempts"]
    assert attempt["state"] == "completed"
    assert attempt["report"]["verdict"] == "accepted"
    assert attempt["ack_sent_at"] is not None
    assert [event["kind"] for event in record["events"]] == ["submitted", "claimed", "succeeded"]


async def test_second_delivery__is_answered_from_the_ledger(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    calls: list[int] = []

    @app.job("count", repeatable=True)
    async def count(payload: int) -> None:
        calls.append(payload)

    async with flow(app, database, broker_url) as made:
        job = await made.submit(count, 7)
        async with made.working(made.worker()):
            await made.ring(job.id)
            await made.reached(job.id, "succeeded")
            await made.ring(job.id, times=100)

            async def all_answered() -> bool:
                events = (await made.record(job.id))["events"]
                return [event["kind"] for event in events].count("duplicate_delivery") == 100

            await eventually(all_answered)
    assert calls == [7]
