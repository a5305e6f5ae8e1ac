"""A worker that is told to end while its ledger gives no answer ends all the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import App
from brokerjobs.ledger import calls
from brokerjobs.worker.worker import DrainedWith
from tests.flow.driving import coordinating, flow
from tests.flow.troubled import troubled

if TYPE_CHECKING:
    from brokerjobs.ledger.database import Query
    from tests.databases import Database


@pytest.mark.timeout(120)
@pytest.mark.parametrize("silent", [False, True])
async def test_drain__ends_though_a_claim_is_never_answered(
    database: Database, namespace: str, broker_url: str, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    app, asked = App(namespace), asyncio.Event()
    claim = calls.claim

    def seen(*request: Any) -> Query[calls.Claimed]:
        asked.set()
        return claim(*request)

    monkeypatch.setattr(calls, "claim", seen)
    ran: list[int] = []

    @app.job("work", repeatable=False, lease=timedelta(seconds=1))
    async def work(payload: int) -> None:
        ran.append(payload)

    async with flow(app, database, broker_url) as made, coordinating(made):
        async with troubled(database.worker_url) as (line, url):
            worker = made.worker(database_url=url, drain=timedelta(0))
            running = asyncio.create_task(worker.run())
            (first,) = await made.submit_many(work, [1])
            await made.reached(first, "succeeded", 20)
            if silent:
                line.silence()
            else:
                await line.stop()
            asked.clear()
            (job,) = await made.submit_many(work, [2])
            await asyncio.wait_for(asked.wait(), 20)
            worker.drain()
            drained = await asyncio.wait_for(running, 20)
        async with made.working(made.worker("worker-b")):
            record = await made.reached(job, "succeeded", 30)
    assert drained is DrainedWith.SOMETHING_LEFT_TO_ITS_LEASE
    assert (ran, record["reviews"]) == ([1, 2], [])
