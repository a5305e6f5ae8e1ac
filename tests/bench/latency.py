"""From the call of `submit` to the first line of the handler, at 100 jobs a second, worker and client as shipped."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from brokerjobs import App
from tests.bench.stage import DEFAULT

if TYPE_CHECKING:
    from brokerjobs import JobHandle
    from tests.bench.stage import Stage

RATE = 100
_WARM_UP_SECONDS = 3


@dataclass(frozen=True)
class Latency:
    """Milliseconds."""

    p50: float
    p99: float
    jobs: int


async def measured(stage: Stage, seconds: int) -> Latency:
    """Submits on a fixed timetable, whatever is late: a slow answer must not slow down the asking."""
    app = App(await stage.namespace())
    kind = app.job_type("stamp", float, float, repeatable=True)
    handles: list[asyncio.Task[JobHandle[float]]] = []
    with stage.worker(app.namespace, DEFAULT, coordinator=True):
        async with app.client(
            submitted_by="bench", database_url=stage.database_url, broker_url=stage.broker_url
        ) as client:
            await (await client.submit(kind, time.time())).result(timeout=timedelta(seconds=60))
            began = time.monotonic()
            for number in range(RATE * (_WARM_UP_SECONDS + seconds)):
                await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
                handles.append(asyncio.create_task(client.submit(kind, time.time())))
            counted = handles[RATE * _WARM_UP_SECONDS :]
            late = [await (await one).result(timeout=timedelta(seconds=60)) for one in counted]
    late.sort()
    return Latency(round(late[len(late) // 2] * 1000, 2), round(late[int(len(late) * 0.99)] * 1000, 2), len(late))
