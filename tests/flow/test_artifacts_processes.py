"""Artifacts of worker processes: all pools, and workers that die, sleep or drain while they stage."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, TypeAlias

import pytest

from brokerjobs import Artifact
from tests.flow.driving import coordinating
from tests.flow.uploaders import accepted_alone, settled, uploaders

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases import Database

Place: TypeAlias = "tuple[Database, str, str, Path]"

KINDS = ("staged", "staged.thread", "staged.process")


@pytest.fixture
def at(database: Database, namespace: str, broker_url: str, tmp_path: Path) -> Place:
    """Where the worker processes are."""
    return database, namespace, broker_url, tmp_path


async def test_put__of_each_pool_is_visible_with_its_result_and_said_in_the_log(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader() as worker:
            jobs = [await on.submit(kind, "put:a", "put:b") for kind in KINDS]
            records = [await on.made.reached(job, "succeeded", 20) for job in jobs]
            shown = [await on.artifacts(job) for job in jobs]
            assert await worker.drain() == 0
    for record, (a, b) in zip(records, shown, strict=True):
        assert (a["name"], b["name"]) == ("a", "b")
        for one in (a, b):
            artifact = Artifact.model_validate(record["result"]["staged"][one["name"]])
            assert str(artifact.id) == one["id"]
            assert (one["state"], one["visible"], one["number"]) == ("ready", True, 1)
            assert (one["size"], one["sha256"]) == (artifact.size, artifact.sha256)
            assert one["attempt"] == record["attempts"][0]["id"]
            assert one["fencing_number"] == record["attempts"][0]["fencing_number"]
            assert on.content(one) == b"attempt 1"
            line = f"job {record['id']}: artifact {one['id']} of attempt {one['attempt']} is ready: 9 bytes, SHA-256 "
            assert line + one["sha256"] in worker.said


@pytest.mark.parametrize(
    ("kind", "step", "left"),
    [
        ("staged", "stage", []),
        ("staged", "staged", ["staging"]),
        ("staged", "ready", ["staging"]),
        ("staged", "recorded", ["ready"]),
        ("staged", "report", ["ready"]),
        ("staged.process", "ready", ["staging"]),
        ("staged.process", "recorded", ["ready"]),
    ],
)
async def test_killed_worker__leaves_outputs_apart_from_those_of_the_accepted_attempt(
    at: Place, kind: str, step: str, left: list[str]
) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        job = await on.submit(kind, "put:a")
        with on.uploader("worker-a", kill_at=step) as dying:
            assert await dying.ended() == -signal.SIGKILL
        before = await on.artifacts(job, all_attempts=True)
        assert [(one["state"], one["visible"]) for one in before] == [(state, False) for state in left]
        assert await on.artifacts(job) == []
        written = {one["path"] for one in before} if step not in {"stage", "staged"} else set[str]()
        assert on.objects == written

        with on.uploader("worker-b"):
            record = await on.made.reached(job, "succeeded", 20)
        assert record["result"]["attempt"] == 2
        shown = await accepted_alone(on, record)
        assert [one["id"] for one in await on.artifacts(job, all_attempts=True)] == [
            *(one["id"] for one in before),
            shown["id"],
        ]
        # What nobody can accept any more is swept, once it may be, and nothing else.
        assert await on.sweep() == {one["path"] for one in before}
        assert on.objects == {shown["path"]}
        assert await accepted_alone(on, record) == shown


async def test_killed_worker__whose_result_was_recorded_has_handed_over(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        job = await on.submit("staged", "put:a")
        with on.uploader("worker-a", kill_at="ack") as dying:
            assert await dying.ended() == -signal.SIGKILL
        with on.uploader("worker-b"):  # which is told by the delivery that comes again
            record = await on.made.reached(job, "succeeded", 20)
            await accepted_alone(on, record)
        assert len(record["attempts"]) == 1
        assert await on.sweep() == set()


async def test_killed_worker__while_it_uploads_leaves_a_record_of_what_it_wrote(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        jobs = [await on.submit(kind, f"slow:{kind}") for kind in ("staged", "staged.process")]
        once = await on.submit("staged.once", "slow:once")
        with on.uploader("worker-a") as dying:
            for name in ("staged", "staged.process", "once"):
                await on.marked(f"{name}.began")
            dying.kill()
        before = [one for job in (*jobs, once) for one in await on.artifacts(job, all_attempts=True)]
        assert [one["state"] for one in before] == ["staging"] * 3
        assert on.objects == {one["path"] for one in before}
        for name in ("staged", "staged.process"):
            on.mark(f"{name}.go")
        with on.uploader("worker-b"):
            records = [await on.made.reached(job, "succeeded", 20) for job in jobs]
            review = await on.made.reached(once, "review", 20)
        assert [record["result"]["attempt"] for record in records] == [2, 2]
        assert len(review["attempts"]) == 1
        # That of the job in review may still be asked about; the others cannot be accepted.
        assert await on.sweep() >= {one["path"] for one in before[:2]}
        shown = [one for job in jobs for one in await on.artifacts(job)]
        assert {one["path"] for one in shown} <= on.objects
        assert [on.content(one)[-9:] for one in shown] == [b"attempt 2"] * 2


async def test_sleeping_worker__that_goes_on_uploading_after_its_job_is_done_leaves_evidence_alone(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        job = await on.submit("staged", "slow:a")
        with on.uploader("worker-a") as sleeping, on.uploader("worker-b"):
            await on.marked("a.began")
            first = {one["id"]: one for one in await on.artifacts(job, all_attempts=True)}
            (began,) = first.values()
            owner = int((on.marks / "a.began").read_text())
            os.kill(owner, signal.SIGSTOP)
            (on.marks / "a.began").unlink()
            await on.marked("a.began")  # by the other worker
            on.mark("a.go")
            record = await on.made.reached(job, "succeeded", 20)
            assert record["result"]["attempt"] == 2
            shown = await accepted_alone(on, record)
            os.kill(owner, signal.SIGCONT)
            kept, _ = await settled(on, job, "ready", "ready")
            assert (kept["id"], kept["visible"]) == (began["id"], False)
            assert on.content(kept).endswith(b"attempt 1")
            assert await accepted_alone(on, record) == shown
            assert sleeping.popen.poll() is None
        assert await on.sweep() == {kept["path"]}


async def test_killed_process__of_a_handler_that_uploads_has_its_upload_given_up_by_the_worker(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        job = await on.submit("staged.process", "slow:a")
        once = await on.submit("staged.process.once", "slow:b")
        with on.uploader() as worker:
            await on.marked("a.began")
            os.kill(int((on.marks / "a.began").read_text()), signal.SIGKILL)
            on.mark("a.go")
            record = await on.made.reached(job, "succeeded", 20)
            await on.marked("b.began")
            os.kill(int((on.marks / "b.began").read_text()), signal.SIGKILL)
            review = await on.made.reached(once, "review", 20)
            killed, _ = await settled(on, job, "discarded", "ready")
            await settled(on, once, "discarded")
            assert await worker.drain() == 0
        assert [one["failure"]["type"] for one in record["attempts"] if one["failure"]] == ["ProcessDied"]
        assert [one["failure"]["type"] for one in review["attempts"]] == ["ProcessDied"]
        assert killed["removing"]["detail"] == "its process has ended, or its handler has"
        await accepted_alone(on, record)


async def test_cancel__stops_the_uploads_of_all_pools_and_nothing_is_left(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader() as worker:
            jobs = {kind: await on.submit(kind, f"endless:{kind}") for kind in KINDS}
            for kind, job in jobs.items():
                await on.marked(f"{kind}.began")
                assert await on.made.cancel(job) == "requested"
            for job in jobs.values():
                await on.made.reached(job, "cancelled", 20)
                await settled(on, job, "discarded")
            assert on.objects == set()
            again = await on.submit("staged.process", "put:a")  # by the same process: it was asked, not killed
            await accepted_alone(on, await on.made.reached(again, "succeeded", 20))
            assert await worker.drain() == 0


async def test_drain__at_its_limit_stops_the_uploads_of_all_pools(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader(WORKER__DRAIN="100ms") as worker:
            jobs = {kind: await on.submit(kind, f"endless:{kind}") for kind in KINDS}
            for kind in KINDS:
                await on.marked(f"{kind}.began")
            assert await worker.drain() == 10
            for job in jobs.values():
                assert (await on.made.record(job))["attempts"][0]["closed"]["as"] == "released"
                await settled(on, job, "discarded")


async def test_time_limit__of_a_thread_that_goes_on_uploading_makes_nothing_visible(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        job = await on.submit("staged.brief", "put:a", "first", "endless:b")
        with on.uploader():
            record = await on.made.reached(job, "succeeded", 20)
            kept, _, _ = await settled(on, job, "ready", "discarded", "ready")
        assert record["attempts"][0]["failure"]["type"] == "TimeLimitExceeded"
        assert (kept["number"], kept["visible"]) == (1, False)
        shown = await accepted_alone(on, record)
        assert on.objects == {kept["path"], shown["path"]}
