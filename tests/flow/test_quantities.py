"""Quantities with real jobs: what runs together fits, and nobody waits for ever behind somebody large."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING

import pytest

from brokerjobs import App, needs
from brokerjobs.rules import capabilities
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from brokerjobs.job_type import JobType
    from tests.databases import Database
    from tests.flow.driving import Flow

QUICK = timedelta(milliseconds=300)
HAS = capabilities.of({"memory": "16GiB"})


@dataclass
class Memory:
    """What handlers use at this moment, told by themselves."""

    used: int = 0
    most: int = 0
    began: dict[str, float] = field(default_factory=dict[str, float])
    ended: dict[str, float] = field(default_factory=dict[str, float])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str, amount: int) -> None:
        with self._lock:
            self.used += amount
            self.most = max(self.most, self.used)
            self.began[name] = time.monotonic()

    def give(self, name: str, amount: int) -> None:
        with self._lock:
            self.used -= amount
            self.ended[name] = time.monotonic()


def app_with(namespace: str, memory: Memory, sizes: Mapping[str, int], seconds: float) -> App:
    """An app with one job type a size; a payload is the job's name."""
    app = App(namespace)

    def add(name: str, amount: int) -> None:
        job_type: JobType[str, None] = app.job_type(
            name, str, None, repeatable=True, needs=[needs.at_least("memory", f"{amount}GiB")] if amount else []
        )

        @job_type.handler
        async def _(job: str) -> None:
            memory.take(job, amount)
            await asyncio.sleep(seconds)
            memory.give(job, amount)

    for name, amount in sizes.items():
        add(name, amount)
    return app


async def all_ended(memory: Memory, count: int, within_seconds: float = 30.0) -> None:
    async def have() -> bool:
        return len(memory.ended) == count

    await eventually(have, within_seconds)


async def test_two_jobs_of_10_gib__never_run_together_on_16(
    database: Database, namespace: str, broker_url: str
) -> None:
    memory = Memory()
    app = app_with(namespace, memory, {"large": 10, "small": 3}, 0.02)
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK)),
    ):
        await made.submit_many(app.types["large"], [f"l{number}" for number in range(40)])
        await made.submit_many(app.types["small"], [f"s{number}" for number in range(40)])
        await all_ended(memory, 80)
    assert 10 <= memory.most <= 16


async def test_small_jobs__behind_a_large_one_wait_two_medians_at_most(
    database: Database, namespace: str, broker_url: str
) -> None:
    """A long job keeps the large one waiting; the small ones that come meanwhile pass, and the large one starts."""
    memory, seconds = Memory(), 0.5
    app = app_with(namespace, memory, {"small": 1, "large": 10}, seconds)
    let_go = asyncio.Event()

    @app.job("long", repeatable=True, needs=[needs.at_least("memory", "10GiB")])
    async def long(job: str) -> None:
        memory.take(job, 10)
        await let_go.wait()
        memory.give(job, 10)

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK)),
    ):
        await made.submit_many(app.types["small"], [f"usual{number}" for number in range(12)])
        await all_ended(memory, 12)
        usual = median(memory.ended[name] - memory.began[name] for name in memory.began)
        await made.submit_many(long, ["long"])

        async def runs() -> bool:
            return "long" in memory.began

        await eventually(runs)
        large_at = time.monotonic()
        await made.submit_many(app.types["large"], ["large"])
        submitted: dict[str, float] = {}
        for number in range(12):
            await asyncio.sleep(seconds / 2)  # the times at which they come are what is tested here
            submitted[f"small{number}"] = time.monotonic()
            await made.submit_many(app.types["small"], [f"small{number}"])
        let_go.set()
        await all_ended(memory, 26)
    waited = {name: memory.began[name] - at for name, at in submitted.items()}
    typical = min(waited.values())  # the road from the submission to the handler on this machine
    largest = max(waited.values()) - typical
    print(  # noqa: T201
        f"run time {usual:.2f} s; small jobs behind a large one waited at most {largest:.2f} s more "
        f"({largest / usual:.1f} medians), the large one {memory.began['large'] - large_at:.2f} s"
    )
    assert memory.most <= 16
    assert usual < largest <= 2 * usual + 0.8  # some slack for a busy machine
    assert memory.began["large"] >= memory.ended["long"]


