"""What `ctx.artifacts.put` does with the ledger and the store, whatever goes wrong between them."""

from __future__ import annotations

import asyncio
import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.staging import Artifacts, ThreadArtifacts
from brokerjobs.artifacts.store import ArtifactStore, lazily
from brokerjobs.artifacts.transfers import AT_ONCE
from brokerjobs.errors import (
    ArtifactNameUsed,
    ArtifactStoreRefused,
    ArtifactTooLarge,
    BrokerjobsError,
    ConfigurationError,
    InvalidArtifact,
    LedgerUnavailable,
    StaleAttempt,
    StopRequested,
)
from brokerjobs.ledger.calls import Holding
from tests.artifacts.objects import MIB, mebibytes, sha256
from tests.artifacts.uploads import Calls, OnLoop, Standing
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.ledger.ledger_driver import Ledger


class Attempt:
    """An attempt that runs, its uploads as a thread and as a coroutine make them, and what came of them."""

    def __init__(self, ledger: Ledger, store: ArtifactStore) -> None:
        self.holding = ledger.worker.take(ledger.submit())
        self.calls = Calls(ledger)
        self.standing = Standing()
        self.store = store
        self.in_thread = ThreadArtifacts(self.holding, lambda: store, self.calls, self.standing)

    def on_loop(self) -> Artifacts:
        return Artifacts(self.holding, lambda: self.store, OnLoop(self.calls), self.standing)

    def objects(self) -> int:
        return len(self.store.page(None, 100))


@pytest.fixture
def attempt(ledger: Ledger, folder: ArtifactStore) -> Attempt:
    return Attempt(ledger, folder)


def test_put__is_ready_with_size_and_hash(ledger: Ledger, store: ArtifactStore) -> None:
    attempt = Attempt(ledger, store)
    content = b"".join(mebibytes(9))
    made = attempt.in_thread.put(
        "report.pdf", mebibytes(9), content_type="application/pdf", keep_for=timedelta(hours=5)
    )
    shown = attempt.calls.shown()
    assert attempt.calls.said == ["stage", "ready"]
    assert (made.id, made.name, made.size, made.sha256, made.content_type) == (
        shown.id,
        "report.pdf",
        9 * MIB,
        sha256(content),
        "application/pdf",
    )
    assert (shown.state, shown.size, shown.sha256) == ("ready", made.size, made.sha256)
    assert (shown.store, shown.keep_for) == (store.public, timedelta(hours=5))
    assert (shown.job, shown.attempt) == (attempt.holding.job_id, attempt.holding.attempt_id)
    assert b"".join(store.read(shown.path)) == content


async def test_put__async_is_the_same(attempt: Attempt) -> None:
    async def source() -> AsyncIterator[bytes]:
        for piece in mebibytes(3):
            yield piece

    made = await attempt.on_loop().put("report.pdf", source())
    shown = attempt.calls.shown()
    assert (shown.state, shown.size, shown.sha256) == ("ready", 3 * MIB, made.sha256)
    assert made.sha256 == sha256(b"".join(mebibytes(3)))
    assert shown.keep_for == attempt.store.keep


def test_put__is_known_to_the_ledger_before_the_first_byte(attempt: Attempt) -> None:
    def looking() -> Iterator[bytes]:
        shown = attempt.calls.shown()
        assert (shown.state, attempt.store.size(shown.path)) == ("staging", None)
        yield b"1"

    attempt.in_thread.put("report.pdf", looking())
    assert attempt.calls.shown().state == "ready"


HOSTILE = [
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    ".",
    "\n",
    "'; drop table artifact; --",
    "%2e%2e%2f",
    "🗎" * 1000,
    "\u202e",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names__are_metadata_alone(attempt: Attempt, tmp_path: Path, name: str) -> None:
    made = attempt.in_thread.put(name, b"1")
    assert (made.name, attempt.calls.shown().name) == (name, name)
    holding = attempt.holding
    path = f"{holding.job_id}/{holding.attempt_id}/{made.id}"
    files = [str(one.relative_to(tmp_path / "store")) for one in tmp_path.rglob("*") if one.is_file()]
    assert files == [path]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "0 characters"),
        ("x" * 1001, "1001 characters"),
        ("a\x00b", r"U\+0000 at position 1"),
        ("ab\ud800", r"U\+D800 at position 2"),
        (None, "NoneType"),
        (b"bytes", "bytes"),
    ],
)
def test_names__that_cannot_be_stored_are_refused_before_anything(attempt: Attempt, name: Any, said: str) -> None:
    with pytest.raises(InvalidArtifact, match=said) as raised:
        attempt.in_thread.put(name, b"1")
    str(raised.value).encode()
    assert (attempt.calls.said, attempt.objects()) == ([], 0)


@pytest.mark.parametrize("content_type", ["", "text", "text/", "text/csv\n", "text/csv; x=\x00", "t/" + "x" * 128, 7])
def test_content_types__that_are_none_are_refused(attempt: Attempt, content_type: Any) -> None:
    with pytest.raises(InvalidArtifact, match="content type"):
        attempt.in_thread.put("report", b"1", content_type=content_type)
    assert attempt.calls.said == []


