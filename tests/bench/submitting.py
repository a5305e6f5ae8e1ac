"""Submissions a second by one producer process through the public client, doorbells published behind them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from brokerjobs import App, Submission

if TYPE_CHECKING:
    from tests.bench.stage import Stage

IN_FLIGHT = 50
BATCH = 500


async def singles(stage: Stage, jobs: int) -> float:
    """`submit`, fifty in flight."""
    app = App(await stage.namespace())
    kind = app.job_type("noop", int, None, repeatable=True)
    left = iter(range(jobs))
    async with app.client(submitted_by="bench", database_url=stage.database_url, broker_url=stage.broker_url) as client:

        async def submit() -> None:
            for number in left:
                await client.submit(kind, number)

        began = time.perf_counter()
        await asyncio.gather(*(submit() for _ in range(IN_FLIGHT)))
        return jobs / (time.perf_counter() - began)


async def batches(stage: Stage, jobs: int) -> float:
    """`submit_many`, batches of 500, one after the other."""
    app = App(await stage.namespace())
    kind = app.job_type("noop", int, None, repeatable=True)
    async with app.client(submitted_by="bench", database_url=stage.database_url, broker_url=stage.broker_url) as client:
        began = time.perf_counter()
        for first in range(0, jobs, BATCH):
            await client.submit_many(kind, [Submission(n) for n in range(first, min(first + BATCH, jobs))])
        return jobs / (time.perf_counter() - began)
