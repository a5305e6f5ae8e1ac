from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.broker.publisher import Publisher
from brokerjobs.coordinator import partitions, reaper, relay, routes, scheduler
from brokerjobs.coordinator.coordinator import Coordinator
from brokerjobs.coordinator.routes import Queues
from brokerjobs.coordinator.service import Periods
from brokerjobs.errors import SchemaMismatch
from brokerjobs.ledger.database import ConnectOptions
from tests.coordinator.stage import PERIODS, arrived, process, rung
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.coordinator.stage import Stage

NAMES = (relay.NAME, reaper.NAME, scheduler.NAME, routes.NAME, partitions.NAME)


def coordinator(
    staged: Stage, publisher: Publisher, url: str | None = None, name: str = "coordinator-a"
) -> Coordinator:
    return Coordinator(
        ledger=ConnectOptions(url or staged.database.coordinator_url, application=f"test {name}"),
        publisher=publisher,
        queues=Queues(staged.broker_url),
        process=process(name),
        periods=PERIODS,
    )


@asynccontextmanager
async def running(services: Coordinator) -> AsyncGenerator[asyncio.Task[None]]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(services.run())
        try:
            yield task
        finally:
            await services.hand_over()


async def led_by(staged: Stage, name: str | None) -> None:
    async def are() -> bool:
        return {await staged.leader(service) for service in NAMES} == {name}

    await eventually(are, 30)


async def connections(staged: Stage, name: str = "coordinator-a") -> int:
    query = "select count(*) from pg_stat_activity where datname = current_database() and application_name = %s"
    return int(await staged.value(query, f"test {name}"))


async def closed(staged: Stage, name: str = "coordinator-a") -> None:
    async def is_closed() -> bool:
        return await connections(staged, name) == 0

    await eventually(is_closed, 30)


async def test_coordinator__asks_the_ledger_nothing_before_it_has_heard_who_leads(
    staged: Stage, publisher: Publisher
) -> None:
    services = coordinator(staged, publisher)
    async with running(services):
        for _ in range(20):
            await asyncio.sleep(0)
        assert await connections(staged) == 0


async def test_coordinator__runs_every_service_over_one_connection(staged: Stage, publisher: Publisher) -> None:
    services = coordinator(staged, publisher)
    async with running(services):
        services.hear([])
        await led_by(staged, "coordinator-a")
        assert await connections(staged) == 1


async def test_coordinator__rings_a_job_whose_route_is_not_even_declared_yet(
    staged: Stage, publisher: Publisher
) -> None:
    (job,) = await staged.submit()
    services = coordinator(staged, publisher)

    async def has_rung() -> bool:
        return await staged.outbox() == 0

    async with running(services):
        services.hear([])
        await eventually(has_rung, 30)

    assert rung(await arrived(staged.broker_url, staged.route())) == [job]


async def test_coordinator__a_second_copy_leads_nothing_and_closes_its_connection(
    staged: Stage, publisher: Publisher
) -> None:
    first, second = coordinator(staged, publisher), coordinator(staged, publisher, name="coordinator-b")
    async with running(first), running(second):
        first.hear([])
        await led_by(staged, "coordinator-a")
        second.hear([])  # what it heard is out of date
        await closed(staged, "coordinator-b")
        await led_by(staged, "coordinator-a")


async def test_coordinator__hands_its_leads_over_at_once(staged: Stage, publisher: Publisher) -> None:
    first, second = coordinator(staged, publisher), coordinator(staged, publisher, name="coordinator-b")
    async with running(second):
        async with running(first) as task:
            first.hear([])
            await led_by(staged, "coordinator-a")
            await first.hand_over()
            assert {await staged.leader(service) for service in NAMES} == {None}
            async with asyncio.timeout(5):
                await task
            await closed(staged)
        second.hear([])
        await led_by(staged, "coordinator-b")


async def test_coordinator__a_cancelled_run_closes_its_connection(staged: Stage, publisher: Publisher) -> None:
    slow = timedelta(minutes=1)
    services = Coordinator(
        ledger=ConnectOptions(staged.database.coordinator_url, application="test coordinator-a"),
        publisher=publisher,
        queues=Queues(staged.broker_url),
        process=process(),
        periods=Periods(service_lease=slow, relay_poll=slow, tick=slow),
    )
    task = asyncio.create_task(services.run())
    services.hear([])
    await led_by(staged, "coordinator-a")
    task.cancel()
    await asyncio.wait({task})

    await closed(staged)


