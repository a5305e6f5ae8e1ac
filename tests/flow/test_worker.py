"""What a worker does with handlers that end in every way, and with its leases."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from brokerjobs import App, InvalidJob, RetryPolicy, Snooze, TemporaryFailure
from brokerjobs.errors import ConfigurationError, LedgerUnavailable
from brokerjobs.worker.worker import DrainedWith
from tests.flow.driving import Flow, coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from brokerjobs.context import JobContext, SyncJobContext
    from tests.databases import Database

QUICK = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=20))


async def test_handler__that_raises_is_retried_and_then_exhausted_with_every_attempt_kept(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="brokerjobs.worker")
    app = App(namespace)
    ran: list[int] = []

    @app.job("fail", repeatable=True, retry=QUICK)
    async def fail(payload: int, ctx: JobContext) -> None:
        ran.append(ctx.attempt.number)
        message = f"no luck with {payload}, try {ctx.attempt.number} at amqp://user:secret@host"
        raise ValueError(message)

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(fail, 5)
        record = await made.reached(job.id, "failed")
    assert ran == [1, 2, 3]
    assert record["failure"]["class"] == "exhausted"
    said = [f"no luck with 5, try {n} at amqp://user:***@host" for n in (1, 2, 3)]
    assert [a["failure"]["message"] for a in record["attempts"]] == said
    logged = [one for one in caplog.records if one.getMessage().startswith(f"job {job.id}")]
    assert [one.getMessage() for one in logged if one.levelno == logging.WARNING] == [
        f"job {job.id} (fail): attempt {n} failed (temporary): ValueError: {message}"
        for n, message in enumerate(said, start=1)
    ]
    assert sum("Traceback" in one.getMessage() for one in logged if one.levelno == logging.DEBUG) == len(said)
    assert all("ValueError" in a["failure"]["traceback"] for a in record["attempts"])
    fences = [int(a["fencing_number"]) for a in record["attempts"]]
    assert fences == sorted(set(fences))


async def test_invalid_job__fails_at_once(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)

    @app.job("bad", repeatable=False, retry=QUICK)
    async def bad(payload: int) -> None:
        raise InvalidJob(f"{payload} is out of the question")

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(bad, 5)
        record = await made.reached(job.id, "failed")
    assert record["failure"] == {"class": "invalid", "reason": "5 is out of the question"}
    assert len(record["attempts"]) == 1


async def test_not_repeatable__unclassified_exception_goes_to_review_and_a_classified_one_is_retried(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)

    @app.job("pay", repeatable=False, retry=QUICK, failures={ConnectionError: "temporary"})
    async def pay(payload: str, ctx: JobContext) -> str:
        if payload == "unclear":
            raise RuntimeError(payload)
        if ctx.attempt.number == 1:
            raise ConnectionError(payload)
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        unclear, refused = await made.submit(pay, "unclear"), await made.submit(pay, "refused")
        reviewed = await made.reached(unclear.id, "review")
        done = await made.reached(refused.id, "succeeded")
    assert [review["closed_at"] for review in reviewed["reviews"]] == [None]
    assert [attempt["state"] for attempt in reviewed["attempts"]] == ["failed"]
    assert [attempt["state"] for attempt in done["attempts"]] == ["failed", "completed"]
    assert [e["kind"] for e in done["events"]].count("started") == 2
    (said,) = [one for one in caplog.records if getattr(one, "event", None) == "review_opened"]
    attempt, review = reviewed["attempts"][0]["id"], reviewed["reviews"][0]["id"]
    assert said.getMessage() == (
        f"review_opened job={unclear.id} attempt={attempt} review={review} type={namespace}/pay: "
        f"attempt 1 failed (unsafe, RuntimeError); its outcome is unknown, see: brokerjobs review show {unclear.id}"
    )


async def test_snooze__runs_again_uncharged(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)

    @app.job("later", repeatable=True, retry=RetryPolicy(attempts=1))
    async def later(payload: int, ctx: JobContext) -> int:
        if ctx.attempt.number == 1:
            raise Snooze(datetime.now(UTC) + timedelta(milliseconds=50))
        return ctx.attempt.number

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(later, 1)
        record = await made.reached(job.id, "succeeded")
    assert record["result"] == 2
    assert [a["charged"] for a in record["attempts"]] == [False, True]


async def test_retry_after__is_the_ledgers_not_before(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)

    @app.job("wait", repeatable=True)
    async def wait(payload: int) -> None:
        raise TemporaryFailure("busy", retry_after=timedelta(hours=2))

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(wait, 1)

        async def waits_for_retry() -> bool:
            waiting = (await made.record(job.id))["waiting"]
            return bool(waiting and waiting["for"] == "retry")

        await eventually(waits_for_retry)
        record = await made.record(job.id)
    until = datetime.fromisoformat(record["waiting"]["until"])
    assert timedelta(minutes=119) < until - datetime.now(UTC) < timedelta(minutes=121)
    assert record["waiting"]["detail"]["after"] == "TemporaryFailure"


async def test_time_limit__ends_the_attempt(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    cancelled = asyncio.Event()

    @app.job("slow", repeatable=False, time_limit=timedelta(milliseconds=200))
    async def slow(payload: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(slow, 1)
        record = await made.reached(job.id, "review")
    assert cancelled.is_set()
    assert record["attempts"][0]["failure"]["type"] == "TimeLimitExceeded"
    assert record["attempts"][0]["state"] == "failed"


async def test_sync_handler__runs_in_a_thread_with_its_context(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    threads: list[str] = []

    @app.job("sync", repeatable=True)
    def sync(payload: int, ctx: SyncJobContext) -> int:
        threads.append(threading.current_thread().name)
        with ctx.transaction() as tx:
            (found,) = tx.execute("select %s + 1", [payload]).fetchone() or (None,)
            tx.complete(found)
        return payload + 1

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(sync, 1)
        record = await made.reached(job.id, "succeeded")
    assert threads[0].startswith("brokerjobs-handler")
    assert record["result"] == 2


async def test_system_exit_in_a_handler__is_a_failure_of_its_attempt_alone(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)

    @app.job("exit", repeatable=False)
    async def leave(payload: int) -> None:
        raise SystemExit(payload)

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(leave, 3)
        record = await made.reached(job.id, "review")
    assert record["attempts"][0]["failure"]["type"] == "SystemExit"


async def test_lease__is_renewed_while_a_handler_blocks_the_event_loop(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)

    @app.job("block", repeatable=True, lease=timedelta(seconds=1))
    async def block(payload: int) -> int:
        time.sleep(3)  # noqa: ASYNC251  # the mistake that this test is about
        return payload

    async with flow(app, database, broker_url) as made:
        job = await made.submit(block, 1)
        async with coordinating(made, in_thread=True), made.working(made.worker()):
            record = await made.reached(job.id, "succeeded")
    (attempt,) = record["attempts"]
    assert attempt["late"] is False
    assert attempt["lease"]["renewals"] >= 2
    assert "blocked the event loop" in caplog.text
    assert "test_worker.py" in caplog.text


async def test_transaction__commits_the_writes_and_the_result_together(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)

    @app.job("write", repeatable=False)
    async def write(payload: int, ctx: JobContext) -> int:
        async with ctx.transaction() as tx:
            await tx.execute("insert into effects values (%s, %s)", [ctx.job_id, ctx.attempt.fencing_number])
            tx.complete(payload * 2)
        return payload * 2

    async with flow(app, database, broker_url) as made:
        await _make_effects(database)
        async with coordinating(made), made.working(made.worker()):
            job = await made.submit(write, 4)
            record = await made.reached(job.id, "succeeded")
        assert record["result"] == 8
        assert await _effects(database) == [job.id]


async def test_transaction__after_whose_commit_the_handler_raises_is_a_success_and_the_log_says_what_was_raised(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)

    @app.job("write", repeatable=False)
    async def write(payload: int, ctx: JobContext) -> int:
        async with ctx.transaction() as tx:
            tx.complete(payload)
        raise ValueError("after all")

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(write, 4)
        await made.reached(job.id, "succeeded")
    assert "in its transaction and then ended otherwise: failed (ValueError: after all)" in caplog.text


async def test_transaction__of_a_superseded_attempt_rolls_back(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    may_end = asyncio.Event()

    @app.job("write", repeatable=True, lease=timedelta(seconds=1))
    async def write(payload: int, ctx: JobContext) -> int:
        async with ctx.transaction() as tx:
            await tx.execute("insert into effects values (%s, %s)", [ctx.job_id, ctx.attempt.fencing_number])
            if ctx.attempt.number == 1:
                await _give_up_lease(made, ctx)
                await may_end.wait()
            tx.complete(ctx.attempt.number)
        return ctx.attempt.number

    async with flow(app, database, broker_url) as made:
        await _make_effects(database)
        job = await made.submit(write, 4)
        async with coordinating(made), made.working(made.worker("worker-a")), made.working(made.worker("worker-b")):
            first = await made.reached(job.id, "succeeded", within_seconds=20)
            may_end.set()

            async def both_reported() -> bool:
                return all(attempt["report"] for attempt in (await made.record(job.id))["attempts"])

            await eventually(both_reported)
        record = await made.record(job.id)
    assert first["result"] == 2
    assert record["result"] == 2
    assert [attempt["state"] for attempt in record["attempts"]] == ["rejected_stale", "completed"]
    assert record["attempts"][0]["report"]["reason"] in {"job_succeeded", "newer_attempt"}
    assert await _effects(database) == [job.id]


async def test_transaction__whose_error_the_handler_swallows_is_a_failure_with_the_result_as_evidence(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)

    @app.job("swallow", repeatable=False)
    async def swallow(payload: int, ctx: JobContext) -> int:
        try:
            async with ctx.transaction() as tx:
                tx.complete(payload)
                await tx.execute("select 1 / 0")
        except psycopg.errors.DivisionByZero:
            pass
        return payload

    @app.job("half", repeatable=False)
    async def half(payload: int, ctx: JobContext) -> int:
        try:
            async with ctx.transaction() as tx:
                tx.complete(payload)
                await _end_backend(
                    database, (await (await tx.execute("select pg_backend_pid()")).fetchone() or (0,))[0]
                )
        except LedgerUnavailable:
            pass
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        plain = await made.submit(swallow, 1)
        lost = await made.submit(half, 2)
        first = await made.reached(plain.id, "succeeded")
        second = await made.reached(lost.id, "review")
    assert first["attempts"][0]["report"]["verdict"] == "accepted"  # it never came to the completing statement
    assert second["result"] is None
    assert second["attempts"][0]["result"] == 2
    assert second["attempts"][0]["failure"]["type"] == "ResultNotRecorded"


async def test_drain__finishes_running_attempts_and_gives_back_the_rest(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.job("hold", repeatable=False)
    async def hold(payload: int) -> int:
        started.set()
        await may_end.wait()
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(concurrency=1, deliveries=5)
        running = asyncio.create_task(worker.run())
        jobs = [await made.submit(hold, n) for n in range(4)]
        await asyncio.wait_for(started.wait(), 10)

        async def three_delivered() -> bool:
            return worker.unclaimed == 3

        await eventually(three_delivered)
        worker.drain()

        async def three_handed_back() -> bool:
            records = [await made.record(job.id) for job in jobs]
            return sum("handed_back" in [e["kind"] for e in r["events"]] for r in records) == 3

        await eventually(three_handed_back)
        may_end.set()
        assert await asyncio.wait_for(running, 10) == DrainedWith.EVERYTHING_REPORTED
        states = sorted([await made.state(job.id) for job in jobs])
    assert states == ["queued", "queued", "queued", "succeeded"]


async def test_drain__at_its_limit_releases_what_is_repeatable_and_reviews_what_is_not(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    safe_began, unsafe_began = asyncio.Event(), asyncio.Event()

    @app.job("safe", repeatable=True)
    async def safe(payload: int) -> None:
        safe_began.set()
        await asyncio.Event().wait()

    @app.job("unsafe", repeatable=False)
    async def unsafe(payload: int) -> None:
        unsafe_began.set()
        await asyncio.Event().wait()

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(drain=timedelta(seconds=30))
        running = asyncio.create_task(worker.run())
        one, two = await made.submit(safe, 1), await made.submit(unsafe, 2)
        async with asyncio.timeout(10):
            await safe_began.wait()
            await unsafe_began.wait()
        worker.drain()
        worker.drain()  # straight to the limit
        assert await asyncio.wait_for(running, 10) == DrainedWith.SOMETHING_RELEASED
        first, second = await made.record(one.id), await made.record(two.id)
    assert first["state"] == "queued"
    assert first["attempts"][0]["state"] == "released"
    assert first["charged"] == 0
    assert second["state"] == "review"


async def test_drain__leaves_a_thread_to_its_lease(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    started, may_end = threading.Event(), threading.Event()

    @app.job("stuck", repeatable=True)
    def stuck(payload: int) -> None:
        started.set()
        may_end.wait(20)

    async with flow(app, database, broker_url) as made, coordinating(made):
        worker = made.worker(drain=timedelta(milliseconds=100))
        running = asyncio.create_task(worker.run())
        job = await made.submit(stuck, 1)
        assert await asyncio.to_thread(started.wait, 10)
        worker.drain()
        assert await asyncio.wait_for(running, 10) == DrainedWith.SOMETHING_LEFT_TO_ITS_LEASE
        may_end.set()
        assert await made.state(job.id) == "running"


async def test_worker__without_a_handler_says_so(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    app.job_type("only.declared", int, None, repeatable=True)
    async with flow(app, database, broker_url) as made:
        with pytest.raises(ConfigurationError, match="has a handler here"):
            made.worker()


async def test_cancel__of_a_running_job_refuses_its_result(database: Database, namespace: str, broker_url: str) -> None:
    app = App(namespace)
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.job("hold", repeatable=True)
    async def hold(payload: int) -> int:
        started.set()
        await may_end.wait()
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        job = await made.submit(hold, 1)
        await asyncio.wait_for(started.wait(), 10)
        assert await made.cancel(job.id) == "requested"
        may_end.set()
        record = await made.reached(job.id, "cancelled")
    assert record["attempts"][0]["result"] == 1
    assert record["attempts"][0]["report"]["reason"] == "job_cancelled"


async def _make_effects(database: Database) -> None:
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        await connection.execute("create table effects (job_id uuid, fencing_number bigint)")
        await connection.execute("grant insert, select on effects to public")


async def _effects(database: Database) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        return [row[0] for row in await (await connection.execute("select job_id from effects")).fetchall()]


async def _end_backend(database: Database, pid: int) -> None:
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        await connection.execute("select pg_terminate_backend(%s, 5000)", [pid])


async def _give_up_lease(made: Flow, ctx: JobContext) -> None:
    """Lets the ledger see the attempt's lease as run out long ago, as if nothing had renewed it."""
    async with await psycopg.AsyncConnection.connect(made.database.admin_url, autocommit=True) as connection:
        await connection.execute(
            "update brokerjobs.job_state set lease_until = lease_until - interval '1 hour' where job_id = %s",
            [ctx.job_id],
        )
