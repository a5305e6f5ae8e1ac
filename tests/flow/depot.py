"""Artifacts whose objects exist: staged through the ledger's calls, in a store of the test's own."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.client import Client, ClientOptions, SyncClient
from brokerjobs.ledger import artifacts, sweeping, ticks
from tests.ledger.staging import LIMITS, Staging, named

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeAlias

    from brokerjobs.artifacts.locations import StoreOptions
    from brokerjobs.ledger.artifacts import StagedArtifact
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

    Found: TypeAlias = list[StagedArtifact]

CONTENT: Final = b"date,region,cents\n" * 1_000
NOWHERE: Final = "amqp://guest@127.0.0.1:1/"  # nobody here rings


def sha256_of(content: bytes) -> str:
    """As a consumer computes it."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Depot:
    """One store, and the artifacts of one ledger in it."""

    ledger: Ledger
    options: StoreOptions
    store: ArtifactStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", ArtifactStore(self.options))

    @property
    def staging(self) -> Staging:
        """What is said of them in the ledger."""
        return Staging(self.ledger)

    def running(self) -> Holding:
        """An attempt that runs."""
        return self.ledger.worker.take(self.ledger.submit())

    def begin(self, holding: Holding, name: str = "sales.csv") -> artifacts.Staged:
        """An upload that may begin."""
        staged = self.staging.stage(holding, name, store=self.store.public)
        assert staged.verdict == "staged", staged
        return staged

    def put(self, holding: Holding, content: bytes = CONTENT, name: str = "sales.csv") -> StagedArtifact:
        """An artifact that is ready, and in the store."""
        staged = self.begin(holding, name)
        assert staged.path is not None
        self.store.put(staged.path, iter([content]))
        assert self.staging.ready(staged.id, holding, sha256_of(content), len(content)) == "ready"
        return self.staging.shown(staged.id)

    def hand_over(self, content: bytes = CONTENT, name: str = "sales.csv") -> StagedArtifact:
        """An artifact that is part of its job's result."""
        holding = self.running()
        self.complete(holding, self.put(holding, content, name))
        return self.ledger.producer.fetch(artifacts.artifacts(holding.job_id))[0]

    def complete(self, holding: Holding, *results: StagedArtifact) -> None:
        """The job has succeeded with these."""
        result = [named(one.id, sha256=one.sha256, size=one.size) for one in results]
        assert self.ledger.worker.complete(holding, result).verdict == "accepted"

    def sweep(self, *, after: float) -> None:
        """What is due after so many seconds goes, as the sweeper does it."""
        self.ledger.clock.advance(after)
        coordinator = self.ledger.coordinator
        candidacy = ticks.Candidacy("sweeper", coordinator.process, 60)
        rows = coordinator.fetch(sweeping.artifacts_to_remove(candidacy, self.store.public, LIMITS, 100))
        due = {row.id: row.path for row in rows if row.id is not None and row.path is not None}
        assert due, rows
        for path in due.values():
            self.store.delete(path)
        self.staging.removed(*due)

    def client_options(self, submitted_by: str = "archive", **options: Any) -> ClientOptions:
        """Those of a consumer."""
        given: dict[str, Any] = {
            "database_url": self.ledger.database.producer_url,
            "broker_url": NOWHERE,
            "patience": timedelta(milliseconds=300),
            "artifacts": self.options,
        }
        return ClientOptions(submitted_by=submitted_by, **(given | options))


@dataclass(frozen=True)
class Consumer:
    """A consumer, on an event loop or in a thread, as the test's parameter says: both promise the same."""

    options: ClientOptions
    awaits: bool

    def list(self, job: Any, **more: Any) -> Found:
        """As the clients' method of this name."""
        found: Found = self._do("list", job, **more)
        return found

    def get(self, artifact: Any) -> StagedArtifact:
        """Ditto."""
        found: StagedArtifact = self._do("get", artifact)
        return found

    def fetch(self, artifact: Any, to: Path, **more: Any) -> Path:
        """Ditto."""
        fetched: Path = self._do("fetch", artifact, to=to, **more)
        return fetched

    def acknowledge(self, artifact: Any, **more: Any) -> artifacts.Acknowledgement:
        """Ditto."""
        said: artifacts.Acknowledgement = self._do("acknowledge", artifact, **more)
        return said

    def _do(self, method: str, *args: Any, **more: Any) -> Any:
        if not self.awaits:
            with SyncClient(self.options) as client:
                return getattr(client.artifacts, method)(*args, **more)

        async def done() -> Any:
            async with Client(self.options) as client:
                return await getattr(client.artifacts, method)(*args, **more)

        return asyncio.run(done())
