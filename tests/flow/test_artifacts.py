"""`ctx.artifacts.put` in handlers of one worker: sources, results that name artifacts, handlers that are stopped."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from pydantic import BaseModel, Field

from brokerjobs import (
    App,
    Artifact,
    ArtifactNameUsed,
    ArtifactStoreRefused,
    InvalidArtifact,
    InvalidResult,
    JobContext,
    RetryPolicy,
    SyncJobContext,
)
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.ledger import artifacts
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from pathlib import Path
    from uuid import UUID

    from brokerjobs import JobType
    from brokerjobs.ledger.artifacts import StagedArtifact
    from tests.databases import Database
    from tests.flow.driving import Flow

QUICK: Final = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))
CONTENT: Final = bytes(range(256)) * 10_000  # some pieces


class Report(BaseModel):
    """A result with an alias of its own, and artifacts deep in it."""

    title: str = Field(alias="reportTitle")
    pages: dict[str, list[Artifact]]


@dataclass
class Place:
    """Where a test's jobs run."""

    app: App
    database: Database
    broker_url: str
    folder: Path

    @property
    def store(self) -> StoreOptions:
        return StoreOptions(url=str(self.folder / "store"))

    def job(self, handler: Callable[..., Any], result: Any = None, **options: Any) -> JobType[Any, Any]:
        """Declares the job type that `handler` handles."""
        given: dict[str, Any] = {"repeatable": True, "retry": QUICK, "lease": timedelta(seconds=1), **options}
        declared = self.app.job_type(f"work.{len(self.app.types)}", str, result or dict[str, Artifact], **given)
        declared.handler(handler)
        return declared

    @contextlib.asynccontextmanager
    async def running(self, **options: Any) -> AsyncGenerator[Flow]:
        """A worker and a coordinator."""
        async with (
            flow(self.app, self.database, self.broker_url) as made,
            coordinating(made),
            made.working(made.worker(artifacts=self.store, **options)),
        ):
            yield made

    async def ended(self, declared: JobType[Any, Any], state: str = "succeeded", **options: Any) -> Any:
        """The record of a job of that type once it is in that state, and its artifacts."""
        async with self.running(**options) as made:
            (job,) = await made.submit_many(declared, ["payload"])
            record = await made.reached(job, state, 20)
            return record, await staged(made, job)

    def content(self, artifact: StagedArtifact) -> bytes:
        return b"".join(ArtifactStore(self.store).read(artifact.path))


async def staged(made: Flow, job: UUID) -> list[StagedArtifact]:
    """The artifacts of all attempts."""
    return await made.asking.fetch(artifacts.artifacts(job, all_attempts=True))


async def in_state(made: Flow, job: UUID, *states: str) -> None:
    """Waits until they are in these states: what is given up is said beside the attempt's report."""

    async def there() -> bool:
        return [one.state for one in await staged(made, job)] == list(states)

    await eventually(there)


@pytest.fixture
def at(namespace: str, database: Database, broker_url: str, tmp_path: Path) -> Place:
    return Place(App(namespace), database, broker_url, tmp_path)


def pieces(content: bytes = CONTENT) -> Generator[bytes]:
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


async def async_pieces() -> AsyncGenerator[bytes]:
    for piece in pieces():
        await asyncio.sleep(0)
        yield piece


class AsyncFile:
    """What reads like a file and has to be awaited."""

    def __init__(self) -> None:
        self._file = io.BytesIO(CONTENT)

    async def read(self, size: int, /) -> bytes:
        return self._file.read(size)


async def test_put__takes_every_kind_of_source_in_an_async_handler(at: Place) -> None:
    path = at.folder / "given.bin"
    path.write_bytes(CONTENT)

    async def work(_: str, ctx: JobContext) -> dict[str, Artifact]:
        with path.open("rb") as file:
            sources: dict[str, Any] = {
                "path": path, "str": str(path), "bytes": CONTENT, "bytearray": bytearray(CONTENT),
                "memoryview": memoryview(CONTENT), "file": file, "iterable": pieces(), "list": [*pieces()],
                "async iterable": async_pieces(), "async file": AsyncFile(), "nothing": b"",
            }  # fmt: skip
            return {name: await ctx.artifacts.put(name, source) for name, source in sources.items()}

    record, found = await at.ended(at.job(work))
    assert {one.name: str(one.id) for one in found} == {name: one["id"] for name, one in record["result"].items()}
    assert len(found) == 11
    for one in found:
        content = b"" if one.name == "nothing" else CONTENT
        assert (one.state, one.visible, one.size) == ("ready", True, len(content))
        assert one.sha256 == hashlib.sha256(content).hexdigest()
        assert at.content(one) == content


