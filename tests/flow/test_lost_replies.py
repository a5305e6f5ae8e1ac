"""Answers that never come: a COMMIT, a cut between worker and broker, a broker that restarts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.flow.proxy import proxied
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RabbitMQFactory
    from tests.databases import Database


@pytest.mark.parametrize("step", ["fenced", "fenced_stubbornly"])
@pytest.mark.parametrize("lose", ["before", "after"])
async def test_commit_without_an_answer__leaves_writes_and_success_together(
    database: Database, namespace: str, broker_url: str, tmp_path: Path, *, step: str, lose: str
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, proxied(database.worker_url) as proxy:
        job = await on.made.submit(on.once, ["touch:began", "wait:go", step])
        async with coordinating(on.made):
            with on.worker(DATABASE_URL=proxy.url):
                await on.marked("began")
                proxy.lose_commit = lose
                on.mark("go")

                async def ended() -> bool:
                    return await on.made.state(job.id) in {"succeeded", "review"}

                await eventually(ended, 20)
        record = await on.made.record(job.id)
        effects = await on.effects()
    assert proxy.lost == 1
    assert len(effects) == (1 if record["state"] == "succeeded" else 0)
    # Committed unseen: only asked. Not committed: the plain retry loop may do it once; without one a person decides.
    assert record["state"] == ("succeeded" if lose == "after" or step == "fenced_stubbornly" else "review")
    if record["state"] == "review":
        assert record["attempts"][0]["result"] == "attempt 1"
        assert record["attempts"][0]["failure"]["type"] == "LedgerUnavailable"


@pytest.mark.timeout(150)
async def test_case_02__a_cut_between_worker_and_broker_repeats_no_handler(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, proxied(broker_url) as proxy:
        jobs = [
            await on.made.submit(on.once, [f"line:ran{n}", f"touch:began{n}", "wait:go", "fenced"]) for n in range(10)
        ]
        async with coordinating(on.made):
            with on.worker(BROKER_URL=proxy.url, WORKER__CONCURRENCY="10", WORKER__PREFETCH="10") as worker:
                for n in range(10):
                    await on.marked(f"began{n}")
                proxy.cut()
                on.mark("go")
                for job in jobs:
                    await on.made.reached(job.id, "succeeded", 20)
                proxy.heal()

                async def answered() -> bool:
                    records = [await on.made.record(job.id) for job in jobs]
                    return all("duplicate_delivery" in [e["kind"] for e in r["events"]] for r in records)

                await eventually(answered, 60)  # the longest back-off of its reconnects, and the broker's own pace
                assert await worker.drain() == 0
        effects = await on.effects()
    assert sorted(effects) == sorted(job.id for job in jobs)
    assert [on.lines(f"ran{n}") for n in range(10)] == [["1"]] * 10
    assert "ack_lost" in worker.said
    assert "Traceback" not in worker.said


@pytest.mark.timeout(150)
async def test_case_03__a_broker_that_restarts_during_the_work_gives_one_result(
    database: Database, namespace: str, rabbitmq_factory: RabbitMQFactory, tmp_path: Path
) -> None:
    broker = rabbitmq_factory()
    async with stage(database, namespace, broker.url, tmp_path) as on:
        job = await on.made.submit(on.once, ["line:ran", "touch:began", "wait:go", "fenced"])
        async with coordinating(on.made):
            with on.worker() as worker:
                await on.marked("began")
                broker.stop_app()
                broker.start_app()
                on.mark("go")
                await on.made.reached(job.id, "succeeded", 30)

                async def answered() -> bool:
                    events = (await on.made.record(job.id))["events"]
                    return "duplicate_delivery" in [event["kind"] for event in events]

                await eventually(answered, 30)
                assert await worker.drain() == 0
        record = await on.made.record(job.id)
    assert len(record["attempts"]) == 1
    assert on.lines("ran") == ["1"]
    assert await on.effects() == [job.id]


async def test_case_05__a_drain_keeps_heartbeats_and_leases_and_acknowledges(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on:
        job = await on.made.submit(on.once, ["line:ran", "touch:began", "wait:go"])
        later = None
        async with coordinating(on.made):
            with on.worker(BROKER__HEARTBEAT="2s") as worker:
                await on.marked("began")
                worker.popen.terminate()
                later = await on.made.submit(on.repeatable, ["line:later"])

                async def renewed_through_three_leases() -> bool:
                    (attempt,) = (await on.made.record(job.id))["attempts"]
                    lease = attempt["lease"]
                    first, last = (datetime.fromisoformat(lease[f"{which}_until"]) for which in ("first", "last"))
                    return last - first > timedelta(seconds=6)

                await eventually(renewed_through_three_leases, 30)  # that is three AMQP heartbeats, too
                on.mark("go")
                code = await worker.ended()
        record = await on.made.record(job.id)
        waiting = await on.made.state(later.id)
    assert code == 0
    assert record["state"] == "succeeded"
    assert len(record["attempts"]) == 1
    assert record["attempts"][0]["ack_sent_at"] is not None
    assert "duplicate_delivery" not in [event["kind"] for event in record["events"]]
    assert waiting == "queued"
    assert on.lines("later") == []


@pytest.mark.timeout(150)
async def test_case_01__told_the_truth_the_worker_acknowledges_when_it_claims(
    database: Database, namespace: str, rabbitmq_factory: RabbitMQFactory, tmp_path: Path
) -> None:
    broker = rabbitmq_factory(advanced="[{rabbit, [{consumer_timeout, 5000}, {channel_tick_interval, 1000}]}].")
    async with stage(database, namespace, broker.url, tmp_path) as on:
        long = await on.made.submit(on.once, ["line:long", "touch:began", "wait:go"])
        async with coordinating(on.made):
            with on.worker(BROKER__CONSUMER_TIMEOUT="5s", BROKER__HEARTBEAT="15s") as worker:
                await on.marked("began")

                async def acked() -> bool:
                    return (await on.made.record(long.id))["attempts"][0]["ack_sent_at"] is not None

                await eventually(acked, 20)
                assert await on.made.state(long.id) == "running"

                async def has_run_longer_than_the_timeout() -> bool:
                    lease = (await on.made.record(long.id))["attempts"][0]["lease"]
                    first, last = (datetime.fromisoformat(lease[f"{which}_until"]) for which in ("first", "last"))
                    return last - first > timedelta(seconds=8)

                await eventually(has_run_longer_than_the_timeout, 40)
                short = [await on.made.submit(on.repeatable, [f"line:short{n}"]) for n in range(3)]
                besides = [await on.made.reached(job.id, "succeeded", 20) for job in short]
                on.mark("go")
                record = await on.made.reached(long.id, "succeeded", 20)
                assert await worker.drain() == 0
        closed = broker.log_text()
    assert "delivery acknowledgement on channel" not in closed
    assert "connecting again" not in worker.said, "the channel stays open"
    assert "ack_lost" not in worker.said
    deliveries = [attempt["delivery"]["redelivered"] for one in (record, *besides) for attempt in one["attempts"]]
    assert deliveries == [False] * 4
    assert len(record["attempts"]) == 1
    assert "duplicate_delivery" not in [event["kind"] for event in record["events"]]
    assert on.lines("long") == ["1"]


@pytest.mark.timeout(150)
async def test_case_01__a_job_longer_than_the_consumer_timeout_runs_once(
    database: Database, namespace: str, rabbitmq_factory: RabbitMQFactory, tmp_path: Path
) -> None:
    # The worker is told 30 min, the broker has 5 s: it closes the channel under the running job.
    broker = rabbitmq_factory(advanced="[{rabbit, [{consumer_timeout, 5000}, {channel_tick_interval, 1000}]}].")
    async with stage(database, namespace, broker.url, tmp_path) as on:
        long = await on.made.submit(on.once, ["line:long", "touch:began", "wait:go", "fenced"])
        async with coordinating(on.made):
            with on.worker(WORKER__PREFETCH="4", BROKER__HEARTBEAT="15s") as worker:
                await on.marked("began")

                async def redelivered() -> bool:
                    events = (await on.made.record(long.id))["events"]
                    return "duplicate_delivery" in [event["kind"] for event in events]

                await eventually(redelivered, 40)
                short = [await on.made.submit(on.repeatable, [f"line:short{n}"]) for n in range(3)]
                for job in short:
                    await on.made.reached(job.id, "succeeded", 20)
                on.mark("go")
                record = await on.made.reached(long.id, "succeeded", 20)
                assert await worker.drain() == 0
        closed = broker.log_text()
    assert "delivery acknowledgement on channel" in closed
    assert len(record["attempts"]) == 1
    assert on.lines("long") == ["1"]
    assert await on.effects() == [long.id]
    assert [on.lines(f"short{n}") for n in range(3)] == [["1"]] * 3
    duplicate = next(event for event in record["events"] if event["kind"] == "duplicate_delivery")
    assert duplicate["state"] == "running"
