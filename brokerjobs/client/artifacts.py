"""Artifacts, seen by those who consume them: `client.artifacts`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from brokerjobs.artifacts import handover
from brokerjobs.artifacts.transfers import in_thread
from brokerjobs.client import artifact_questions as questions
from brokerjobs.client.patience import until_answered
from brokerjobs.errors import HashMismatch, LedgerUnavailable, PermissionDenied
from brokerjobs.ledger.asking import Asking, ask

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.artifacts.transfers import Stop
    from brokerjobs.client.artifact_questions import AnyArtifact, AnyJob, Several
    from brokerjobs.ledger.artifacts import Acknowledgement, StagedArtifact
    from brokerjobs.ledger.database import AsyncLedgerConnection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where a fetched copy goes; `progress` is told the bytes so far, in the thread that copies."""

    to: Path
    overwrite: bool
    progress: Callable[[int], None] | None

    def fetch(self, store: Callable[[], ArtifactStore], staged: StagedArtifact, stop: Stop) -> Path:
        """Copies it; blocks."""
        return handover.fetch(store(), staged, self.to, overwrite=self.overwrite, progress=self.progress, stop=stop)


class Artifacts:
    """What the jobs of a ledger hand over; usable while its client is open."""

    def __init__(
        self,
        ledger: AsyncLedgerConnection,
        store: Callable[[], ArtifactStore],
        *,
        submitted_by: str,
        patience_seconds: float,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._submitted_by = submitted_by
        self._patience_seconds = patience_seconds

    async def list(self, job: AnyJob, *, all_attempts: bool = False) -> Several:
        """The artifacts of a job's result, by when they were ready; or those of all its attempts, by attempt.

        `job` is a handle, an id, or the id as text.  Raises JobNotFound, InvalidReference, LedgerUnavailable.
        """
        return await self._ask(questions.listed(job, all_attempts=all_attempts))

    async def get(self, artifact: AnyArtifact) -> StagedArtifact:
        """The artifact as the ledger knows it now; named by itself, its id, or the id as text.

        Raises ArtifactNotFound, InvalidReference, LedgerUnavailable.
        """
        return await self._ask(questions.one(artifact))

    async def fetch(
        self,
        artifact: AnyArtifact,
        *,
        to: str | os.PathLike[str],
        overwrite: bool = False,
        unaccepted: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Path:
        """Copies an artifact to the file `to`, which has its name only once size and hash are the recorded ones.

        The copy is private (0600) and on the disk then.  It acknowledges nothing.  `unaccepted` hands out what is not
        part of its job's result, too.  `progress` is told the bytes so far, in another thread.

        Raises ArtifactNotFound, InvalidReference, ArtifactNotReady, ArtifactNotVisible, ArtifactGone; HashMismatch for
        another object than the recorded one, or none, which it records; ArtifactStoreUnavailable, ArtifactStoreRefused;
        OSError for what cannot be written, FileExistsError for what is there, unless it is a regular file and
        `overwrite`; ConfigurationError for an artifact of another store; LedgerUnavailable.  Nothing is left of the
        copy then.
        """
        staged = await self._ask(questions.to_fetch(artifact, unaccepted=unaccepted))
        wanted = Wanted(Path(to), overwrite, progress)
        try:
            return await in_thread(partial(wanted.fetch, self._store, staged))
        except HashMismatch as error:
            raise await self._recorded(error) from None

    async def acknowledge(
        self, artifact: AnyArtifact, *, sha256: str, copied_to: str | os.PathLike[str], by: str | None = None
    ) -> Acknowledgement:
        """Says that there is a safe copy at `copied_to`, whose SHA-256 was computed of that copy itself.

        The staged copy is removed after a grace time.  What is answered is what is recorded: who acknowledged first.
        `by` is the client's `submitted_by` unless it is given.  Asked again it is harmless.

        Raises AcknowledgementRefused for another hash, and for what is not ready or not part of its job's result;
        ArtifactNotFound, InvalidReference, LedgerUnavailable.
        """
        who = self._submitted_by if by is None else by
        said, _ = await self._until_answered(
            lambda: questions.acknowledge(artifact, sha256=sha256, copied_to=copied_to, by=who)
        )
        return said

    async def _recorded(self, error: HashMismatch) -> Exception:
        """What to raise of a mismatch, which is in the ledger now, or says why not."""
        try:
            return await self._until_answered(lambda: questions.mismatch(error, self._submitted_by))
        except (LedgerUnavailable, PermissionDenied) as why:
            return questions.unrecorded(error, why)

    async def _ask(self, asking: Asking[T]) -> T:
        return await ask(asking, self._ledger.fetch)

    async def _until_answered(self, question: Callable[[], Asking[T]]) -> T:
        return await until_answered(lambda: self._ask(question()), self._patience_seconds)
