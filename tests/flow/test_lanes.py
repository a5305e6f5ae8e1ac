"""Lanes with real queues: who starts when while all have jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs import App
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.names import route_name
from brokerjobs.rules.lanes import WEIGHTS
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.databases import Database
    from tests.flow.driving import Flow

JOBS = 400


async def at_broker(made: Flow, lane: str) -> int | None:
    return await broker_at(made.broker_url).message_count(route_name(made.app.namespace, "default", lane=lane))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_lanes__start_8_to_3_to_1_while_all_have_jobs(
    database: Database, namespace: str, broker_url: str, concurrency: int
) -> None:
    app = App(namespace)
    started: list[str] = []
    begin, done = asyncio.Event(), asyncio.Event()

    @app.job("work", repeatable=True)
    async def work(lane: str) -> None:
        await begin.wait()
        started.append(lane)
        await asyncio.sleep(0)
        if len(started) == 3 * JOBS:
            done.set()

    async with flow(app, database, broker_url) as made, coordinating(made):
        for lane in ("low", "normal", "high"):
            await made.submit_many(work, [lane] * JOBS, priority=lane)

        async def all_at_broker() -> bool:
            return [await at_broker(made, lane) for lane in WEIGHTS] == [JOBS] * 3

        await eventually(all_at_broker, 40)
        # All are in the worker's hands: turns are among what has arrived, and how fast a broker brings more is its own.
        worker = made.worker(concurrency=concurrency, deliveries=JOBS, heartbeat=timedelta(seconds=1))
        async with made.working(worker):

            async def all_in_hand() -> bool:
                return worker.unclaimed == 3 * JOBS - concurrency

            await eventually(all_in_hand, 40)
            begin.set()
            await asyncio.wait_for(done.wait(), 60)

    assert Counter(started) == dict.fromkeys(WEIGHTS, JOBS)
    last_of_high = max(place for place, lane in enumerate(started) if lane == "high")
    while_all = Counter(started[:last_of_high])
    print(f"concurrency {concurrency}: {dict(while_all)} started until the last one of high")  # noqa: T201
    assert while_all["normal"] == pytest.approx(JOBS * 3 / 8, abs=JOBS / 20)
    assert while_all["low"] == pytest.approx(JOBS / 8, abs=JOBS / 40)
    parts = [Counter(started[at : at + 120]) for at in range(0, last_of_high - 120, 120)]
    assert all(part["low"] >= 5 and part["normal"] >= 20 for part in parts), "nobody starves in between"


async def test_lane__used_for_the_first_time_is_served_within_a_heartbeat(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="brokerjobs.worker")
    app = App(namespace)

    @app.job("work", repeatable=True)
    async def work(number: int) -> int:
        return number

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(heartbeat=timedelta(milliseconds=300))),
    ):
        (first,) = await made.submit_many(work, [1])
        await made.reached(first, "succeeded")
        assert await at_broker(made, "high") is None, "an unused lane costs no queue"
        (urgent,) = await made.submit_many(work, [2], priority="high")
        await made.reached(urgent, "succeeded", 5)
        record = await made.record(urgent)
    assert record["attempts"][0]["number"] == 1
    assert f"{route_name(namespace, 'default', lane='high')} is consumed from now on" in caplog.text
