"""Case 17: a worker that lacks the handler never drops the job: one that has it runs it; if none has it, it says so."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from uuid_utils.compat import uuid7

from brokerjobs import App
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.names import quarantine_queue, route_name
from brokerjobs.ledger import calls, inquiries
from brokerjobs.worker.options import Duty
from brokerjobs.worker.worker import Worker
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from tests.databases import Database
    from tests.flow.driving import Flow

HALF_A_SECOND = timedelta(milliseconds=500)


def app_with(namespace: str) -> App:
    """Two types of one queue: one in every deployment, one in the newer alone."""
    app = App(namespace)

    @app.job("old", repeatable=True)
    async def old(number: int) -> str:
        return f"old {number}"

    @app.job("new", repeatable=True, placement_deadline=timedelta(seconds=3))
    async def new(number: int) -> str:
        return f"new {number}"

    return app


def deployed(made: Flow, name: str, types: Sequence[str]) -> Worker:
    """A worker whose release has the handlers of these types alone."""
    process = calls.ProcessIdentity(uuid7(), name, socket.gethostname(), os.getpid())
    has = {one: made.app.types[one] for one in types}
    return Worker(Duty(process, made.app.namespace, has), replace(made.options, heartbeat=HALF_A_SECOND))


async def waits_for(made: Flow, job: UUID) -> tuple[str | None, dict[str, Any]]:
    (standing,) = await made.asking.fetch(inquiries.status([job]))
    return standing.waiting, standing.wait_detail or {}


async def test_case_17_a_worker_without_the_handler_leaves_the_job_to_one_that_has_it(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = app_with(namespace)
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(deployed(made, "worker-old", ["old"])),
    ):
        olds = await made.submit_many(app.types["old"], list(range(20)))
        (job,) = await made.submit_many(app.types["new"], [1])

        async def is_parked() -> bool:
            waiting, detail = await waits_for(made, job)
            return waiting == "placement" and detail.get("no_handler") == "new"

        await eventually(is_parked, 20)
        async with made.working(deployed(made, "worker-new", ["old", "new"])):
            record = await made.reached(job, "succeeded", 20)
        for old in olds:
            await made.reached(old, "succeeded", 20)
        quarantined = await broker_at(broker_url).message_count(quarantine_queue(namespace))

    assert record["result"] == "new 1"
    assert [attempt["worker"] for attempt in record["attempts"]] == ["worker-new"]
    assert record["charged"] == 1, "being refused costs nothing"
    assert quarantined == 0


async def test_case_17_a_job_that_no_worker_has_a_handler_for_says_so_and_ends_by_its_placement_deadline(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = app_with(namespace)
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(deployed(made, "worker-old", ["old"])),
    ):
        (job,) = await made.submit_many(app.types["new"], [1])
        told: list[tuple[str | None, dict[str, Any]]] = []

        async def says_why() -> bool:
            told.append(await waits_for(made, job))
            return "no_handler" in str(told[-1])

        await eventually(says_why, 20)
        record = await made.reached(job, "failed", 20)
        assert await broker_at(broker_url).message_count(route_name(namespace, "default")) == 0

    assert told[-1][0] == "placement"
    assert record["attempts"] == []
    assert (record["failure"]["class"], record["charged"]) == ("policy", 0)
    assert "unplaceable" in str(record["failure"])
