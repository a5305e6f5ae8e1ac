"""Routes that a worker follows while it runs: of new needs, of lanes, retired ones, and none at all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg

from brokerjobs import App, needs
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.names import route_name
from brokerjobs.ledger import queues, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, LedgerConnection
from brokerjobs.ledger.decisions import Request
from brokerjobs.rules import capabilities
from brokerjobs.worker.leases import LeaseKeeper
from tests.flow.driving import Flow, coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from tests.databases import Database

QUICK = timedelta(milliseconds=300)
GPU = needs.equal("gpu", "a100")


def change(made: Flow, app: App) -> None:
    """Registers an app's types as they are now, as `brokerjobs setup` does."""
    setup = LedgerConnection(ConnectOptions(made.database.owner_url))
    setup.fetch(services.register_types(app.namespace, [t.as_data() for t in app.types.values()], change=True))
    setup.close()


async def beats(made: Flow, name: str = "worker-a") -> dict[str, Any]:
    """What the worker's last heartbeat said."""
    async with await psycopg.AsyncConnection.connect(made.database.owner_url) as connection:
        rows = await connection.execute("select routes, detail from brokerjobs.worker where name = %s", [name])
        row = await rows.fetchone()
    return {} if row is None else {"routes": row[0], **row[1]}


async def consumes(made: Flow, *routes: str) -> None:
    """Waits until the worker says that it consumes exactly these."""

    async def does() -> bool:
        return (await beats(made)).get("consuming") == sorted(routes)

    await eventually(does, 20)


async def test_worker__that_qualifies_for_no_route_stays_up_says_why_and_goes_on_asking(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, later = App(namespace), App(namespace)

    @app.job("train", repeatable=True, needs=[GPU, needs.at_least("memory", "32GiB")])
    async def train(number: int) -> int:
        return number

    later.job("train", repeatable=True, needs=[needs.at_least("memory", "8GiB")])(train.handled_by.function)  # type: ignore[union-attr]  # it has one

    has = capabilities.of({"memory": "16GiB"})
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(capabilities=has, heartbeat=QUICK)),
    ):
        (job,) = await made.submit_many(train, [1])

        async def has_said() -> bool:
            return "consuming" in await beats(made)

        await eventually(has_said, 20)
        said = await beats(made)
        assert (said["routes"], said["consuming"], said["missing"]) == ([], [], [])
        assert await made.state(job) == "queued"

        change(made, later)
        (other,) = await made.submit_many(train, [2])
        await made.reached(other, "succeeded", 20)
        assert await made.state(job) == "queued"
    warnings = [one.getMessage() for one in caplog.records if "qualifies for none" in one.getMessage()]
    assert len(warnings) == 1
    assert "memory 16GiB < 32GiB, lacks gpu" in warnings[0]


async def test_retired_route__is_left_without_disturbing_the_others_and_served_when_it_is_wanted_again(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job("other", repeatable=True, queue="others")
    async def other(number: int) -> int:
        begun.set()
        await go.wait()
        return number

    @app.job("work", repeatable=True)
    async def work(number: int) -> int:
        return number

    route, others = route_name(namespace, "default"), route_name(namespace, "others")
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(heartbeat=QUICK)),
    ):
        await consumes(made, route, others)
        (running,) = await made.submit_many(other, [1])
        await begun.wait()
        async with await psycopg.AsyncConnection.connect(database.owner_url, autocommit=True) as owner:
            await owner.execute(
                "update brokerjobs.route set retired_at = now(), wanted = false where name = %s", [route]
            )
        await broker_at(broker_url).remove_queue(route)
        await consumes(made, others)
        assert (await beats(made))["missing"] == []

        (job,) = await made.submit_many(work, [1])
        await made.reached(job, "succeeded", 20)
        go.set()
        record = await made.reached(running, "succeeded")
    kinds = [event["kind"] for event in record["events"]]
    assert (len(record["attempts"]), kinds.count("duplicate_delivery")) == (1, 0)
    assert "ack_lost" not in caplog.text, "its channel was never closed"


