"""Case 40: a job that cannot be placed tells every reason, at once, and ends with the last of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from brokerjobs import App, needs
from brokerjobs.ledger import inquiries
from brokerjobs.rules import capabilities
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    from tests.databases import Database
    from tests.flow.driving import Flow

TRAINS = (needs.equal("gpu", "a100"), needs.at_least("memory", "32GiB"), needs.equal("os", "linux"))


async def waiting(made: Flow, job: UUID) -> tuple[str | None, dict[str, Any]]:
    (standing,) = await made.asking.fetch(inquiries.status([job]))
    return standing.waiting, standing.wait_detail or {}


async def test_case_40_every_unmet_need_is_told_and_the_last_report_is_kept(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    let_go = asyncio.Event()

    @app.job("hold", repeatable=True, needs=[needs.equal("gpu", "a100"), needs.exclusive("gpu:0")])
    async def hold(name: str) -> None:
        await let_go.wait()

    @app.job(
        "train",
        repeatable=True,
        needs=[*TRAINS, needs.exclusive("gpu:0")],
        placement_deadline=timedelta(seconds=3),
    )
    async def train(name: str) -> str:
        return name

    workers = {
        "a": {"os": "linux", "memory": "64GiB"},
        "b-with-an-a100-gpu": {"os": "linux", "memory": "16GiB"},  # nothing is read from a name
        "c": {"os": "linux", "memory": "64GiB", "gpu": "a100"},
    }
    async with flow(app, database, broker_url) as made, coordinating(made), asyncio.TaskGroup() as group:
        running = [
            made.worker(name, capabilities=capabilities.of(has), heartbeat=timedelta(milliseconds=500))
            for name, has in workers.items()
        ]
        tasks = [group.create_task(worker.run()) for worker in running]
        (holder,) = await made.submit_many(hold, ["the card"])
        await made.reached(holder, "running", 20)

        (job,) = await made.submit_many(train, ["a model"])
        told: dict[str, Any] = {}

        async def tells_all() -> bool:
            what, detail = await waiting(made, job)
            told.update(detail)
            return what == "resource" and "report" in detail

        await eventually(tells_all, 2.5)
        record = await made.reached(job, "failed", 20)
        let_go.set()
        await made.reached(holder, "succeeded", 20)
        for worker in running:
            worker.drain()
        await asyncio.gather(*tasks)

    report = told["report"]
    assert report["workers"] == 3
    assert {one["text"] for one in report["unmet"]} == {"2 lack gpu", "1 memory 16GiB < 32GiB"}
    [card] = told["resources"]
    [held] = card["held_by"]
    assert (card["name"], held["job"], held["worker"]) == ("gpu:0", str(holder), "c")
    assert held["until"] is not None
    assert (record["failure"]["class"], record["failure"]["reason"].split(":")[0]) == ("policy", "unplaceable")
    assert record["attempts"] == []
    [ended] = [one for one in record["events"] if one["kind"] == "unplaceable"]
    assert ended["detail"]["report"]["resources"][0]["held_by"][0]["job"] == str(holder)


async def test_case_40_when_no_worker_meets_the_needs_it_says_so_and_a_worker_that_comes_takes_it(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)

    @app.job("train", repeatable=True, needs=TRAINS)
    async def train(name: str) -> str:
        return name

    quick = {"heartbeat": timedelta(milliseconds=500)}
    async with flow(app, database, broker_url) as made, coordinating(made):
        small = made.worker("gpu-a100", capabilities=capabilities.of({"os": "linux", "memory": "16GiB"}), **quick)
        async with made.working(small):
            (job,) = await made.submit_many(train, ["a model"])
            text = "0 of 1 worker: 1 memory 16GiB < 32GiB, 1 lacks gpu"

            async def explained() -> bool:
                what, detail = await waiting(made, job)
                return what == "placement" and detail["report"]["text"] == text

            await eventually(explained, 10)
            able = made.worker(
                "able",
                capabilities=capabilities.of({"os": "linux", "memory": "64GiB", "gpu": "a100"}),
                **quick,
            )
            async with made.working(able):
                record = await made.reached(job, "succeeded", 20)

    assert [one["worker"] for one in record["attempts"]] == ["able"]
    assert record["attempts"][0]["capabilities"]["gpu"] == ["a100"]
