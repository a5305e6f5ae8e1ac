"""Case 34: what is published is confirmed or kept: unroutable, too large, or held up by an alarm of the broker."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs import App, PayloadTooLarge
from brokerjobs.client import Client, ClientOptions
from tests.broker import raw
from tests.cli.urls import AWAY_BROKER, AWAY_DATABASE
from tests.flow.driving import Flow, coordinating, flow
from tests.flow.producing import Charge, shop
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
    from tests.databases import Database


async def test_case_34a_an_unroutable_doorbell_stays_in_the_outbox_until_its_queue_is_there(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(database, namespace, broker_url) as made:
        await raw.delete(broker_url, made.route)
        async with made.client() as client:
            handle = await client.submit(made.charge, Charge())
            said = (
                f"unroutable (NO_ROUTE): no queue is bound to {made.route!r}; `brokerjobs setup module:app` declares it"
            )

            async def is_said() -> bool:
                return said in caplog.text

            await eventually(is_said)
            status = await handle.status()
        assert (status.state, status.waiting) == ("queued", "delivery")
        assert await made.count("outbox") == 1
        async with coordinating(made.made):  # declares the route, and rings what is left to it
            assert await made.arrived(1) == {handle.id}
            await made.all_announced()


async def test_case_34b_20_mib_are_refused_before_anything_is_sent() -> None:
    app = App("shop")
    pay = app.job_type("pay", Charge, None, repeatable=True)
    options = ClientOptions(submitted_by="tests", database_url=AWAY_DATABASE, broker_url=AWAY_BROKER)
    began = time.monotonic()
    async with Client(options) as client:
        with pytest.raises(PayloadTooLarge, match=r"keep large data in object storage .* or in an artifact") as refused:
            await client.submit(pay, Charge(account="x" * 20 * 2**20))
    assert (refused.value.size, refused.value.limit) == (20 * 2**20 + 26, 262_144)
    assert f"{refused.value.excess} over the limit of 262144" in str(refused.value)
    assert time.monotonic() - began < 5


async def test_case_34c_a_memory_alarm_holds_up_no_submission_and_its_jobs_are_rung_after_it(
    database: Database, namespace: str, node: PrivateRabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)

    @app.job("double", repeatable=True)
    async def double(payload: int) -> int:
        return 2 * payload

    async with flow(app, database, node.url) as made, _client(made) as client:
        first = await client.submit(double, 1)
        async with _alarm(node):
            began = time.monotonic()
            jobs = [await client.submit(double, number) for number in range(2, 5)]
            assert time.monotonic() - began < 3

            async def blocked_is_said() -> bool:
                await client.submit(double, 5)
                return "it blocks all who publish (memory or disk alarm)" in caplog.text

            await eventually(blocked_is_said, 20)
            assert [await made.state(job.id) for job in jobs] == ["queued"] * 3
        async with coordinating(made), made.working(made.worker()):
            assert await first.result(timeout=timedelta(seconds=30)) == 2
            assert [await job.result(timeout=timedelta(seconds=30)) for job in jobs] == [4, 6, 8]
    assert "the broker has not answered within 0.5 s" in caplog.text


@asynccontextmanager
async def _alarm(node: PrivateRabbitMQ) -> AsyncGenerator[None]:
    await asyncio.to_thread(node.ctl, "set_vm_memory_high_watermark", "0")
    try:
        yield
    finally:
        await asyncio.to_thread(node.ctl, "set_vm_memory_high_watermark", "0.4")


def _client(made: Flow) -> Client:
    return Client(
        ClientOptions(
            submitted_by="tests",
            database_url=made.database.producer_url,
            broker_url=made.broker_url,
            publish_timeout=timedelta(milliseconds=500),
        )
    )
