"""Artifacts with real objects: a ledger whose clock tests move, a folder that is the store, and its sweeper."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from uuid_utils.compat import uuid7

from brokerjobs.coordinator.sweeper import Sweeper, Sweeping
from brokerjobs.ledger import artifacts
from tests.coordinator.stage import PERIODS, Time, process
from tests.ledger.staging import Staging

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.coordinator.service import Periods
    from brokerjobs.coordinator.sweeper import Store
    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.database import AsyncLedgerConnection

CONTENT = b"content"
EVERY = timedelta(minutes=1)


@dataclass(frozen=True)
class Depot(Staging):
    """The artifacts of one test, each with an object in the test's own store."""

    objects: ArtifactStore
    connection: AsyncLedgerConnection

    @property
    def store(self) -> str:
        """The store of this test."""
        return self.objects.public

    @property
    def folder(self) -> Path:
        """The folder that the store is."""
        return Path(urlsplit(self.store).path)

    def upload(self, path: str, content: bytes = CONTENT) -> str:
        """An object, whoever it is of; its path."""
        self.objects.put(path, iter([content]))
        return path

    def put(self, holding: Holding, name: str = "report.pdf", **other: Any) -> UUID:
        """An artifact that is ready, and its object."""
        artifact_id = self.begun(holding, name, **other)
        self.upload(self.path(artifact_id))
        assert self.ready(artifact_id, holding) == "ready"
        return artifact_id

    def put_many(self, holding: Holding, count: int) -> list[UUID]:
        """Many artifacts of one attempt, and their objects."""
        ids = [uuid7() for _ in range(count)]
        uploads = [artifacts.Upload(holding, one, f"{one}", None, self.store, None) for one in ids]
        for answer in self.ledger.worker.fetch(artifacts.artifact_stage(uploads)):
            file = self.folder / str(answer.path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()  # a thousand objects that last through a power failure take seconds
        uploaded = [artifacts.Uploaded(one, holding.attempt_id, 0, "0" * 64) for one in ids]
        assert {one.verdict for one in self.ledger.worker.fetch(artifacts.artifact_ready(uploaded))} == {"ready"}
        return ids

    def path(self, artifact_id: UUID) -> str:
        """The object's."""
        return self.shown(artifact_id).path

    def is_there(self, artifact_id: UUID) -> bool:
        """Whether an artifact's object is in the store."""
        return self.objects.size(self.path(artifact_id)) is not None

    def paths(self) -> set[str]:
        """Everything that is in the store."""
        return {path for path, _ in self.objects.page(None, 10_000)}

    def orphans(self) -> list[tuple[str, bool]]:
        """Objects of which the ledger knows nothing, and whether they are gone."""
        query = "select path, removed_at is not null from brokerjobs.artifact_orphan where store = %s order by path"
        return [(path, gone) for path, gone in self.ledger.setting_up.sql(query, self.store)]

    def sweeper(
        self,
        name: str = "coordinator-a",
        *,
        store: Store | None = None,
        periods: Periods = PERIODS,
        remove_orphans_after: timedelta | None = None,
    ) -> Running:
        """The service in a process of its own."""
        told = Sweeping(store=store or self.objects, every=EVERY, remove_orphans_after=remove_orphans_after)
        time = Time()
        return Running(Sweeper(self.connection, process(name), told, periods, time), time)


@dataclass(frozen=True)
class Running:
    """A sweeper, and the clock of its process."""

    service: Sweeper
    time: Time

    async def tick(self) -> timedelta:
        """One tick, a period after the last one."""
        self.time.now += EVERY.total_seconds() + 1
        return await self.service.run_once()
