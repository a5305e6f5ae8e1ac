"""Whole jobs through every door: submitted in a producer's transaction, completed in a handler's own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from brokerjobs import App, StaleAttempt
from brokerjobs.client import Client, ClientOptions, SyncClient
from tests.flow.borrowing import ASYNC_WAYS, SYNC_WAYS, async_opened, opened
from tests.flow.driving import coordinating, flow

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs import JobContext, JobType, SyncJobContext
    from tests.databases import Database

LONG = timedelta(seconds=20)


@pytest.fixture
def shop(database: Database) -> Database:
    """A database with a table of the users' own."""
    with psycopg.connect(database.admin_url) as admin:
        admin.execute("create table orders (what text, way text)")
        admin.execute("grant all on orders to public")
    return database


def _written(database: Database, what: str) -> list[str]:
    with psycopg.connect(database.admin_url) as admin:
        rows = admin.execute("select way from orders where what = %s", [what]).fetchall()
    return sorted(way for (way,) in rows)


def _handled(app: App, url: str, way: str, number: int) -> JobType[int, int]:
    """A job type whose handler writes a row and completes in one of the ways."""
    if way in SYNC_WAYS:

        @app.job(f"order.sync{number}", repeatable=False)
        def book(cents: int, ctx: SyncJobContext) -> int:
            with opened(way, url) as transaction:
                transaction.run(f"insert into orders values ('booked', '{way}')")
                ctx.fence(within=transaction.within)
                ctx.complete(cents + 1, within=transaction.within)
                transaction.commit()
            return cents + 1

        return book

    @app.job(f"order.async{number}", repeatable=False)
    async def book_soon(cents: int, ctx: JobContext) -> int:
        async with async_opened(way, url) as transaction:
            await transaction.run(f"insert into orders values ('booked', '{way}')")
            await ctx.fence(within=transaction.within)
            await ctx.complete(cents + 1, within=transaction.within)
            await transaction.commit()
        return cents + 1

    return book_soon


async def _submitted(options: ClientOptions, url: str, way: str, kind: JobType[int, int]) -> UUID:
    """Submits in one of the ways, beside an order of the producer's own."""
    order = f"insert into orders values ('ordered', '{way}')"

    def submit() -> UUID:
        with SyncClient(options) as client, opened(way, url) as transaction:
            transaction.run(order)
            handle = client.submit(kind, 100, within=transaction.within)
            transaction.commit()
        return handle.id

    if way in SYNC_WAYS:
        return await asyncio.to_thread(submit)
    async with Client(options) as client, async_opened(way, url) as transaction:
        await transaction.run(order)
        handle = await client.submit(kind, 100, within=transaction.within)
        await transaction.commit()
    return handle.id


async def test_every_door__takes_a_job_in_and_lets_its_result_out(
    shop: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    ways = [*SYNC_WAYS, *ASYNC_WAYS]
    kinds = {way: _handled(app, shop.worker_url, way, number) for number, way in enumerate(ways)}
    options = ClientOptions(submitted_by="shop", database_url=shop.producer_url, broker_url=broker_url)
    async with flow(app, shop, broker_url) as made, coordinating(made), made.working(made.worker()):
        jobs = {way: await _submitted(options, shop.producer_url, way, kind) for way, kind in kinds.items()}
        async with Client(options) as client:
            waits = [client.handle(kinds[way], job).result(timeout=LONG) for way, job in jobs.items()]
            assert await asyncio.gather(*waits) == [101] * len(ways)
        records = {way: await made.record(job) for way, job in jobs.items()}
    assert _written(shop, "ordered") == _written(shop, "booked") == sorted(ways)
    for record in records.values():
        (attempt,) = record["attempts"]
        assert (attempt["state"], attempt["report"]["verdict"]) == ("completed", "accepted")


@pytest.mark.parametrize("way", ["psycopg2", "django", "asyncpg"])
async def test_handler__that_swallows_a_stale_attempt_has_not_written_and_not_succeeded(
    shop: Database, namespace: str, broker_url: str, way: str
) -> None:
    app = App(namespace)

    def cancel(job_id: UUID) -> None:
        with psycopg.connect(shop.producer_url) as producer:
            producer.execute("select brokerjobs.cancel_v1(%s, 'second thoughts')", [job_id])

    @app.job("order.sync", repeatable=True)
    def book(cents: int, ctx: SyncJobContext) -> int:
        with opened(way, shop.worker_url) as transaction:
            transaction.run(f"insert into orders values ('booked', '{way}')")
            cancel(ctx.job_id)
            with suppress(StaleAttempt):
                ctx.complete(cents, within=transaction.within)
            transaction.commit()
        return cents

    @app.job("order.async", repeatable=True)
    async def book_soon(cents: int, ctx: JobContext) -> int:
        async with async_opened(way, shop.worker_url) as transaction:
            await transaction.run(f"insert into orders values ('booked', '{way}')")
            await asyncio.to_thread(cancel, ctx.job_id)
            with suppress(StaleAttempt):
                await ctx.complete(cents, within=transaction.within)
            await transaction.commit()
        return cents

    kind: JobType[Any, Any] = book if way in SYNC_WAYS else book_soon
    async with flow(app, shop, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(kind, 1)
        record = await made.reached(job.id, "cancelled")
    (attempt,) = record["attempts"]
    assert attempt["failure"]["type"] == "ResultNotRecorded"
    assert attempt["result"] == 1, "kept as evidence"
    assert _written(shop, "booked") == []