@pytest.mark.timeout(150)
async def test_large_job__is_not_starved_by_a_stream_of_small_ones(
    database: Database, namespace: str, broker_url: str
) -> None:
    memory, seconds = Memory(), 0.1
    app = app_with(namespace, memory, {"small": 1, "large": 16}, seconds)
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK, concurrency=16, deliveries=32)),
    ):
        # Enough for some seconds, whatever comes later: the large one is behind 40 of them.
        await made.submit_many(app.types["small"], [f"before{number}" for number in range(40)])
        (large,) = await made.submit_many(app.types["large"], ["large"])
        await made.submit_many(app.types["small"], [f"after{number}" for number in range(600)])
        await made.reached(large, "succeeded", 30)
        behind = sum(began < memory.began["large"] for name, began in memory.began.items() if name.startswith("after"))
        print(f"{behind} of 600 small jobs that came later started before the large one")  # noqa: T201
        await all_ended(memory, 641, 60)
    assert memory.most == 16
    assert behind < 300


async def test_added_amounts__are_reserved_at_once_before_the_handler_begins(
    database: Database, namespace: str, broker_url: str
) -> None:
    memory = Memory()
    app = app_with(namespace, memory, {"plain": 0, "needy": 2}, 0.05)
    added = {"needs": (needs.at_least("memory", "9GiB"),)}

    for name in ("plain", "needy"):

        @app.job(f"{name}-9", repeatable=True, needs=[needs.at_least("memory", "2GiB")] if name == "needy" else [])
        async def work(job: str) -> None:
            memory.take(job, 9)
            await asyncio.sleep(0.05)
            memory.give(job, 9)

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK)),
    ):
        for name in ("plain-9", "needy-9"):
            await made.submit_many(app.types[name], [f"{name} {number}" for number in range(10)], **added)
        await made.submit_many(app.types["needy"], [f"n{number}" for number in range(10)])
        await all_ended(memory, 30)
    assert 9 <= memory.most <= 16


async def waits_granted(made: Flow, job: UUID) -> None:
    """The job is claimed."""

    async def is_claimed() -> bool:
        return await made.state(job) == "running"

    await eventually(is_claimed)


@pytest.mark.parametrize("repeatable", [True, False])
async def test_attempt__that_waits_for_what_was_added_keeps_its_lease_and_its_time_limit(
    database: Database, namespace: str, broker_url: str, repeatable: bool
) -> None:
    app = App(namespace)
    let_go = asyncio.Event()
    ran: list[str] = []

    @app.job("work", repeatable=repeatable, lease=timedelta(seconds=3), time_limit=timedelta(seconds=4))
    async def work(job: str) -> None:
        ran.append(job)
        if job == "first":
            await let_go.wait()
        else:
            await asyncio.sleep(1.5)

    added = {"needs": (needs.at_least("memory", "9GiB"),)}

    @app.job("other", repeatable=True, lease=timedelta(seconds=3), time_limit=timedelta(seconds=60))
    async def other(job: str) -> None:
        ran.append(job)
        await let_go.wait()

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK)),
    ):
        (first,) = await made.submit_many(other, ["other"], **added)
        await made.reached(first, "running")
        (second,) = await made.submit_many(work, ["second"], **added)
        await waits_granted(made, second)
        waited_from = time.monotonic()

        async def waited_longer_than_lease_and_time_limit() -> bool:
            return time.monotonic() - waited_from > 8.0

        await eventually(waited_longer_than_lease_and_time_limit, 20)
        assert ran == ["other"]
        let_go.set()
        record = await made.reached(second, "succeeded")
    assert len(record["attempts"]) == 1


