"""What a worker does with handlers that are told to stop, and with those that do not."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import App, RetryPolicy, StopRequested, TemporaryFailure
from brokerjobs.worker.worker import DrainedWith
from tests.flow.driving import Flow, coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.context import JobContext, SyncJobContext
    from brokerjobs.worker.worker import Worker
    from tests.databases import Database

SECOND = timedelta(seconds=1)
SHORT = timedelta(milliseconds=100)
ONCE = RetryPolicy(attempts=1)


def closed(record: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(one["closed"]["as"], one["closed"]["why"]) for one in record["attempts"]]


def leaks(worker: Worker) -> bool:
    return worker.has_leaks


async def late_results(made: Flow, job: UUID) -> list[Any]:
    return [one["result"] for one in (await made.record(job))["late_reports"]]


@pytest.mark.parametrize("repeatable", [True, False])
async def test_cancel__reaches_an_async_handler_at_the_next_renewal(
    database: Database, namespace: str, broker_url: str, *, repeatable: bool
) -> None:
    app = App(namespace)
    began, cleaned = asyncio.Event(), asyncio.Event()

    @app.job("hold", repeatable=repeatable, lease=SECOND)
    async def hold(payload: int) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(hold, 1)
        await asyncio.wait_for(began.wait(), 10)
        assert await made.cancel(job.id) == "requested"
        asked = await made.record(job.id)
        record = await made.reached(job.id, "cancelled" if repeatable else "review")
    assert (asked["state"], asked["cancel"]["reason"]) == ("running", "on second thoughts")
    assert cleaned.is_set()
    assert closed(record) == [("cancelled" if repeatable else "released", "cancel")]
    assert [one["report"]["as"] for one in record["attempts"]] == ["released"]


async def test_cancel__of_a_handler_that_says_how_it_ended_is_no_unknown_outcome(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    began = asyncio.Event()

    @app.job("pay", repeatable=False, lease=SECOND)
    async def pay(payload: int) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise TemporaryFailure("nothing was sent") from None

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(pay, 1)
        await asyncio.wait_for(began.wait(), 10)
        await made.cancel(job.id)
        record = await made.reached(job.id, "cancelled")
    assert record["reviews"] == []


async def test_cancel__reaches_a_thread_in_check(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    began = threading.Event()
    told: list[StopRequested] = []

    @app.job("hold", repeatable=True, lease=SECOND)
    def hold(payload: int, ctx: SyncJobContext) -> None:
        began.set()
        while True:
            try:
                ctx.check()
            except StopRequested as error:
                told.append(error)
                raise
            threading.Event().wait(0.01)

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(hold, 1)
        await asyncio.to_thread(began.wait, 10)
        await made.cancel(job.id)
        record = await made.reached(job.id, "cancelled")
    (attempt,) = record["attempts"]
    assert [(str(one.attempt_id), one.reason) for one in told] == [(attempt["id"], "cancel")]
    assert closed(record) == [("cancelled", "cancel")]


async def test_cancel__that_a_handler_swallows_refuses_its_result(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    began = asyncio.Event()

    @app.job("hold", repeatable=True, lease=SECOND)
    async def hold(payload: int) -> int:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return payload
        return 0

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(hold, 7)
        await asyncio.wait_for(began.wait(), 10)
        await made.cancel(job.id)
        record = await made.reached(job.id, "cancelled")
    (attempt,) = record["attempts"]
    assert (attempt["result"], attempt["report"]["verdict"], attempt["report"]["reason"]) == (
        7,
        "rejected",
        "job_cancelled",
    )
    assert record["result"] is None


async def test_cancel__that_a_task_ignores_ends_its_attempt_and_keeps_what_it_says_late(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)
    began, may_end = asyncio.Event(), asyncio.Event()

    @app.job("deaf", repeatable=True, lease=SECOND)
    async def deaf(payload: int) -> int:
        began.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return payload

    @app.job("other", repeatable=True)
    async def other(payload: int) -> int:
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(stop_grace=SHORT, leaked_threads=2)
        async with made.working(worker), AsyncExitStack() as stack:
            stack.callback(may_end.set)  # whatever happens: nothing else ends it
            job = await made.submit(deaf, 7)
            await asyncio.wait_for(began.wait(), 10)
            await made.cancel(job.id)
            record = await made.reached(job.id, "cancelled")
            assert leaks(worker)
            await made.reached((await made.submit(other, 1)).id, "succeeded")  # the worker goes on
            may_end.set()

            async def kept() -> bool:
                return await late_results(made, job.id) == [7]

            await eventually(kept)
            assert not leaks(worker)
        after = await made.record(job.id)
    assert [one["failure"]["type"] for one in record["attempts"]] == ["NotStopped"]
    assert "its handler goes on in its task, which cannot be stopped; 1 handler" in caplog.text
    assert (after["state"], after["result"]) == ("cancelled", None)


async def test_time_limit__that_a_task_ignores_ends_its_attempt(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    may_end = asyncio.Event()

    @app.job("deaf", repeatable=True, lease=SECOND, time_limit=timedelta(milliseconds=300), retry=ONCE)
    async def deaf(payload: int) -> int:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return payload

    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(flow(app, database, broker_url))
        await stack.enter_async_context(coordinating(made))
        await stack.enter_async_context(made.working(made.worker(stop_grace=SHORT, leaked_threads=2)))
        stack.callback(may_end.set)
        job = await made.submit(deaf, 7)
        record = await made.reached(job.id, "failed")
        may_end.set()

        async def kept() -> bool:
            return await late_results(made, job.id) == [7]

        await eventually(kept)
    (attempt,) = record["attempts"]
    assert (attempt["failure"]["type"], record["failure"]["class"]) == ("TimeLimitExceeded", "exhausted")
    assert "ignored the cancellation" in attempt["failure"]["message"]


async def test_deadline__that_passes_stops_the_handler(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    stopped = asyncio.Event()

    @app.job("slow", repeatable=True)
    async def slow(payload: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(slow, 1, deadline=datetime.now(UTC) + timedelta(seconds=4))
        record = await made.reached(job.id, "failed")
        await asyncio.wait_for(stopped.wait(), 5)

        async def reported() -> bool:  # a coordinator may have been first
            (attempt,) = (await made.record(job.id))["attempts"]
            return bool(attempt["failure"]) and attempt["failure"]["type"] == "DeadlinePassed"

        await eventually(reported)
    assert record["failure"]["class"] == "deadline"


async def test_threads__that_cannot_be_stopped_are_counted_and_their_worker_is_replaced(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    may_end = threading.Event()

    @app.job("stuck", repeatable=True, lease=SECOND, time_limit=timedelta(milliseconds=300), retry=ONCE)
    def stuck(payload: int) -> int:
        may_end.wait(30)
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(threads=4, heartbeat=SHORT)
        running = asyncio.create_task(worker.run())
        first = await made.submit(stuck, 1)
        record = await made.reached(first.id, "failed")
        assert not running.done()
        assert leaks(worker)
        second = await made.submit(stuck, 2)
        await made.reached(second.id, "failed")
        assert await asyncio.wait_for(running, 10) == DrainedWith.TO_BE_REPLACED
        may_end.set()
    assert "its thread cannot be stopped and goes on" in record["attempts"][0]["failure"]["message"]


async def test_threads__that_look_at_their_time_limit_are_not_counted(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)
    both, nothing = threading.Barrier(2), threading.Event()

    @app.job("looks", repeatable=True, time_limit=timedelta(milliseconds=300), retry=ONCE)
    def looks(_: int, ctx: SyncJobContext) -> None:
        both.wait(10)
        while True:
            ctx.check()
            nothing.wait(0.4)

    @app.job("other", repeatable=True)
    def other(payload: int) -> int:
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(threads=4, heartbeat=SHORT)  # it is replaced at two
        async with made.working(worker):
            for job in await made.submit_many(looks, [1, 2]):
                await made.reached(job, "failed")

            async def both_ended() -> bool:
                return not leaks(worker)

            await eventually(both_ended)
            await made.reached((await made.submit(other, 3)).id, "succeeded")  # the worker goes on
    assert "which cannot be stopped" not in caplog.text
    assert "to be started again" not in caplog.text


async def test_thread__that_returns_after_its_attempt_gives_its_place_back_and_its_result_is_kept(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    may_end = threading.Event()

    @app.job("stuck", repeatable=True, time_limit=timedelta(milliseconds=300), retry=ONCE)
    def stuck(payload: int) -> int:
        may_end.wait(30)
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(threads=4)
        async with made.working(worker):
            job = await made.submit(stuck, 7)
            await made.reached(job.id, "failed")
            may_end.set()

            async def kept() -> bool:
                return await late_results(made, job.id) == [7]

            await eventually(kept)
            assert not leaks(worker)
        record = await made.record(job.id)
    assert record["state"] == "failed"


async def test_drain__stops_a_thread_that_looks(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    began = threading.Event()

    @app.job("loop", repeatable=True)
    def loop(payload: int, ctx: SyncJobContext) -> None:
        began.set()
        while True:
            ctx.check()
            threading.Event().wait(0.01)

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(drain=SHORT)
        running = asyncio.create_task(worker.run())
        job = await made.submit(loop, 1)
        assert await asyncio.to_thread(began.wait, 10)
        worker.drain()
        assert await asyncio.wait_for(running, 10) == DrainedWith.SOMETHING_RELEASED
        record = await made.record(job.id)
    assert (record["state"], record["charged"]) == ("queued", 0)
    assert closed(record) == [("released", "drain")]


async def test_drain__never_releases_a_thread_that_goes_on(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    began, may_end = threading.Event(), threading.Event()

    @app.job("stuck", repeatable=True)
    def stuck(payload: int) -> None:
        if payload:
            began.set()
            may_end.wait(30)

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(drain=SHORT)
        running = asyncio.create_task(worker.run())
        await made.reached((await made.submit(stuck, 0)).id, "succeeded")  # there is a connection for reports now
        job = await made.submit(stuck, 1)
        assert await asyncio.to_thread(began.wait, 10)
        worker.drain()
        assert await asyncio.wait_for(running, 10) == DrainedWith.SOMETHING_LEFT_TO_ITS_LEASE
        record = await made.record(job.id)
        may_end.set()
    assert (record["state"], record["charged"]) == ("running", 1)
    assert [one["report"] for one in record["attempts"]] == [None]


async def test_check__says_nothing_while_all_is_well(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)

    @app.job("well", repeatable=True)
    async def well(payload: int, ctx: JobContext) -> int:
        ctx.check()
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(well, 1)
        assert (await made.reached(job.id, "succeeded"))["result"] == 1
