"""Case 38: PostgreSQL is away while handlers finish: no acknowledgement before the commit, and who waits is told."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs import App, LedgerUnavailable, ResultTimeout
from brokerjobs.client import Client, ClientOptions
from tests.databases import Databases
from tests.flow.driving import flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import PostgresFactory


async def test_case_38_results_are_committed_when_the_ledger_is_back_and_acknowledged_after_that(
    postgres_factory: PostgresFactory, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = postgres_factory()
    with psycopg.connect(server.url, autocommit=True) as connection:
        database = Databases(server.url, connection).with_ledger()
    app = App(namespace)
    running: list[int] = []
    may_end = asyncio.Event()

    async def work(payload: int) -> int:
        running.append(payload)
        await may_end.wait()
        return 2 * payload

    # One lease outlasts the outage.  The other runs out in it, and stays the current one: nobody else has claimed.
    held = app.job("held", repeatable=False, lease=timedelta(minutes=1))(work)
    lost = app.job("lost", repeatable=False, lease=timedelta(milliseconds=200))(work)
    options = ClientOptions(submitted_by="tests", database_url=database.producer_url, broker_url=broker_url)
    async with (
        flow(app, database, broker_url) as made,
        made.working(made.worker()),
        Client(options) as client,
    ):
        jobs = [await client.submit(held, 1), await client.submit(lost, 2)]
        waiters = [asyncio.create_task(job.result(timeout=timedelta(seconds=50))) for job in jobs]

        async def both_run() -> bool:
            return sorted(running) == [1, 2]

        await eventually(both_run)
        await asyncio.to_thread(server.stop)
        may_end.set()
        with pytest.raises(ResultTimeout, match="in an unknown state") as impatient:
            await jobs[0].result(timeout=timedelta(milliseconds=300))

        async def report_was_tried_again() -> bool:
            return caplog.text.count("asking again with the same ids") >= 3

        await eventually(report_was_tried_again, 20)
        assert not any(waiter.done() for waiter in waiters)
        await asyncio.to_thread(server.resume)

        assert [await waiter for waiter in waiters] == [2, 4]
        records = [(await job.record()).data for job in jobs]

        async def acknowledged() -> bool:
            nonlocal records
            records = [(await job.record()).data for job in jobs]
            return all(record["attempts"][0]["ack_sent_at"] for record in records)

        await eventually(acknowledged)
    assert isinstance(impatient.value.__cause__, LedgerUnavailable)
    assert sorted(running) == [1, 2], "each handler ran once"
    assert [len(record["attempts"]) for record in records] == [1, 1]
    for record in records:
        (attempt,) = record["attempts"]
        committed = datetime.fromisoformat(attempt["report"]["received_at"])
        assert datetime.fromisoformat(attempt["report"]["observed_at"]) < committed
        assert committed <= datetime.fromisoformat(attempt["ack_sent_at"])
        assert "duplicate_delivery" not in [event["kind"] for event in record["events"]]
