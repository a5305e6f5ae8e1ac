"""Artifacts in tests of the ledger: what workers, consumers and the sweeper say of them; no object exists."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from uuid_utils.compat import uuid7

from brokerjobs.ledger import artifacts, sweeping, ticks

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.artifacts import StagedArtifact
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

SIZE: Final = 7
LIMITS: Final = sweeping.Limits()
MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86400.0
WEEK: Final = 7 * DAY


def sha256_of(text: str = "content") -> str:
    """A hash as stores and consumers compute it."""
    return hashlib.sha256(text.encode()).hexdigest()


def named(artifact_id: UUID, **other: Any) -> dict[str, Any]:
    """What stands for an artifact in a result."""
    return {"schema": "brokerjobs.artifact/1", "id": str(artifact_id), "sha256": sha256_of(), "size": SIZE, **other}


@dataclass(frozen=True, slots=True)
class Staging:
    """The artifacts of one test, in a store of its own, by the callers of its ledger."""

    ledger: Ledger

    @property
    def store(self) -> str:
        """The store of this test."""
        return f"s3://{self.ledger.place.namespace}"

    def stage(self, holding: Holding, name: str = "report.pdf", **other: Any) -> artifacts.Staged:
        """A worker asks whether it may upload; `other`: id, store, keep_for (seconds), content_type, by."""
        by: Caller = other.get("by", self.ledger.worker)
        upload = artifacts.Upload(
            holding,
            other.get("id") or uuid7(),
            name,
            other.get("content_type"),
            other.get("store", self.store),
            other.get("keep_for"),
        )
        return by.fetch(artifacts.artifact_stage([upload]))[0]

    def begun(self, holding: Holding, name: str = "report.pdf", **other: Any) -> UUID:
        """An upload that may begin, and has not ended."""
        answer = self.stage(holding, name, **other)
        assert answer.verdict == "staged", answer
        return answer.id

    def ready(
        self,
        artifact_id: UUID,
        holding: Holding,
        sha256: str = sha256_of(),
        size: int = SIZE,
        *,
        caller: Caller | None = None,
    ) -> str:
        """A worker says that an upload is whole."""
        uploaded = artifacts.Uploaded(artifact_id, holding.attempt_id, size, sha256)
        return (caller or self.ledger.worker).fetch(artifacts.artifact_ready([uploaded]))[0].verdict

    def put(self, holding: Holding, name: str = "report.pdf", **other: Any) -> UUID:
        """An artifact that is ready."""
        artifact_id = self.begun(holding, name, **other)
        assert self.ready(artifact_id, holding) == "ready"
        return artifact_id

    def discard(self, artifact_id: UUID, holding: Holding, why: str = "no space left") -> str:
        """A worker gives an upload up."""
        query = artifacts.artifact_discard([artifacts.GivenUp(artifact_id, holding.attempt_id, why)])
        return self.ledger.worker.fetch(query)[0].verdict

    def shown(self, artifact_id: UUID) -> StagedArtifact:
        """An artifact as consumers see it."""
        (found,) = self.ledger.producer.fetch(artifacts.artifact(artifact_id))
        return found

    def listed(self, job: UUID, *, all_attempts: bool = False) -> list[UUID]:
        """A job's artifacts."""
        return [one.id for one in self.ledger.producer.fetch(artifacts.artifacts(job, all_attempts=all_attempts))]

    def acknowledge(
        self,
        artifact_id: UUID,
        sha256: str = sha256_of(),
        copied_to: str = "/archive/1",
        by: str | None = "archive",
        *,
        caller: Caller | None = None,
    ) -> artifacts.Said:
        """A consumer says that it has a copy."""
        query = artifacts.acknowledge_artifact(artifact_id, sha256, copied_to, by)
        return (caller or self.ledger.producer).fetch(query)[0]

    def mismatch(self, artifact_id: UUID, size: int | None = SIZE, sha256: str | None = sha256_of("other")) -> str:
        """A consumer says that the staged copy is another one."""
        query = artifacts.artifact_mismatch(artifact_id, "archive", size, sha256)
        return self.ledger.producer.fetch(query)[0].verdict

    def handed_over(self, name: str = "report.pdf", **other: Any) -> tuple[Holding, UUID]:
        """An artifact that is part of its job's result."""
        holding = self.ledger.worker.take(self.ledger.submit())
        artifact_id = self.put(holding, name, **other)
        assert self.ledger.worker.complete(holding, {"report": named(artifact_id)}).verdict == "accepted"
        return holding, artifact_id

    def sweep(self, limit: int = 100, *, by: Caller | None = None, limits: sweeping.Limits = LIMITS) -> dict[UUID, str]:
        """What one tick of the sweeper is given to delete, and why."""
        by = by or self.ledger.coordinator
        candidacy = ticks.Candidacy(f"sweeper of {self.store}", by.process, 60)
        rows = by.fetch(sweeping.artifacts_to_remove(candidacy, self.store, limits, limit))
        assert all(row.leading for row in rows)
        return {row.id: row.why for row in rows if row.id is not None and row.why is not None}

    def removed(self, *artifact_ids: UUID) -> None:
        """The sweeper says that objects are gone."""
        self.ledger.coordinator.fetch(sweeping.artifacts_removed(artifact_ids))

    def at_limit(self, seconds: float, artifact_id: UUID, why: str) -> None:
        """The sweeper is given the artifact exactly so many seconds from now, for this reason, and not before."""
        clock = self.ledger.clock
        assert self.sweep() == {}
        clock.advance(seconds - 1e-3)
        assert self.sweep() == {}
        clock.advance(1e-3)
        assert self.sweep() == {artifact_id: why}

    def stays(self, *seconds: float) -> None:
        """The sweeper is given nothing, now and after each of these times."""
        assert self.sweep() == {}
        for each in seconds:
            self.ledger.clock.advance(each)
            assert self.sweep() == {}
