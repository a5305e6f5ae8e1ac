"""Handlers of `pool="process"`: what can be killed, survives what kills it, and keeps its lease."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.databases import Database
    from tests.flow.processes import Stage

Place: TypeAlias = "tuple[Database, str, str, Path]"


@pytest.fixture
def at(database: Database, namespace: str, broker_url: str, tmp_path: Path) -> Place:
    """Where the stage is set."""
    return database, namespace, broker_url, tmp_path


def failures(record: dict[str, Any]) -> list[str]:
    return [attempt["failure"]["message"] for attempt in record["attempts"] if attempt["failure"]]


def pid_of(on: Stage, name: str) -> int:
    return int((on.marks / name).read_text())


def lives(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def gone(pid: int) -> None:
    async def is_gone() -> bool:
        return not lives(pid)

    await eventually(is_gone, 10)


async def test_process__is_used_again_and_says_in_data_how_a_handler_ended(at: Place) -> None:
    secret = urlsplit(at[0].worker_url).password
    async with stage(*at) as on, coordinating(on.made):
        with on.worker():
            done = await on.made.submit(on.pooled, ["pid:first"])
            record = await on.made.reached(done.id, "succeeded", 20)
            failed = await on.made.submit(
                on.pooled, ["pid:second", f"raise:no luck with amqp://user:secret@host or {secret}"]
            )
            exhausted = await on.made.reached(failed.id, "failed", 20)
            later = await on.made.submit(on.pooled_once, ["later:busy"])
            snoozed = await on.made.submit(on.pooled, ["snooze"])
            waiting: dict[Any, dict[str, Any]] = {}
            for job in (later, snoozed):

                async def waits(job: Any = job) -> bool:
                    waiting[job.id] = await on.made.record(job.id)
                    return bool(waiting[job.id]["attempts"]) and waiting[job.id]["state"] == "queued"

                await eventually(waits, 20)
    assert record["result"] == "attempt 1"
    assert pid_of(on, "first") == pid_of(on, "second")
    assert failures(exhausted) == ["no luck with amqp://user:***@host or ***"] * 3
    assert "pooled.py" in exhausted["attempts"][0]["failure"]["traceback"]
    assert waiting[later.id]["waiting"]["detail"]["after"] == "TemporaryFailure"
    assert waiting[snoozed.id]["waiting"]["for"] == "schedule"


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("crash", "the process of the handler was killed by SIGSEGV"),
        ("kill:SIGKILL", "the process of the handler was killed by SIGKILL (the kernel does that for want of memory)"),
        ("leave:3", "the process of the handler ended itself with exit code 3"),
        ("devour", "(no message)"),
    ],
)
async def test_process__that_dies_fails_its_attempt_alone(at: Place, deed: str, said: str) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker() as worker:
            poison = await on.made.submit(on.pooled, ["line:ran", deed])
            once = await on.made.submit(on.pooled_once, [deed])
            record = await on.made.reached(poison.id, "failed", 40)
            reviewed = await on.made.reached(once.id, "review", 20)
            good = await on.made.submit(on.pooled, [])
            await on.made.reached(good.id, "succeeded", 20)
            assert worker.popen.poll() is None
    assert on.lines("ran") == ["1", "2", "3"]
    assert record["failure"]["class"] == "exhausted"
    kind = "MemoryError" if deed == "devour" else "ProcessDied"
    assert [one["failure"]["type"] for one in record["attempts"]] == [kind] * 3
    assert said in (failures(record)[0] or "(no message)")
    assert [one["failure"]["class"] for one in reviewed["attempts"]] == ["unsafe"]


async def test_process__whose_handler_forks_answers_once(at: Place) -> None:
    """What a fork says must not be taken for the answer of the next job."""
    async with stage(*at) as on, coordinating(on.made):
        with on.worker():
            jobs = await on.made.submit_many(on.pooled, [["fork"]] * 5)
            records = [await on.made.reached(job, "succeeded", 20) for job in jobs]
    assert [len(record["attempts"]) for record in records] == [1] * 5


@pytest.mark.parametrize("babble", ["%%%\2{}", "%%%\2no", "what is no frame"])
async def test_process__whose_line_a_handler_writes_to_is_replaced(at: Place, babble: str) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker():
            (garbled,) = await on.made.submit_many(on.pooled, [["line:ran", f"babble:{babble}"]])
            record = await on.made.reached(garbled, "failed", 20)
            (good,) = await on.made.submit_many(on.pooled, [[]])
            await on.made.reached(good, "succeeded", 20)
    assert on.lines("ran") == ["1", "2", "3"]
    assert [one["failure"]["type"] for one in record["attempts"]] == ["ProcessGarbled"] * 3


async def test_process__whose_handler_holds_the_gil_keeps_its_lease(at: Place) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker() as worker:
            job = await on.made.submit(on.pooled, ["hold:4"])
            record = await on.made.reached(job.id, "succeeded", 20)
    (attempt,) = record["attempts"]
    assert attempt["late"] is False
    assert attempt["lease"]["renewals"] >= 3
    assert "GIL" not in worker.said


async def test_cancel__is_seen_by_a_process_that_looks_and_kills_one_that_does_not(at: Place) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker(WORKER__STOP_GRACE="200ms"):
            looking = await on.made.submit(on.pooled, ["pid:looks", "look:never"])
            await on.marked("looks")
            assert await on.made.cancel(looking.id) == "requested"
            seen = await on.made.reached(looking.id, "cancelled", 20)
            deaf = await on.made.submit(on.pooled, ["pid:deaf", "wait:never"])
            await on.marked("deaf")
            await on.made.cancel(deaf.id)
            killed = await on.made.reached(deaf.id, "cancelled", 20)
            await gone(pid_of(on, "deaf"))
    assert on.lines("never.told") == ["cancel"]
    assert pid_of(on, "looks") == pid_of(on, "deaf")  # that one was only asked
    for record in (seen, killed):
        assert [(one["closed"]["as"], one["closed"]["why"]) for one in record["attempts"]] == [("cancelled", "cancel")]


async def test_drain__kills_a_process_at_the_limit_and_releases_its_attempt(at: Place) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker(WORKER__DRAIN="200ms") as worker:
            job = await on.made.submit(on.pooled, ["pid:deaf", "wait:never"])
            await on.marked("deaf")
            code = await worker.drain()
            record = await on.made.record(job.id)
        await gone(pid_of(on, "deaf"))
    assert code == 10
    assert (record["state"], record["charged"]) == ("queued", 0)
    assert record["attempts"][0]["closed"]["as"] == "released"


async def test_drain__is_not_held_up_by_handlers_that_cannot_be_stopped(at: Place) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker(WORKER__LEAKED_THREADS="3", WORKER__STOP_GRACE="100ms") as worker:
            stuck = await on.made.submit(on.threaded, ["receive:a"])
            deaf = await on.made.submit(on.repeatable, ["deaf:hears"])
            await on.marked("hears")
            await on.made.cancel(deaf.id)
            await on.made.reached(deaf.id, "cancelled", 20)
            await on.made.reached(stuck.id, "failed", 20)
            assert await worker.drain() == 0


async def test_drain__lets_a_process_finish(at: Place) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker() as worker:
            job = await on.made.submit(on.pooled, ["pid:began", "wait:go"])
            await on.marked("began")
            os.killpg(pid_of(on, "began"), signal.SIGTERM)  # as a service manager sends it to all processes
            worker.signal(signal.SIGTERM)
            on.mark("go")
            assert await worker.ended() == 0
            record = await on.made.record(job.id)
    assert record["result"] == "attempt 1"


async def test_process__dies_with_its_worker_even_if_it_is_killed(at: Place) -> None:
    async with stage(*at) as on, coordinating(on.made):
        with on.worker() as worker:
            await on.made.submit(on.pooled, ["pid:deaf", "wait:never"])
            await on.marked("deaf")
            worker.kill()
            await gone(pid_of(on, "deaf"))
    assert not lives(pid_of(on, "deaf"))
