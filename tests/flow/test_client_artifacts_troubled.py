"""Consumers of artifacts whose ledger gives no answer, who are cancelled, and whose process forks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import HashMismatch
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.client import Client
from tests.artifacts.conftest import server
from tests.flow.depot import CONTENT, Depot, sha256_of
from tests.flow.troubled import troubled
from tests.ledger.conftest import doors, ledger, shared_clock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from tests.flow.troubled import TroubledLine
    from tests.ledger.ledger_driver import Ledger
    from tests.s3 import S3Server

__all__ = ["doors", "ledger", "server", "shared_clock"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def depot(ledger: Ledger, tmp_path: Path) -> Depot:
    return Depot(ledger, StoreOptions(url=str(tmp_path / "store")))


@pytest.fixture
def bucket(ledger: Ledger, server: S3Server, namespace: str) -> Depot:
    return Depot(ledger, server.options(namespace))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    made = tmp_path / "inbox"
    made.mkdir()
    return made


def damage(depot: Depot, path: str) -> None:
    """Another object under the same path."""
    depot.store.put(path, iter([CONTENT[::-1]]))


@asynccontextmanager
async def consuming(depot: Depot, patience: timedelta) -> AsyncGenerator[tuple[Client, TroubledLine]]:
    """A client, and its line to the ledger."""
    async with (
        troubled(depot.ledger.database.producer_url) as (line, url),
        Client(depot.client_options(database_url=url, patience=patience)) as client,
    ):
        yield client, line


def names(inbox: Path) -> list[str]:
    """What is in a folder."""
    return sorted(one.name for one in inbox.iterdir())


async def test_acknowledge__whose_reply_was_lost_is_said_again_and_recorded_once(depot: Depot) -> None:
    artifact = depot.hand_over()
    async with consuming(depot, timedelta(seconds=5)) as (client, line):
        line.lose_reply_to(b"acknowledge_artifact_v1")
        said = await client.artifacts.acknowledge(artifact, sha256=sha256_of(CONTENT), copied_to="vault")
    assert line.lost == 1
    assert (said.by, said.copied_to) == ("archive", "vault")
    assert depot.staging.shown(artifact.id).acknowledged == said


async def test_mismatch__whose_reply_was_lost_is_recorded(depot: Depot, inbox: Path) -> None:
    artifact = depot.hand_over()
    damage(depot, artifact.path)
    async with consuming(depot, timedelta(seconds=5)) as (client, line):
        line.lose_reply_to(b"artifact_mismatch_v1")
        with pytest.raises(HashMismatch) as found:
            await client.artifacts.fetch(artifact, to=inbox / "sales.csv")
    assert line.lost == 1
    assert getattr(found.value, "__notes__", []) == []
    assert depot.staging.shown(artifact.id).state == "hash_mismatch"


async def test_mismatch__that_the_ledger_cannot_be_told_is_raised_and_says_so(depot: Depot, inbox: Path) -> None:
    artifact = depot.hand_over()
    damage(depot, artifact.path)
    async with consuming(depot, timedelta(milliseconds=300)) as (client, line):
        line.lose_reply_to(b"artifact_mismatch_v1", for_long=True)
        with pytest.raises(HashMismatch) as found:
            await client.artifacts.fetch(artifact, to=inbox / "sales.csv")
    [note] = found.value.__notes__
    assert note.startswith("the mismatch is not known to be recorded: the ledger (PostgreSQL) gave no answer")
    assert names(inbox) == []


async def test_fetch__that_is_cancelled_leaves_nothing(
    depot: Depot, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = depot.hand_over()
    loop, begun, goes_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slowly(*_: Any) -> Iterator[bytes]:
        yield CONTENT[:100]
        loop.call_soon_threadsafe(begun.set)
        goes_on.wait(20)
        yield CONTENT[100:]

    monkeypatch.setattr(ArtifactStore, "read", slowly)
    async with Client(depot.client_options()) as client:
        fetching = asyncio.create_task(client.artifacts.fetch(artifact, to=inbox / "sales.csv"))
        await begun.wait()
        assert len(names(inbox)) == 1
        fetching.cancel()
        loop.call_later(0.05, goes_on.set)
        with pytest.raises(asyncio.CancelledError):
            await fetching
    assert names(inbox) == []


def forked(depot: Depot, inbox: Path, how: str) -> dict[str, Any]:
    """What parent and child of a program have fetched: `python -m tests.flow.forking_artifacts`."""
    artifact = depot.hand_over()
    told = {
        "FORKING_DATABASE_URL": depot.ledger.database.producer_url,
        "FORKING_STORE": json.dumps({"url": depot.options.url, "options": dict(depot.options.options)}),
        "FORKING_ARTIFACT": str(artifact.id),
        "FORKING_INBOX": str(inbox),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.flow.forking_artifacts", how],
        cwd=ROOT,
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("how", ["fresh", "used", "busy"])
def test_fork__fetches_from_a_folder_with_a_client_made_before_it(depot: Depot, inbox: Path, how: str) -> None:
    answer = forked(depot, inbox, how)

    assert answer == {"parent": "fetched", "child": "fetched", "status": 0}
    assert {one.read_bytes() for one in inbox.iterdir()} == {CONTENT}
    assert names(inbox) == ["child", "parent"]


def test_fork__fetches_from_a_bucket_unless_its_parent_had_done_so(bucket: Depot, inbox: Path) -> None:
    assert forked(bucket, inbox, "fresh") == {"parent": "fetched", "child": "fetched", "status": 0}

    answer = forked(bucket, inbox, "used")

    assert (answer["parent"], answer["status"]) == ("fetched", 0)
    assert answer["child"].startswith("this process was forked from one that had asked s3://artifacts/")