async def test_put__takes_sync_sources_in_a_thread(at: Place) -> None:
    path = at.folder / "given.bin"
    path.write_bytes(CONTENT)

    def work(_: str, ctx: SyncJobContext) -> dict[str, Artifact]:
        sources: dict[str, Any] = {"path": path, "bytes": CONTENT, "file": io.BytesIO(CONTENT), "iterable": pieces()}
        return {name: ctx.artifacts.put(name, source) for name, source in sources.items()}

    _, found = await at.ended(at.job(work))
    assert [at.content(one) == CONTENT and one.visible for one in found] == [True] * 4


async def test_put__records_what_is_said_of_it_and_its_name_is_metadata_alone(at: Place) -> None:
    name = "../../etc/passwd\n\N{SNOWMAN} a b"

    async def work(_: str, ctx: JobContext) -> Artifact:
        one = await ctx.artifacts.put(name, b"x", content_type="text/csv; charset=utf-8", keep_for=timedelta(hours=2))
        with pytest.raises(ArtifactNameUsed):
            await ctx.artifacts.put(name, b"y")
        with pytest.raises(InvalidArtifact):
            await ctx.artifacts.put("nul\0", b"y")
        return one

    record, (one,) = await at.ended(at.job(work, Artifact))
    assert (one.name, one.content_type, one.keep_for) == (name, "text/csv; charset=utf-8", timedelta(hours=2))
    assert record["result"] == {
        "schema": "brokerjobs.artifact/1", "id": str(one.id), "name": name, "size": 1,
        "sha256": hashlib.sha256(b"x").hexdigest(), "content_type": "text/csv; charset=utf-8",
    }  # fmt: skip
    assert one.path == f"{one.job}/{one.attempt}/{one.id}"


def in_aliases(one: Artifact) -> Report:
    return Report(reportTitle="2026", pages={"1": [one]})


def as_it_is(one: Artifact) -> Artifact:
    return one


def in_a_list(one: Artifact) -> list[Artifact]:
    return [one]


def in_a_dict(one: Artifact) -> dict[str, Artifact | None]:
    return {"a": one, "b": None}


@pytest.mark.parametrize(
    ("result", "shaped"),
    [(Artifact, as_it_is), (list[Artifact], in_a_list), (dict[str, Artifact | None], in_a_dict), (Report, in_aliases)],
)
async def test_result__that_names_an_artifact_comes_back_equal(
    at: Place, result: Any, shaped: Callable[[Artifact], Any]
) -> None:
    returned: list[Any] = []

    async def work(_: str, ctx: JobContext) -> Any:
        returned.append(shaped(await ctx.artifacts.put("a", CONTENT)))
        return returned[-1]

    declared = at.job(work, result)
    async with (
        at.running() as made,
        at.app.client(submitted_by="tests", database_url=at.database.producer_url, broker_url=at.broker_url) as client,
    ):
        handle = await client.submit(declared, "payload")
        assert [await handle.result(timeout=timedelta(seconds=20))] == returned
        assert [one.visible for one in await staged(made, handle.id)] == [True]


async def test_put__leaves_the_event_loop_to_others(at: Place) -> None:
    waiting, go = threading.Event(), threading.Event()

    def held() -> Generator[bytes]:
        waiting.set()
        assert go.wait(20)
        yield b"x"

    async def work(_: str, ctx: JobContext) -> dict[str, Artifact]:
        return {"a": await ctx.artifacts.put("a", held())}

    async def release(_: str, ctx: JobContext) -> dict[str, Artifact]:
        while not waiting.is_set():  # noqa: ASYNC110  # a thread sets it
            await asyncio.sleep(0.01)
        go.set()
        return {"b": await ctx.artifacts.put("b", b"meanwhile")}

    holds, releases = at.job(work), at.job(release)
    async with at.running() as made:
        jobs = [*await made.submit_many(holds, ["one"]), *await made.submit_many(releases, ["other"])]
        for job in jobs:
            await made.reached(job, "succeeded", 20)