@pytest.mark.parametrize("keep_for", [timedelta(), timedelta(days=-1), timedelta(days=9999), 7])
def test_keep_for__that_is_no_time_is_refused(attempt: Attempt, keep_for: Any) -> None:
    with pytest.raises(InvalidArtifact, match="keep_for"):
        attempt.in_thread.put("report", b"1", keep_for=keep_for)
    assert attempt.calls.said == []


def test_source__that_is_none_is_refused_before_anything(attempt: Attempt, tmp_path: Path) -> None:
    for thing in (tmp_path, tmp_path / "none", None):
        with pytest.raises(InvalidArtifact):
            attempt.in_thread.put("report", thing)  # type: ignore[arg-type]  # None: the mistake that is tested
    assert (attempt.calls.said, attempt.objects()) == ([], 0)


def test_source__that_fails_is_discarded_with_its_reason(attempt: Attempt) -> None:
    error = KeyError("password=hidden-value of the source")

    def breaking() -> Iterator[bytes]:
        yield b"1" * MIB
        raise error

    with pytest.raises(KeyError) as raised:
        attempt.in_thread.put("report", breaking())
    assert raised.value is error
    assert attempt.calls.said == ["stage", "discard"]
    assert (attempt.calls.shown().state, attempt.objects()) == ("discarded", 0)
    assert attempt.calls.why[0].startswith("KeyError")
    assert "hidden-value" not in attempt.calls.why[0]
    attempt.in_thread.put("report", b"1")
    assert attempt.calls.shown().state == "ready", "the name is free again"


def test_limit__is_kept(ledger: Ledger, tmp_path: Path) -> None:
    attempt = Attempt(ledger, ArtifactStore(StoreOptions(url=str(tmp_path / "store"), max_size=2 * MIB)))
    attempt.in_thread.put("fits", mebibytes(2))
    with pytest.raises(ArtifactTooLarge, match="limit of 2097152 bytes"):
        attempt.in_thread.put("report", mebibytes(3))
    assert (attempt.calls.shown().state, attempt.objects()) == ("discarded", 1)


def test_store__that_refuses_is_asked_before_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    attempt = Attempt(ledger, ArtifactStore(StoreOptions(url=str(tmp_path / "store"))))
    with pytest.raises(ArtifactStoreRefused):
        attempt.in_thread.put("report", b"1")
    assert attempt.calls.said == []


def test_store__that_cannot_be_made_says_so_at_each_put(ledger: Ledger) -> None:
    attempt = Attempt(ledger, ArtifactStore(StoreOptions(url="/nowhere")))
    wrong = ThreadArtifacts(attempt.holding, lazily(StoreOptions(url="nowhere")), attempt.calls, attempt.standing)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"artifacts\.url"):
            wrong.put("report", b"1")
    assert attempt.calls.said == []


def test_name__of_another_ready_artifact_is_refused(attempt: Attempt) -> None:
    attempt.in_thread.put("report", b"1")
    with pytest.raises(ArtifactNameUsed, match="'report'"):
        attempt.in_thread.put("report", b"1")
    assert attempt.objects() == 1


async def test_name__staged_twice_at_once_is_ready_once(attempt: Attempt) -> None:
    both = threading.Barrier(2, timeout=5)

    def source() -> Iterator[bytes]:
        yield b"1"
        both.wait()

    artifacts = attempt.on_loop()
    made = await asyncio.gather(
        artifacts.put("report", source()), artifacts.put("report", source()), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in made) == ["Artifact", "ArtifactNameUsed"]


@pytest.mark.parametrize("of", ["a job that is unknown", "an attempt that was lost"])
def test_attempt__that_is_not_the_current_one_uploads_nothing(ledger: Ledger, attempt: Attempt, of: str) -> None:
    holding = attempt.holding
    if of == "a job that is unknown":
        holding = Holding(uuid4(), uuid4(), 1)
    else:
        ledger.lose(holding)
        ledger.clock.advance(3600)
        ledger.worker.take(holding.job_id)
    late = ThreadArtifacts(holding, lambda: attempt.store, attempt.calls, attempt.standing)
    with pytest.raises(StaleAttempt):
        late.put("report", b"1")
    assert (attempt.calls.said, attempt.objects()) == (["stage"], 0)


def test_upload__that_the_sweeper_took_is_stale(ledger: Ledger, attempt: Attempt) -> None:
    def swept() -> Iterator[bytes]:
        yield b"1"
        ledger.owner.execute(
            "update brokerjobs.artifact set state = 'discarded', removing_at = now(), removing_why = 'incomplete'"
            " where attempt_id = %s",
            [attempt.holding.attempt_id],
        )

    with pytest.raises(StaleAttempt, match="upload_discarded"):
        attempt.in_thread.put("report", swept())


