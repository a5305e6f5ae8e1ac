"""Worker processes that stage artifacts, the store that they stage into, and what the ledger knows of it."""

from __future__ import annotations

import os
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg.rows import scalar_row
from uuid_utils.compat import uuid7

from brokerjobs import App
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.ledger import calls, ticks
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.ledger.sweeping import Limits, artifacts_removed, artifacts_to_remove
from tests.flow import uploading
from tests.flow.driving import flow
from tests.flow.processes import Workers
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from uuid import UUID

    from brokerjobs.job_type import JobType
    from tests.databases import Database
    from tests.flow.processes import WorkerProcess


@dataclass
class Uploading(Workers):
    """The uploading application's worker processes, with a store of their own beside the marks."""

    types: dict[str, JobType[list[str], uploading.Outcome]]
    module: ClassVar[str] = "tests.flow.uploading"
    store: ArtifactStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = ArtifactStore(StoreOptions(url=str(self.marks / "store")))

    def uploader(
        self, name: str = "worker-a", *, kill_at: str = "", **settings: str
    ) -> AbstractContextManager[WorkerProcess]:
        """Starts a worker; as `worker`."""
        given = {"ARTIFACTS__URL": self.store.public, "WORKER__PROCESSES": "2", **settings}
        return self.worker(name, kill_at=kill_at, clock_seconds=0.0, **given)

    async def submit(self, kind: str, *script: str) -> UUID:
        """Submits a job of the type `staged` and its kinds."""
        return (await self.made.submit_many(self.types[kind], [list(script)]))[0]

    async def artifacts(self, job: UUID, *, all_attempts: bool = False) -> list[dict[str, Any]]:
        """What anybody reads of a job's artifacts, in the order of their attempts."""
        url = self.made.database.admin_url
        async with await psycopg.AsyncConnection.connect(url, row_factory=scalar_row) as connection:
            rows = await connection.execute("select brokerjobs.artifacts_v1(%s, %s)", [job, all_attempts])
            found: list[Any] = await rows.fetchall()
            return found

    def content(self, artifact: dict[str, Any]) -> bytes:
        """What is in the store."""
        return b"".join(self.store.read(artifact["path"]))

    async def sweep(self) -> set[str]:
        """Removes what may go if nothing has to wait for its time; answers the paths."""
        process = calls.ProcessIdentity(uuid7(), "sweeper-a", socket.gethostname(), os.getpid())
        sweeping = AsyncLedgerConnection(ConnectOptions(self.made.database.coordinator_url))
        at_once = Limits(incomplete=timedelta(), rejected=timedelta(), grace=timedelta())
        candidacy = ticks.Candidacy("sweeper", process, 60)
        due = await sweeping.fetch(artifacts_to_remove(candidacy, self.store.public, at_once, 100))
        removed = {one.id: one.path for one in due if one.id is not None and one.path is not None}
        for path in removed.values():
            self.store.delete(path)
        await sweeping.fetch(artifacts_removed(list(removed)))
        await sweeping.close()
        return set(removed.values())

    @property
    def objects(self) -> set[str]:
        """Paths of all objects in the store, unfinished ones as well."""
        return {path for path, _ in self.store.page(None, 1000)}


@asynccontextmanager
async def uploaders(database: Database, namespace: str, broker_url: str, folder: Path) -> AsyncGenerator[Uploading]:
    """Registers the uploading application under a namespace of the test's own."""
    app = App(namespace)
    types: dict[str, Any] = {
        name: app.job_type(
            name,
            list[str],
            uploading.Outcome,
            repeatable=one.terms.repeatable,
            lease=one.terms.lease,
            time_limit=one.terms.time_limit,
            retry=one.terms.retry,
        )
        for name, one in uploading.app.types.items()
    }
    async with flow(app, database, broker_url) as made:
        yield Uploading(made, folder, types)


async def settled(on: Uploading, job: UUID, *states: str) -> list[dict[str, Any]]:
    """The artifacts of all attempts, once they are in these states: what is given up is said beside the report."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = await on.artifacts(job, all_attempts=True)
        return [one["state"] for one in found] == list(states)

    await eventually(there)
    return found


async def accepted_alone(on: Uploading, record: dict[str, Any]) -> dict[str, Any]:
    """The artifact of a job with one: of the accepted attempt, named by the result, whole, and the only visible one."""
    [shown] = await on.artifacts(record["id"])
    assert (shown["number"], shown["visible"]) == (record["result"]["attempt"], True)
    assert shown["id"] == record["result"]["staged"]["a"]["id"]
    assert on.content(shown).endswith(f"attempt {shown['number']}".encode())
    return shown
