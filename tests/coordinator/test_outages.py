"""Servers that go and come back under running services, and logins that may not."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest

from brokerjobs.broker.publisher import Publisher
from brokerjobs.coordinator.coordinator import Coordinator
from brokerjobs.coordinator.health import CoordinatorHealth
from brokerjobs.coordinator.process import BrokerOptions, Options, Pulse
from brokerjobs.coordinator.routes import Queues
from brokerjobs.ledger.database import ConnectOptions
from tests.coordinator.stage import PERIODS, Stage, arrived, process, rung, stage
from tests.databases import Databases
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.conftest import PostgresFactory, RabbitMQFactory
    from tests.databases import Database
    from tests.nodes import RabbitMQNode


@pytest.fixture(scope="module")
def node(rabbitmq_factory: RabbitMQFactory) -> RabbitMQNode:
    """A broker that these tests may stop."""
    return rabbitmq_factory()


@asynccontextmanager
async def coordinating(
    staged: Stage, broker_url: str | None = None, name: str = "coordinator-a"
) -> AsyncGenerator[None]:
    """Services with heartbeats, as in a process of their own."""
    me = process(name)
    ledger = ConnectOptions(staged.database.coordinator_url)
    publisher = Publisher(broker_url or staged.broker_url)
    services = Coordinator(
        ledger=ledger,
        publisher=publisher,
        queues=Queues(broker_url or staged.broker_url),
        process=me,
        periods=PERIODS,
    )
    told = Options(ledger=ledger, broker=BrokerOptions(url=staged.broker_url), heartbeat=timedelta(milliseconds=200))
    pulse = Pulse(told, me, CoordinatorHealth(lambda: False, told.heartbeat.total_seconds()))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(services.run()), group.create_task(pulse.run(services))]
        try:
            yield
        finally:
            await services.hand_over()
            for task in tasks:
                task.cancel()
            await pulse.stop()
            await publisher.close()


async def is_rung(staged: Stage) -> None:
    async def does() -> bool:
        return await staged.outbox() == 0

    await eventually(does, 40)


async def was_taken(staged: Stage) -> None:
    async def does() -> bool:
        return bool(await staged.value("select count(*) from brokerjobs.outbox where taken > 0"))

    await eventually(does, 30)


async def test_outage__jobs_wait_for_the_broker_and_are_rung_when_it_is_back(
    database: Database, node: RabbitMQNode, namespace: str
) -> None:
    async with stage(database, node.url, namespace) as staged, coordinating(staged):
        await staged.submit()
        await is_rung(staged)
        await asyncio.to_thread(node.stop_app)
        jobs = await staged.submit(3)
        await was_taken(staged)
        assert await staged.outbox() == 3
        await asyncio.to_thread(node.start_app)
        await staged.let_holds_run_out()

        await is_rung(staged)

        assert set(rung(await arrived(node.url, staged.route()))) >= set(jobs)


async def test_outage__a_route_is_declared_when_the_broker_is_back(
    database: Database, node: RabbitMQNode, namespace: str
) -> None:
    await asyncio.to_thread(node.stop_app)
    async with stage(database, node.url, namespace) as staged, coordinating(staged):
        (job,) = await staged.submit()
        await was_taken(staged)
        await asyncio.to_thread(node.start_app)

        await is_rung(staged)

        assert rung(await arrived(node.url, staged.route())) == [job]


async def test_outage__services_go_on_when_the_ledger_is_back(
    postgres_factory: PostgresFactory, broker_url: str, namespace: str
) -> None:
    server = postgres_factory()
    with psycopg.connect(server.url, autocommit=True) as connection:
        database = Databases(server.url, connection).with_ledger()
    async with stage(database, broker_url, namespace) as staged, coordinating(staged):
        await staged.submit()
        await is_rung(staged)

        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.resume)

        async with stage(database, broker_url, namespace) as again:
            (job,) = await again.submit()
            await is_rung(again)
            assert rung(await arrived(broker_url, again.route()))[-1] == job
        # `staged` itself has lost its connection with the server.
        await staged.owner.close()


async def test_rights__a_broker_login_that_may_only_publish_rings_and_says_once_that_it_declares_nothing(
    database: Database, node: RabbitMQNode, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    password = secrets.token_hex(8)
    await asyncio.to_thread(node.ctl, "add_user", namespace, password)
    await asyncio.to_thread(node.ctl, "set_permissions", namespace, "^$", ".*", "^$")
    limited = f"amqp://{namespace}:{password}@127.0.0.1:{urlsplit(node.url).port}/"
    async with stage(database, node.url, namespace) as staged:
        await staged.declare()
        async with coordinating(staged, limited):
            (job,) = await staged.submit()
            await is_rung(staged)
            await said(caplog, "may not declare")

    assert rung(await arrived(node.url, staged.route())) == [job]
    assert len([record for record in caplog.records if "may not declare" in record.message]) == 1


async def test_rights__a_login_that_may_declare_does_it_in_place_of_one_that_may_not(
    database: Database, node: RabbitMQNode, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    password = secrets.token_hex(8)
    await asyncio.to_thread(node.ctl, "add_user", namespace, password)
    await asyncio.to_thread(node.ctl, "set_permissions", namespace, "^$", ".*", "^$")
    limited = f"amqp://{namespace}:{password}@127.0.0.1:{urlsplit(node.url).port}/"
    async with stage(database, node.url, namespace) as staged, coordinating(staged, limited, "limited"):
        await said(caplog, "may not declare")
        async with coordinating(replace(staged), name="able"):

            async def is_declared() -> bool:
                return not await staged.value("select count(*) from brokerjobs.routes_wanted()")

            await eventually(is_declared, 30)


async def said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async def does() -> bool:
        return any(text in record.message for record in caplog.records)

    await eventually(does, 30)
