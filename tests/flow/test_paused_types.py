"""A real worker and paused types: nothing is lost, nothing begins, and a resume rings only what was parked."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg

from brokerjobs import App
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.names import route_name
from brokerjobs.ledger import pauses
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.ledger.decisions import Request
from tests.flow.driving import Flow, coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from tests.databases import Database

QUICK = timedelta(milliseconds=200)


async def pause(made: Flow, name: str) -> dict[str, Any]:
    return await _ask(made, pauses.pause_type(made.app.namespace, name, _request()))


async def resume(made: Flow, name: str) -> int:
    """Resumes a type and rings what was parked; answers how many were."""
    assert (await _ask(made, pauses.resume_type(made.app.namespace, name, _request())))["verdict"] == "resumed"
    connection = AsyncLedgerConnection(ConnectOptions(made.database.operator_url))
    try:
        (step,) = await connection.fetch(pauses.unpark(made.app.namespace, name, 1000))
    finally:
        await connection.close()
    return step.rung


def _request() -> Request:
    return Request(id=uuid4(), by="ann", reason="the bank is away")


async def _ask(made: Flow, query: Any) -> dict[str, Any]:
    connection = AsyncLedgerConnection(ConnectOptions(made.database.operator_url))
    try:
        (row,) = await connection.fetch(query)
    finally:
        await connection.close()
    return dict(row.answer)


async def consumed(made: Flow) -> set[str]:
    """The routes that the worker consumes, by its last heartbeat."""
    async with await psycopg.AsyncConnection.connect(made.database.owner_url) as connection:
        rows = await connection.execute("select detail -> 'consuming' from brokerjobs.worker where role = 'worker'")
        return {route for (routes,) in await rows.fetchall() for route in routes}


async def waits_for(made: Flow, jobs: list[UUID]) -> list[str]:
    return [(await made.record(job))["waiting"]["for"] for job in jobs]


async def test_pause__of_all_types_of_a_queue_leaves_its_messages_at_the_broker(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="brokerjobs.worker")
    app = App(namespace)
    ran: list[int] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job("pay", repeatable=True)
    async def pay(payload: int) -> None:
        if payload == 0:
            begun.set()
            await go.wait()
        ran.append(payload)

    @app.job("other", repeatable=True, queue="others")
    async def other(payload: int) -> None:
        ran.append(payload)

    route = route_name(namespace, "default")
    async with (
        flow(app, database, broker_url) as made,
        made.working(made.worker(heartbeat=QUICK)),
    ):
        running = await made.submit(pay, 0)
        await made.ring(running.id)
        await begun.wait()
        assert (await pause(made, "pay"))["verdict"] == "paused"

        parked = await made.submit(pay, 1)
        await made.ring(parked.id)

        async def is_parked() -> bool:
            record = await made.record(parked.id)
            return "paused" in {event["kind"] for event in record["events"]}

        async def is_held() -> bool:
            return await consumed(made) == {route_name(namespace, "others")}

        # By a claim, or by a heartbeat before: then its doorbell stays at the broker, and nothing is parked.
        await eventually(is_held)
        was_parked = await is_parked()
        held = await made.submit_many(pay, [2, 3])
        for job in held:
            await made.ring(job)
        elsewhere = await made.submit(other, 100)
        await made.ring(elsewhere.id, queue="others")
        await made.reached(elsewhere.id, "succeeded")
        go.set()
        await made.reached(running.id, "succeeded")

        assert sorted(ran) == [0, 100]
        assert await waits_for(made, [parked.id, *held]) == ["pause"] * 3
        assert await broker_at(broker_url).message_count(route) == (2 if was_parked else 3)

        assert await resume(made, "pay") == int(was_parked)
        await made.reached(held[-1], "succeeded")
        if was_parked:
            await made.ring(parked.id)  # there is no relay here
        await made.reached(parked.id, "succeeded")
        await made.reached(held[0], "succeeded")
    assert sorted(ran) == [0, 1, 2, 3, 100]
    assert "is consumed no more, its types are paused: pay" in caplog.text
    assert "is consumed again" in caplog.text


async def test_resume__of_a_queue_that_stood_still_is_heard_long_before_the_next_heartbeat(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="brokerjobs.worker")
    app = App(namespace)

    @app.job("pay", repeatable=True)
    async def pay(payload: int) -> int:
        return payload

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(heartbeat=timedelta(minutes=5))),
    ):
        await made.reached((await made.submit(pay, 0)).id, "succeeded")
        await pause(made, "pay")
        job = await made.submit(pay, 1)

        async def is_held() -> bool:
            return "is consumed no more, its types are paused: pay" in caplog.text

        await eventually(is_held)
        await resume(made, "pay")
        record = await made.reached(job.id, "succeeded")
    assert [one["state"] for one in record["attempts"]] == ["completed"]
    assert "is consumed again" in caplog.text


async def test_pause__of_one_type_of_a_queue_parks_its_jobs_and_lets_the_others_run(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    ran: list[str] = []

    @app.job("pay", repeatable=True)
    async def pay(payload: int) -> None:
        ran.append(f"pay {payload}")

    @app.job("mail", repeatable=True)
    async def mail(payload: int) -> None:
        ran.append(f"mail {payload}")

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(heartbeat=QUICK)),
    ):
        await pause(made, "pay")
        payments = await made.submit_many(pay, list(range(20)))
        mails = await made.submit_many(mail, list(range(20)))
        for job in mails:
            await made.reached(job, "succeeded")

        async def all_parked() -> bool:
            records = [await made.record(job) for job in payments]
            return all("paused" in {event["kind"] for event in record["events"]} for record in records)

        await eventually(all_parked)
        assert not any(one.startswith("pay") for one in ran)

        async def is_consumed() -> bool:
            return await consumed(made) == {route_name(namespace, "default")}

        await eventually(is_consumed)

        await resume(made, "pay")  # the scheduler rings what is busy just now
        for job in payments:
            record = await made.reached(job, "succeeded")
            assert len(record["attempts"]) == 1
            assert [event["kind"] for event in record["events"]].count("resumed") == 1
    assert sorted(ran) == sorted([*(f"pay {n}" for n in range(20)), *(f"mail {n}" for n in range(20))])
