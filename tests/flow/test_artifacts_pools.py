"""Artifacts in threads and processes: what is refused, what fails, and what must not reach the next attempt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from tests.flow.driving import coordinating
from tests.flow.uploaders import accepted_alone, settled, uploaders
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases import Database

Place: TypeAlias = "tuple[Database, str, str, Path]"

KINDS: Final = ("staged", "staged.thread", "staged.process")
SECRET: Final = "s3cr3t-of-the-store"
OPTIONS: Final = {"endpoint": "http://127.0.0.1:1", "access_key_id": "staging", "secret_access_key": SECRET}
BUCKET: Final = {"ARTIFACTS__URL": "s3://outputs", "ARTIFACTS__OPTIONS": json.dumps(OPTIONS)}


@pytest.fixture
def at(database: Database, namespace: str, broker_url: str, tmp_path: Path) -> Place:
    """Where the worker processes are."""
    return database, namespace, broker_url, tmp_path


def failures(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["failure"]["type"], one["failure"]["class"]) for one in record["attempts"] if one["failure"]]


async def test_worker__that_stages_nothing_imports_no_library_of_stores_and_tells_no_secret(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader(**BUCKET) as worker:
            jobs = [await on.submit(kind, "look") for kind in KINDS]
            records = [await on.made.reached(job, "succeeded", 20) for job in jobs]
            assert await worker.drain() == 0
    for record in records:
        seen = record["result"]["seen"]
        assert len(seen) > 2
        assert "obstore" not in seen
        assert not any(SECRET in word for word in seen)
    assert SECRET not in worker.said


async def test_put__without_the_library_of_its_store_says_what_to_install(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader(**BUCKET, TEST_WITHOUT_OBSTORE="1"):
            jobs = [await on.submit(kind, "put:a") for kind in KINDS]
            records = [await on.made.reached(job, "failed", 20) for job in jobs]
        shown = [await on.artifacts(job, all_attempts=True) for job in jobs]
    assert shown == [[], [], []]
    for record in records:
        assert "ConfigurationError" in failures(record)[0][0]
        assert "pip install 'brokerjobs[artifacts]'" in record["attempts"][0]["failure"]["message"]


async def test_store__without_an_answer_is_asked_again_by_the_next_attempt_or_by_a_person(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader(**BUCKET, TEST_IMPATIENT="1") as worker:
            jobs = [await on.submit(kind, "put:a") for kind in KINDS]
            once = await on.submit("staged.once", "put:a")
            records = [await on.made.reached(job, "failed", 20) for job in jobs]
            review = await on.made.reached(once, "review", 20)
            found = await settled(on, jobs[-1], *["discarded"] * 3)
    for record in records:
        assert record["failure"]["class"] == "exhausted"
        assert failures(record) == [("brokerjobs.artifact_errors.ArtifactStoreUnavailable", "temporary")] * 3
    assert failures(review) == [("brokerjobs.artifact_errors.ArtifactStoreUnavailable", "unsafe")]
    assert all("ArtifactStoreUnavailable" in one["removing"]["detail"] for one in found)
    assert SECRET not in worker.said
    assert SECRET not in str([*records, review, found])


async def test_store__that_is_full_fails_the_attempt_and_takes_the_next_one(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader():
            job = await on.submit("staged.process", "full", "long:a")
            once = await on.submit("staged.process.once", "full", "long:a")
            record = await on.made.reached(job, "succeeded", 20)
            review = await on.made.reached(once, "review", 20)
            await settled(on, job, "discarded", "ready")
            await settled(on, once, "discarded")
        shown = await accepted_alone(on, record)
        assert on.objects == {shown["path"]}
    assert failures(record) == [("brokerjobs.artifact_errors.ArtifactStoreFull", "temporary")]
    assert failures(review) == [("brokerjobs.artifact_errors.ArtifactStoreFull", "unsafe")]


@pytest.mark.parametrize("kind", KINDS)
async def test_result__that_names_what_is_no_artifact_of_its_attempt_is_refused(at: Place, kind: str) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader() as worker:
            job = await on.submit(kind, "put:a", "invent:b")
            record = await on.made.reached(job, "failed", 20)
            assert await worker.drain() == 0  # its delivery is settled like any other's
        (kept,) = await on.artifacts(job, all_attempts=True)
    (attempt,) = record["attempts"]
    assert (attempt["report"]["verdict"], attempt["report"]["reason"]) == ("rejected", "artifact_not_ready")
    assert attempt["ack_sent_at"] is not None
    assert (record["failure"]["class"], record["result"]) == ("invalid", None)
    assert (kept["state"], kept["visible"]) == ("ready", False)
    assert "rejected: artifact_not_ready: it names an artifact that is not ready" in worker.said


async def test_fork__of_a_handler_stages_nothing(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader():
            job = await on.submit("staged.process", "fork:copy", "put:a", "wait:copy")
            await accepted_alone(on, await on.made.reached(job, "succeeded", 20))
            assert [one["name"] for one in await on.artifacts(job, all_attempts=True)] == ["a"]
    assert "a process that the handler has forked cannot stage artifacts" in (on.marks / "copy").read_text()


@pytest.mark.parametrize("kind", ["staged.thread", "staged.process"])
async def test_thread__that_a_handler_left_behind_stages_nothing_more(at: Place, kind: str) -> None:
    """What it says comes after the attempt's answer, and must not be taken for the next attempt's."""
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader(WORKER__PROCESSES="1", WORKER__THREADS="1") as worker:
            job = await on.submit(kind, "put:a", "aside:b")
            record = await on.made.reached(job, "succeeded", 20)
            await settled(on, job, "ready", "discarded")
            later = await on.submit(kind, "put:a", "wait:b.ended", "put:c")
            on.mark("b.go")
            second = await on.made.reached(later, "succeeded", 20)
            assert await worker.drain() == 0
        await accepted_alone(on, record)
        assert [one["name"] for one in await on.artifacts(later)] == ["a", "c"]
        ended = (on.marks / "b.ended").read_text()
    assert len(second["attempts"]) == 1
    assert "the handler has returned" in ended if kind == "staged.process" else "upload_discarded" in ended


async def test_put__by_many_threads_of_a_process_at_once(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader():
            job = await on.submit("staged.process", "many:20")
            await on.made.reached(job, "succeeded", 20)

            async def all_there() -> bool:
                return len(await on.artifacts(job)) == 20

            await eventually(all_there)
            assert {on.content(one).decode() for one in await on.artifacts(job)} == {str(n) for n in range(20)}


async def test_process__that_asks_all_the_time_is_told_all_the_same_that_its_lease_goes_on(at: Place) -> None:
    async with uploaders(*at) as on, coordinating(on.made):
        with on.uploader():
            job = await on.submit("staged.process", "busy:2")
            record = await on.made.reached(job, "succeeded", 20)
    (attempt,) = record["attempts"]
    assert (attempt["late"], attempt["failure"]) == (False, None)
    assert attempt["lease"]["renewals"] >= 2