@pytest.mark.parametrize(("step", "objects"), [("stage", 0), ("ready", 1), ("discard", 0)])
def test_ledger__that_refuses_leaves_what_it_knows(attempt: Attempt, step: str, objects: int) -> None:
    def refusing(name: str) -> None:
        if name == step:
            raise LedgerUnavailable("the ledger has gone")

    def breaking() -> Iterator[bytes]:
        yield b"1"
        raise KeyError

    attempt.calls.before = refusing
    expected = KeyError if step == "discard" else LedgerUnavailable
    with pytest.raises(expected):
        attempt.in_thread.put("report", breaking() if step == "discard" else b"1")
    assert attempt.objects() == objects
    if step != "stage":
        assert attempt.calls.shown().state == "staging", "the sweeper finds it by its age"


def test_standing__is_looked_at_before_anything(attempt: Attempt) -> None:
    attempt.standing.error = _stale(attempt)
    with pytest.raises(StaleAttempt):
        attempt.in_thread.put("report", b"1")
    assert attempt.calls.said == []


def _stale(attempt: Attempt) -> StaleAttempt:
    holding = attempt.holding
    return StaleAttempt(
        job_id=holding.job_id, attempt_id=holding.attempt_id, fencing_number=holding.fencing_number, reason="x"
    )


def test_handler__told_to_stop_stops_its_upload(attempt: Attempt) -> None:
    taken: list[int] = []

    def source() -> Iterator[bytes]:
        for number in range(10):
            taken.append(number)
            if number == 3:
                attempt.standing.error = StopRequested(
                    job_id=attempt.holding.job_id, attempt_id=attempt.holding.attempt_id, reason="cancel"
                )
            yield b"1"

    with pytest.raises(StopRequested):
        attempt.in_thread.put("report", source())
    assert taken == [0, 1, 2, 3]
    assert (attempt.calls.shown().state, attempt.objects()) == ("discarded", 0)


def test_lease__lost_meanwhile_leaves_the_upload_to_the_ledger(attempt: Attempt) -> None:
    def source() -> Iterator[bytes]:
        yield b"1"
        attempt.standing.error = _stale(attempt)
        yield b"2"

    attempt.in_thread.put("report", source())
    assert attempt.calls.shown().state == "ready", "a late result may still be accepted"


async def test_cancelled__upload_is_stopped_and_discarded(attempt: Attempt) -> None:
    begun = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield b"1" * MIB
        begun.set()
        await asyncio.sleep(60)
        yield b"2"

    upload = asyncio.create_task(attempt.on_loop().put("report", source()))
    await begun.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert attempt.calls.said == ["stage", "discard"]
    assert (attempt.calls.shown().state, attempt.objects()) == ("discarded", 0)


async def test_cancelled__while_the_ledger_is_asked_is_discarded_once_it_answers(attempt: Attempt) -> None:
    asked, answers = threading.Event(), threading.Event()

    def slowly(name: str) -> None:
        if name == "stage":
            asked.set()
            answers.wait(5)

    attempt.calls.before = slowly
    upload = asyncio.create_task(attempt.on_loop().put("report", b"1"))
    await asyncio.to_thread(asked.wait, 5)
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(upload, 5)
    assert attempt.calls.said == ["stage"]
    answers.set()

    async def discarded() -> bool:
        return attempt.calls.said == ["stage", "discard"] and attempt.calls.shown().state == "discarded"

    await eventually(discarded)
    assert attempt.objects() == 0


async def test_loop__goes_on_while_a_source_blocks(attempt: Attempt) -> None:
    let_go = threading.Event()

    def blocking() -> Iterator[bytes]:
        yield b"1"
        let_go.wait(5)

    upload = asyncio.create_task(attempt.on_loop().put("report", blocking()))
    await asyncio.sleep(0)
    assert not upload.done()
    let_go.set()
    await upload


async def test_source__that_blocks_for_ever_takes_no_room_from_others(attempt: Attempt) -> None:
    let_go, begun = threading.Event(), threading.Semaphore(0)

    def blocking() -> Iterator[bytes]:
        begun.release()
        let_go.wait(30)
        yield b"1"

    stuck = [asyncio.create_task(attempt.on_loop().put(f"{number}", blocking())) for number in range(AT_ONCE)]
    for _ in stuck:
        await asyncio.to_thread(begun.acquire)
    for upload in stuck:
        upload.cancel()
    await asyncio.wait(stuck)
    try:
        made = await asyncio.wait_for(attempt.on_loop().put("report", b"1"), 5)
        assert made.size == 1
    finally:
        let_go.set()

    async def ended() -> bool:
        return attempt.calls.said.count("discard") == AT_ONCE

    await eventually(ended)


async def test_fork__of_a_worker_is_told_that_it_cannot_stage(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event loop does not run there, and would be waited for in vain."""
    artifacts = attempt.on_loop()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BrokerjobsError, match="forked"):
        await asyncio.wait_for(artifacts.put("report", b"1"), 5)
    assert attempt.calls.said == []