@pytest.mark.parametrize("within", [True, False])
async def test_transaction__completes_with_what_it_has_staged(at: Place, *, within: bool) -> None:
    async def work(_: str, ctx: JobContext) -> dict[str, Artifact]:
        result = {"a": await ctx.artifacts.put("a", b"x")}
        if not within:
            async with ctx.transaction() as tx:
                tx.complete(result)
            return result
        async with await psycopg.AsyncConnection.connect(at.database.worker_url) as connection:
            await ctx.complete(result, within=connection)
        return result

    record, (one,) = await at.ended(at.job(work))
    assert (record["result"]["a"]["id"], one.visible) == (str(one.id), True)


@pytest.mark.parametrize("within", [True, False])
async def test_transaction__of_a_result_that_names_no_artifact_rolls_back(at: Place, *, within: bool) -> None:
    raised: list[InvalidResult] = []

    async def work(_: str, ctx: JobContext) -> dict[str, Artifact]:
        one = await ctx.artifacts.put("a", b"x")
        result = {"a": one.model_copy(update={"sha256": "0" * 64})}
        try:
            if not within:
                async with ctx.transaction() as tx:
                    await tx.execute("insert into writes values (1)")
                    tx.complete(result)
            else:
                async with await psycopg.AsyncConnection.connect(at.database.worker_url) as connection:
                    await connection.execute("insert into writes values (1)")
                    await ctx.complete(result, within=connection)
        except InvalidResult as error:
            raised.append(error)
            raise
        return result

    async with await psycopg.AsyncConnection.connect(at.database.admin_url, autocommit=True) as admin:
        await admin.execute("create table writes (n int)")
        await admin.execute("grant insert on writes to public")
        record, (one,) = await at.ended(at.job(work), "failed")
        assert await (await admin.execute("select * from writes")).fetchall() == []
    (error,) = raised
    assert "names the artifact" in error.problem
    assert (record["failure"]["class"], len(record["attempts"]), one.visible) == ("invalid", 1, False)


async def test_cancel__of_a_handler_stops_its_upload_before_the_attempt_ends(at: Place) -> None:
    given: list[bytes] = []

    async def endless() -> AsyncGenerator[bytes]:
        try:
            while True:
                await asyncio.sleep(0.01)
                given.append(b"x")
                yield b"x"
        finally:
            given.append(b"closed")

    async def work(_: str, ctx: JobContext) -> dict[str, Artifact]:
        return {"a": await ctx.artifacts.put("a", endless())}

    declared = at.job(work)
    async with at.running() as made:
        (job,) = await made.submit_many(declared, ["payload"])

        async def began() -> bool:
            return len(given) > 3

        await eventually(began)
        await made.cancel(job)
        await made.reached(job, "cancelled", 20)
        await in_state(made, job, "discarded")
        assert given[-1] == b"closed"
        assert ArtifactStore(at.store).page(None, 10) == []


async def test_task__that_a_handler_left_behind_makes_nothing_visible(at: Place) -> None:
    go = threading.Event()
    left: list[asyncio.Task[Artifact]] = []

    def held() -> Generator[bytes]:
        yield b"begin"
        assert go.wait(20)
        yield b"end"

    async def work(_: str, ctx: JobContext) -> dict[str, Artifact]:
        left.append(asyncio.create_task(ctx.artifacts.put("b", held())))
        one = await ctx.artifacts.put("a", b"x")
        async with asyncio.timeout(20):
            while len(list(at.folder.glob("store/*/*/.*"))) != 1:  # noqa: ASYNC110  # until its first byte is written
                await asyncio.sleep(0.01)
        return {"a": one}

    declared = at.job(work)
    async with at.running() as made:
        (job,) = await made.submit_many(declared, ["payload"])
        await made.reached(job, "succeeded", 20)
        go.set()
        with pytest.raises(Exception, match="upload_discarded"):
            await left[0]
        assert {one.name: one.state for one in await staged(made, job)} == {"a": "ready", "b": "discarded"}
        assert [one.name for one in await made.asking.fetch(artifacts.artifacts(job))] == ["a"]


async def test_store__that_refuses_is_an_error_of_the_handler(at: Place) -> None:
    (at.folder / "store").write_text("a file")
    raised: list[ArtifactStoreRefused] = []

    def work(_: str, ctx: SyncJobContext) -> dict[str, Artifact]:
        try:
            return {"a": ctx.artifacts.put("a", b"x")}
        except ArtifactStoreRefused as error:
            raised.append(error)
            raise

    record, found = await at.ended(at.job(work, retry=RetryPolicy(attempts=1)), "failed")
    assert (len(raised), found) == (1, [])
    assert record["failure"]["class"] == "exhausted"
