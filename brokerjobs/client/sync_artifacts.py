"""Artifacts, seen from threads: `Artifacts` without await."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from brokerjobs.artifacts.transfers import Stop
from brokerjobs.client import artifact_questions as questions
from brokerjobs.client.artifacts import Wanted
from brokerjobs.client.patience import until_answered_sync
from brokerjobs.errors import HashMismatch, LedgerUnavailable, PermissionDenied

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.client.artifact_questions import AnyArtifact, AnyJob, Several
    from brokerjobs.ledger.artifacts import Acknowledgement, StagedArtifact
    from brokerjobs.ledger.asking import Asking

T = TypeVar("T")


class ArtifactAccess(Protocol):
    """What artifacts are reached through in one process."""

    @property
    def submitted_by(self) -> str:
        """In whose name."""
        ...

    @property
    def patience_seconds(self) -> float:
        """For how long the ledger is asked again."""
        ...

    def ask(self, asking: Asking[T], /) -> T:
        """Asks the ledger."""
        ...

    def store(self) -> ArtifactStore:
        """The store, made when it is first needed."""
        ...


class SyncArtifacts:
    """What the jobs of a ledger hand over; usable from any thread while its client is open."""

    def __init__(self, access: Callable[[], ArtifactAccess]) -> None:
        self._access = access  # asked each time: the process may be a fork of the one that made this

    def list(self, job: AnyJob, *, all_attempts: bool = False) -> Several:
        """As `Artifacts.list`."""
        return self._access().ask(questions.listed(job, all_attempts=all_attempts))

    def get(self, artifact: AnyArtifact) -> StagedArtifact:
        """As `Artifacts.get`."""
        return self._access().ask(questions.one(artifact))

    def fetch(
        self,
        artifact: AnyArtifact,
        *,
        to: str | os.PathLike[str],
        overwrite: bool = False,
        unaccepted: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Path:
        """As `Artifacts.fetch`, in the calling thread."""
        access = self._access()
        staged = access.ask(questions.to_fetch(artifact, unaccepted=unaccepted))
        try:
            return Wanted(Path(to), overwrite, progress).fetch(access.store, staged, Stop())
        except HashMismatch as error:
            raise _recorded(access, error) from None

    def acknowledge(
        self, artifact: AnyArtifact, *, sha256: str, copied_to: str | os.PathLike[str], by: str | None = None
    ) -> Acknowledgement:
        """As `Artifacts.acknowledge`."""
        access = self._access()
        who = access.submitted_by if by is None else by
        said, _ = until_answered_sync(
            lambda: access.ask(questions.acknowledge(artifact, sha256=sha256, copied_to=copied_to, by=who)),
            access.patience_seconds,
        )
        return said


def _recorded(access: ArtifactAccess, error: HashMismatch) -> Exception:
    """What to raise of a mismatch, which is in the ledger now, or says why not."""
    try:
        return until_answered_sync(
            lambda: access.ask(questions.mismatch(error, access.submitted_by)), access.patience_seconds
        )
    except (LedgerUnavailable, PermissionDenied) as why:
        return questions.unrecorded(error, why)
