"""What the product promises when a worker disappears: each test ends a real process at an uncomfortable moment."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from brokerjobs.broker.topology import QueueType
    from tests.databases import Database


Place: TypeAlias = "tuple[Database, str, str, Path]"


@pytest.fixture
def at(database: Database, namespace: str, broker_url: str, tmp_path: Path) -> Place:
    """Where the stage is set."""
    return database, namespace, broker_url, tmp_path


def states(record: dict[str, Any]) -> list[str]:
    return [attempt["state"] for attempt in record["attempts"]]


def kinds(record: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in record["events"]]


async def test_killed_after_the_claim_and_before_the_start__is_claimed_not_active_and_retried(at: Place) -> None:
    async with stage(*at) as on:
        job = await on.made.submit(on.once, ["line:ran"])
        async with coordinating(on.made):
            with on.worker(kill_at="start") as dying:
                await dying.ended()
            first = await on.made.record(job.id)
            with on.worker("worker-b"):
                record = await on.made.reached(job.id, "succeeded", 20)
    assert dying.popen.returncode == -signal.SIGKILL
    assert states(first) in (["claimed"], ["timed_out"])
    assert first["attempts"][0]["started_at"] is None
    assert states(record) == ["timed_out", "completed"]
    assert on.lines("ran") == ["2"]
    assert record["reviews"] == []


async def test_killed_after_an_unfenced_effect__runs_again_and_says_so(at: Place) -> None:
    async with stage(*at) as on:
        job = await on.made.submit(on.repeatable, ["line:ran", "first", "kill"])
        async with coordinating(on.made):
            with on.worker() as dying:
                await dying.ended()
            with on.worker("worker-b"):
                record = await on.made.reached(job.id, "succeeded", 20)
    assert on.lines("ran") == ["1", "2"]
    assert states(record) == ["timed_out", "completed"]
    assert record["result"] == "attempt 2"


async def test_killed_after_a_fenced_effect_and_before_the_ack__has_one_effect(at: Place) -> None:
    async with stage(*at) as on:
        job = await on.made.submit(on.once, ["line:ran", "fenced"])
        async with coordinating(on.made):
            with on.worker(kill_at="ack") as dying:
                await dying.ended()
            assert await on.made.state(job.id) == "succeeded"
            with on.worker("worker-b"):

                async def answered() -> bool:
                    return "duplicate_delivery" in kinds(await on.made.record(job.id))

                await eventually(answered, 20)
        record = await on.made.record(job.id)
    assert on.lines("ran") == ["1"]
    assert await on.effects() == [job.id]
    assert states(record) == ["completed"]
    assert record["attempts"][0]["ack_sent_at"] is None


async def test_killed_before_a_not_repeatable_report__goes_to_review(at: Place) -> None:
    async with stage(*at) as on:
        job = await on.made.submit(on.once, ["line:ran"])
        async with coordinating(on.made):
            with on.worker(kill_at="report") as dying:
                await dying.ended()
            record = await on.made.reached(job.id, "review", 20)
    assert on.lines("ran") == ["1"]
    assert states(record) == ["timed_out"]
    assert record["reviews"][0]["cause"].startswith("the attempt had started")


@pytest.mark.parametrize(
    ("ending", "reported_as"), [("", "completed"), ("raise:late", "failed"), ("snooze", "released")]
)
async def test_case_18__a_stopped_attempt_that_returns_after_a_newer_one_changes_nothing(
    at: Place, ending: str, reported_as: str
) -> None:
    script = ["line:ran", "first", "touch:began", "wait:go", *([ending] if ending else [])]
    async with stage(*at) as on:
        job = await on.made.submit(on.repeatable, script)
        async with coordinating(on.made):
            with on.worker("worker-a") as paused:
                await on.marked("began")
                paused.signal(signal.SIGSTOP)
                with on.worker("worker-b"):
                    won = await on.made.reached(job.id, "succeeded", 20)
                on.mark("go")
                paused.signal(signal.SIGCONT)

                async def reported() -> bool:
                    return (await on.made.record(job.id))["attempts"][0]["report"] is not None

                await eventually(reported, 20)
        record = await on.made.record(job.id)
    assert won["result"] == record["result"] == "attempt 2"
    assert states(record) == ["rejected_stale", "completed"]
    late = record["attempts"][0]
    assert late["report"]["as"] == reported_as
    assert late["report"]["verdict"] == "rejected"
    assert late["report"]["reason"] == "job_succeeded"
    assert late["report"]["received_at"] is not None
    assert late["report"]["observed_at"] is not None
    assert int(late["fencing_number"]) < int(record["attempts"][1]["fencing_number"])
    assert record["state"] == "succeeded"


async def test_stopped_beyond_its_lease_and_still_current__is_accepted_late(at: Place) -> None:
    async with stage(*at) as on:
        job = await on.made.submit(on.repeatable, ["touch:began", "wait:go"])
        await on.made.ring(job.id)
        with on.worker("worker-a") as paused:
            await on.marked("began")
            paused.signal(signal.SIGSTOP)
            expired = await on.made.reap(job.id)
            # No scheduler rings it, so nobody claims it before the old attempt returns.
            on.mark("go")
            paused.signal(signal.SIGCONT)
            record = await on.made.reached(job.id, "succeeded", 20)
    assert expired["state"] == "queued"
    assert states(expired) == ["timed_out"]
    assert states(record) == ["completed"]
    (attempt,) = record["attempts"]
    assert attempt["late"] is True
    assert attempt["closed"]["as"] == "timed_out"
    assert attempt["report"]["verdict"] == "accepted"


async def test_stopped_inside_its_fenced_transaction__stalls_nobody_and_writes_nothing(at: Place) -> None:
    async with stage(*at) as on:
        job = await on.made.submit(on.repeatable, ["first", "fenced_slowly:inside"])
        async with coordinating(on.made):
            with on.worker("worker-a") as paused:
                await on.marked("inside")
                paused.signal(signal.SIGSTOP)
                others = [await on.made.submit(on.repeatable, [f"line:other{n}"]) for n in range(5)]
                with on.worker("worker-b"):
                    for other in others:
                        await on.made.reached(other.id, "succeeded", 20)
                    won = await on.made.reached(job.id, "succeeded", 20)
                on.mark("inside.go")
                paused.signal(signal.SIGCONT)

                async def reported() -> bool:
                    return (await on.made.record(job.id))["attempts"][0]["report"] is not None

                await eventually(reported, 20)
        record = await on.made.record(job.id)
    assert won["result"] == "attempt 2"
    assert states(record) == ["rejected_stale", "completed"]
    assert record["attempts"][0]["failure"]["type"] == "StaleAttempt"
    assert await on.effects() == []


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
@pytest.mark.parametrize(("deed", "ended_by"), [("kill", signal.SIGKILL), ("crash", signal.SIGSEGV)])
async def test_case_11__a_job_that_kills_its_process_runs_out(
    at: Place, queue_type: QueueType, deed: str, ended_by: signal.Signals
) -> None:
    async with stage(*at, queue_type=queue_type) as on:
        poison = await on.made.submit(on.repeatable, ["line:ran", deed])
        async with coordinating(on.made):
            for life in range(3):
                with on.worker(f"worker-{life}") as dying:
                    assert await dying.ended() == -ended_by
            good = await on.made.submit(on.repeatable, ["line:good"])
            with on.worker("worker-last"):
                await on.made.reached(good.id, "succeeded", 20)
                record = await on.made.reached(poison.id, "failed", 20)
    assert on.lines("ran") == ["1", "2", "3"]
    assert record["failure"]["class"] == "exhausted"
    assert states(record) == ["timed_out"] * 3
    assert record["charged"] == 3


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_case_11__a_job_that_wants_more_memory_than_there_is_runs_out(at: Place, queue_type: QueueType) -> None:
    async with stage(*at, queue_type=queue_type) as on, coordinating(on.made):
        poison = await on.made.submit(on.repeatable, ["line:ran", "devour"])
        with on.worker() as worker:
            record = await on.made.reached(poison.id, "failed", 20)
            good = await on.made.submit(on.repeatable, ["line:good"])
            await on.made.reached(good.id, "succeeded", 20)
            assert worker.popen.poll() is None
    assert on.lines("ran") == ["1", "2", "3"]
    assert record["failure"]["class"] == "exhausted"
    assert [attempt["failure"]["type"] for attempt in record["attempts"]] == ["MemoryError"] * 3