async def test_drain__releases_what_waits_as_not_started(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    let_go = asyncio.Event()
    ran: list[str] = []

    @app.job("work", repeatable=False)
    async def work(job: str) -> None:
        ran.append(job)
        await let_go.wait()

    added = {"needs": (needs.at_least("memory", "9GiB"),)}
    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(capabilities=HAS, heartbeat=QUICK)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            (first,) = await made.submit_many(work, ["first"], **added)
            await made.reached(first, "running")
            (second,) = await made.submit_many(work, ["second"], **added)
            await waits_granted(made, second)
            worker.drain()
            record = await made.reached(second, "queued", 5)
            let_go.set()
            code = await running
        assert ran == ["first"]
        assert await made.state(first) == "succeeded"
    (attempt,) = record["attempts"]
    assert (attempt["state"], attempt["charged"], attempt["started_at"]) == ("released", False, None)
    assert code == 10, "something was released"


async def test_cancel__of_what_waits_ends_it_before_it_begins(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    let_go = asyncio.Event()
    ran: list[str] = []

    @app.job("work", repeatable=True, lease=timedelta(seconds=3))
    async def work(job: str) -> None:
        ran.append(job)
        await let_go.wait()

    added = {"needs": (needs.at_least("memory", "9GiB"),)}
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK)),
    ):
        (first,) = await made.submit_many(work, ["first"], **added)
        await made.reached(first, "running")
        second, third = await made.submit_many(work, ["second", "third"], **added)
        await waits_granted(made, second)
        await waits_granted(made, third)
        await made.cancel(second)
        await made.reached(second, "cancelled")
        let_go.set()
        await made.reached(third, "succeeded")
    assert sorted(ran) == ["first", "third"]


async def test_thread__that_goes_on_after_its_attempt_keeps_what_it_reserved(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    let_go = threading.Event()
    ran: list[str] = []

    @app.job("deaf", repeatable=True, time_limit=timedelta(seconds=1), needs=[needs.at_least("memory", "10GiB")])
    def deaf(job: str) -> None:
        ran.append(job)
        if len(ran) == 1:
            let_go.wait(60)

    @app.job("small", repeatable=True, needs=[needs.at_least("memory", "1GiB")])
    async def small(job: str) -> None:
        ran.append(job)

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK, leaked_threads=8)),
    ):
        try:
            (job,) = await made.submit_many(deaf, ["deaf"])

            async def attempt_over() -> bool:
                record = await made.record(job)
                return [attempt["state"] for attempt in record["attempts"]][:1] == ["failed"]

            await eventually(attempt_over)
            smalls = await made.submit_many(small, ["small"])
            await made.reached(smalls[0], "succeeded", 10)
            assert await made.state(job) == "queued", "its retry waits in the worker"
            assert ran == ["deaf", "small"]
        finally:
            let_go.set()
        await made.reached(job, "succeeded", 20)
    assert ran == ["deaf", "small", "deaf"]


async def test_attempt__that_lost_its_lease_while_it_waited_never_begins(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)
    let_go = asyncio.Event()
    ran: list[str] = []

    @app.job("work", repeatable=True)
    async def work(job: str) -> None:
        ran.append(job)
        if job == "first":
            await let_go.wait()

    added = {"needs": (needs.at_least("memory", "9GiB"),)}
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=HAS, heartbeat=QUICK, renewal=QUICK)),
    ):
        (first,) = await made.submit_many(work, ["first"], **added)
        await made.reached(first, "running")
        due = timedelta(seconds=3)
        (second,) = await made.submit_many(work, ["second"], deadline=due, **added)
        await waits_granted(made, second)
        await made.reached(second, "failed", 20)

        async def is_told() -> bool:
            return "lost its lease" in caplog.text

        await eventually(is_told, 20)
        let_go.set()
        await made.reached(first, "succeeded")
        (third,) = await made.submit_many(work, ["third"], **added)
        await made.reached(third, "succeeded")
    assert ran == ["first", "third"]