async def test_coordinator__a_hand_over_without_a_ledger_ends_within_a_second_or_so(
    staged: Stage, publisher: Publisher
) -> None:
    away = staged.database.coordinator_url.replace(f"/{staged.database.name}", "/nowhere")
    services = coordinator(staged, publisher, away)
    async with running(services) as task:
        services.hear([])
        began = asyncio.get_running_loop().time()
        await services.hand_over()
        async with asyncio.timeout(5):
            await task
        assert asyncio.get_running_loop().time() - began < 3


async def test_coordinator__goes_on_when_its_connection_was_cut(staged: Stage, publisher: Publisher) -> None:
    await staged.declare()
    services = coordinator(staged, publisher)
    async with running(services):
        services.hear([])
        await led_by(staged, "coordinator-a")
        with psycopg.connect(staged.database.admin_url, autocommit=True) as admin:
            cut = admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'test coordinator-a'"
                " and datname = current_database()"
            )
            assert cut.fetchall() == [(True,)]
        (job,) = await staged.submit()

        async def has_rung() -> bool:
            return await staged.outbox() == 0

        await eventually(has_rung, 30)
    assert rung(await arrived(staged.broker_url, staged.route())) == [job]


async def test_coordinator__says_once_that_a_login_may_run_nothing_and_ends(
    staged: Stage, publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    services = coordinator(staged, publisher, staged.database.worker_url)
    async with running(services) as task:
        services.hear([])
        async with asyncio.timeout(10):
            await task

    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "is not run by this process" in said[0].message
    assert "permission denied" in said[0].message
    assert await staged.value("select count(*) from brokerjobs.service") == 0


async def test_coordinator__a_service_that_is_denied_stops_no_other(staged: Stage, publisher: Publisher) -> None:
    await staged.sql("revoke execute on function brokerjobs.outbox_messages from brokerjobs_coordinator")
    services = coordinator(staged, publisher)
    async with running(services):
        services.hear([])

        async def others_lead() -> bool:
            return {await staged.leader(name) for name in NAMES if name != relay.NAME} == {"coordinator-a"}

        await eventually(others_lead, 30)
        assert await staged.leader(relay.NAME) is None


async def test_coordinator__a_schema_without_its_functions_ends_it_loudly(staged: Stage, publisher: Publisher) -> None:
    await staged.sql("drop function brokerjobs.due")
    services = coordinator(staged, publisher)
    services.hear([])

    with pytest.RaisesGroup(SchemaMismatch):
        await services.run()
    await closed(staged)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_coordinator__many_copies_started_and_stopped_at_once_leave_nothing(
    staged: Stage, broker_url: str
) -> None:
    await staged.declare()
    await staged.submit()
    tasks, files = len(asyncio.all_tasks()), open_files()
    quick = replace(PERIODS, relay_poll=timedelta(milliseconds=1), tick=timedelta(milliseconds=2))

    async def one(number: int) -> None:
        publisher = Publisher(broker_url)
        services = Coordinator(
            ledger=ConnectOptions(staged.database.coordinator_url, application="test many"),
            publisher=publisher,
            queues=Queues(broker_url),
            process=process(f"copy-{number}"),
            periods=quick,
        )
        task = asyncio.create_task(services.run())
        services.hear([])
        await staged.submit()
        if number % 2:
            await services.hand_over()
        else:
            task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() or task.exception() is None
        await services.hand_over()
        await publisher.close()

    for start in range(0, 50, 10):
        async with asyncio.TaskGroup() as group:
            for number in range(start, start + 10):
                group.create_task(one(number))

    gc.collect()  # what was cancelled while it connected is held by the traceback of its own error
    assert len(asyncio.all_tasks()) <= tasks
    assert open_files() <= files
    await closed(staged, "many")
    assert await staged.value("select count(*) from pg_locks where locktype = 'advisory'") == 0
