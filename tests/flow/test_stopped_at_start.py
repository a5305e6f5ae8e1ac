"""What ends before its handler begins: the handler never runs, so nobody has to look into what it did."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from brokerjobs import App, RetryPolicy
from brokerjobs.worker.completions import Completions
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from brokerjobs.rules.verdicts import StartVerdict
    from brokerjobs.worker.attempt import Attempt
    from tests.databases import Database


def hold_starts(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Starts are recorded, and their answers are long in coming; what is returned tells of the first."""
    recorded = asyncio.Event()
    start = Completions.start

    async def slowly(self: Completions, attempt: Attempt) -> StartVerdict:
        verdict = await start(self, attempt)
        recorded.set()
        await asyncio.Event().wait()
        return verdict

    monkeypatch.setattr(Completions, "start", slowly)
    return recorded


async def test_cancel__as_the_start_is_recorded_cancels(
    database: Database, namespace: str, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(namespace)
    ran: list[int] = []

    @app.job("pay", repeatable=False, lease=timedelta(seconds=1))
    async def pay(payload: int) -> None:
        ran.append(payload)

    recorded = hold_starts(monkeypatch)
    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        (job,) = await made.submit_many(pay, [1])
        await asyncio.wait_for(recorded.wait(), 20)
        assert await made.cancel(job) == "requested"
        record = await made.reached(job, "cancelled", 20)
    assert "started" in [event["kind"] for event in record["events"]]
    assert (ran, record["reviews"]) == ([], [])


async def test_drain_limit__as_the_start_is_recorded_gives_the_job_back(
    database: Database, namespace: str, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(namespace)
    ran: list[int] = []

    @app.job("pay", repeatable=False, lease=timedelta(seconds=20))
    async def pay(payload: int) -> None:
        ran.append(payload)

    recorded = hold_starts(monkeypatch)
    async with flow(app, database, broker_url) as made, coordinating(made):
        async with made.working(made.worker(drain=timedelta(0))):
            (job,) = await made.submit_many(pay, [1])
            await asyncio.wait_for(recorded.wait(), 20)
        given_back = await made.record(job)
        monkeypatch.undo()
        async with made.working(made.worker("worker-b")):
            record = await made.reached(job, "succeeded", 20)
    assert (given_back["state"], given_back["charged"], given_back["reviews"]) == ("queued", 0, [])
    assert (ran, len(record["attempts"])) == ([1], 2)


async def test_start__that_the_ledger_refuses_is_no_start_in_the_record(
    database: Database, namespace: str, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(namespace)
    ran: list[int] = []
    start, asked, may_ask = Completions.start, asyncio.Event(), asyncio.Event()

    async def late(self: Completions, attempt: Attempt) -> StartVerdict:
        asked.set()
        await may_ask.wait()
        return await start(self, attempt)

    @app.job("pay", repeatable=False, lease=timedelta(seconds=20))
    async def pay(payload: int) -> None:
        ran.append(payload)

    monkeypatch.setattr(Completions, "start", late)
    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(pay, 1, deadline=datetime.now(UTC) + timedelta(seconds=6))
        await asyncio.wait_for(asked.wait(), 20)
        await made.reached(job.id, "failed", 20)
        may_ask.set()

        async def acknowledged() -> dict[str, Any] | None:
            (attempt,) = (await made.record(job.id))["attempts"]
            return attempt if attempt["ack_sent_at"] else None

        attempt = await eventually(acknowledged, 20)
    assert (ran, attempt["started_at"], attempt["observed_started_at"]) == ([], None, None)


async def test_time_limit__of_a_handler_that_no_process_could_begin_is_no_unknown_outcome(
    database: Database, namespace: str, broker_url: str
) -> None:
    def elsewhere(payload: int) -> int:
        return payload

    elsewhere.__module__, elsewhere.__qualname__ = "there.is.none", "elsewhere"  # no process can import it
    short, app = timedelta(milliseconds=500), App(namespace)
    pay = app.job_type("pay", int, int, repeatable=False, time_limit=short, retry=RetryPolicy(attempts=1))
    pay.handler(pool="process")(elsewhere)
    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker(processes=1)):
        (job,) = await made.submit_many(pay, [1])
        record = await made.reached(job, "failed", 20)
    assert [one["failure"]["type"] for one in record["attempts"]] == ["NoProcess"]
    assert record["reviews"] == []