async def test_paused_queue__is_not_consumed_in_any_lane(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    ran: list[int] = []

    @app.job("work", repeatable=True)
    async def work(number: int) -> None:
        ran.append(number)

    @app.job("other", repeatable=True, queue="others")
    async def other(number: int) -> None:
        ran.append(number)

    lanes = [route_name(namespace, "default"), route_name(namespace, "default", lane="high")]
    others = route_name(namespace, "others")
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(heartbeat=QUICK)),
    ):
        (first,) = await made.submit_many(work, [1], priority="high")
        await made.reached(first, "succeeded", 20)
        await consumes(made, *lanes, others)
        operator = AsyncLedgerConnection(ConnectOptions(database.operator_url))
        request = Request(id=uuid4(), by="ann", reason="the bank is away")
        await operator.fetch(queues.pause_queue(namespace, "default", request, None))
        await consumes(made, others)

        held = [*await made.submit_many(work, [2], priority="high"), *await made.submit_many(work, [3])]
        (elsewhere,) = await made.submit_many(other, [4])
        await made.reached(elsewhere, "succeeded", 20)
        assert ran == [1, 4]
        assert {await made.state(job) for job in held} == {"queued"}

        await operator.fetch(queues.resume_queue(namespace, "default", Request(id=uuid4(), by="ann", reason="back")))
        await operator.close()
        for job in held:
            await made.reached(job, "succeeded", 20)
        await consumes(made, *lanes, others)
    assert sorted(ran) == [1, 2, 3, 4]


async def test_prefetch__is_shared_among_the_routes_and_shared_anew(
    database: Database, namespace: str, broker_url: str
) -> None:
    """Seen at the broker: what the worker leaves there."""
    app, later = App(namespace), App(namespace)
    go = asyncio.Event()

    async def wait(number: int) -> None:
        await go.wait()

    for name in ("a", "b"):
        app.job(name, repeatable=True, queue=name)(wait)
        later.job(name, repeatable=True, queue=name, needs=[GPU] if name == "b" else [])(wait)

    a, b = route_name(namespace, "a"), route_name(namespace, "b")
    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(heartbeat=QUICK, concurrency=2, deliveries=12)),
    ):
        await consumes(made, a, b)
        jobs = await made.submit_many(app.types["a"], list(range(20)))

        async def left_there() -> int:
            return await broker_at(broker_url).message_count(a) or 0

        async def half() -> bool:
            return await left_there() == 14

        async def all_of_it() -> bool:
            return await left_there() <= 8

        await eventually(half, 20)
        async with await psycopg.AsyncConnection.connect(database.owner_url, autocommit=True) as owner:
            await owner.execute("update brokerjobs.route set retired_at = now(), wanted = false where name = %s", [b])
        await consumes(made, a)
        await eventually(all_of_it, 20)
        assert await left_there() <= 8
        go.set()
        for job in jobs:
            await made.reached(job, "succeeded", 20)


async def test_first_claim__is_granted_by_what_the_worker_has_though_no_heartbeat_was_due_yet(
    database: Database, namespace: str, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(namespace)

    @app.job("train", repeatable=True, needs=[GPU])
    async def train(name: str) -> str:
        return name

    def not_yet(_keeper: LeaseKeeper) -> None:
        """Its thread has not come to it."""

    monkeypatch.setattr(LeaseKeeper, "_send_beat", not_yet)
    async with flow(app, database, broker_url) as made, coordinating(made):
        (plain,) = await made.submit_many(train, ["a model"])
        (adding,) = await made.submit_many(train, ["a model"], needs=[needs.equal("disk", "ssd")])
        able = made.worker(capabilities=capabilities.of({"gpu": "a100", "disk": "ssd"}))
        async with made.working(able):
            records = [await made.reached(job, "succeeded", 20) for job in (plain, adding)]

    assert [one["attempts"][0]["capabilities"]["gpu"] for one in records] == [["a100"], ["a100"]]
    assert all(event["kind"] != "refused" for one in records for event in one["events"])
    assert [one["uncharged"] for one in records] == [0, 0]
