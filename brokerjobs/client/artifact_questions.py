"""What consumers ask and say about artifacts, and who is refused one, whoever asks: an event loop or a thread."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from brokerjobs.client import questions
from brokerjobs.errors import (
    AcknowledgementRefused,
    ArtifactGone,
    ArtifactNotFound,
    ArtifactNotReady,
    ArtifactNotVisible,
    InvalidReference,
)
from brokerjobs.ledger import artifacts
from brokerjobs.ledger.artifacts import Acknowledgement
from brokerjobs.rules import texts

if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from brokerjobs.artifact import Artifact
    from brokerjobs.client.handle import AnyHandle
    from brokerjobs.errors import ArtifactError, HashMismatch
    from brokerjobs.ledger.artifacts import StagedArtifact
    from brokerjobs.ledger.asking import Asking

    AnyArtifact: TypeAlias = "UUID | str | Artifact | StagedArtifact"
    AnyJob: TypeAlias = "UUID | str | AnyHandle[Any]"
    Several: TypeAlias = "list[StagedArtifact]"  # for classes that have a method of that name

_SHA256: Final = re.compile("[0-9a-f]{64}")
_TEXT_LIMIT: Final = 4_096
_WHY_GONE: Final = {
    "incomplete": "its upload never ended",
    "not_accepted": "the result of its attempt could no longer be accepted",
    "acknowledged": "it was acknowledged",
    "unacknowledged": "nobody acknowledged it within its time limit",
    "mismatch": "it was another than the recorded one, and nobody acknowledged a copy within its time limit",
}


def listed(job: AnyJob, *, all_attempts: bool) -> Asking[list[StagedArtifact]]:
    """A job's artifacts; raises JobNotFound, InvalidReference."""
    job_id = _id_of(job, "job", "its handle")
    found: list[StagedArtifact] = yield artifacts.artifacts(job_id, all_attempts=all_attempts)
    if not found:
        yield from questions.status(job_id)
    return found


def one(artifact: AnyArtifact) -> Asking[StagedArtifact]:
    """An artifact as the ledger knows it now; raises ArtifactNotFound, InvalidReference."""
    artifact_id = _artifact_id_of(artifact)
    found: list[StagedArtifact] = yield artifacts.artifact(artifact_id)
    if not found:
        raise ArtifactNotFound(artifact_id=artifact_id)
    return found[0]


def to_fetch(artifact: AnyArtifact, *, unaccepted: bool) -> Asking[StagedArtifact]:
    """An artifact that may be fetched.

    Raises ArtifactNotFound, ArtifactNotReady, ArtifactGone, and ArtifactNotVisible unless `unaccepted` ones are wanted.
    """
    staged = yield from one(artifact)
    if staged.sha256 is None:
        raise ArtifactNotReady(artifact_id=staged.id, state=staged.state)
    if not staged.is_there:
        raise _gone(staged)
    if not (staged.visible or unaccepted):
        raise ArtifactNotVisible(artifact_id=staged.id, job_id=staged.job, number=staged.number)
    return staged


def mismatch(error: HashMismatch, by: str) -> Asking[ArtifactError]:
    """Records what was fetched instead of an artifact; answers what is to be raised of it.

    What is missing since it was removed meanwhile is no mismatch.
    """
    found = error.observed_size, error.observed_sha256
    [noted] = yield artifacts.artifact_mismatch(error.artifact_id, by, *found)
    match noted.verdict:
        case "removed":
            return _gone((yield from one(error.artifact_id)))
        case "unknown":
            return ArtifactNotFound(artifact_id=error.artifact_id)
        case _:
            return error


def unrecorded(error: HashMismatch, why: Exception) -> HashMismatch:
    """The mismatch, with a note that the ledger does not know of it."""
    error.add_note(f"the mismatch is not known to be recorded: {why}; fetching again finds it again")
    return error


def acknowledge(
    artifact: AnyArtifact, *, sha256: str, copied_to: str | PathLike[str], by: str
) -> Asking[tuple[Acknowledgement, bool]]:
    """What is recorded of who acknowledged, and whether it was recorded before; raises as `Artifacts.acknowledge`."""
    artifact_id = _artifact_id_of(artifact)

    def refused(problem: str) -> AcknowledgementRefused:
        return AcknowledgementRefused(artifact_id=artifact_id, problem=problem)

    if not (_is_text(sha256) and _SHA256.fullmatch(sha256.lower())):
        raise refused(f"{texts.shown(sha256)} is no SHA-256 in hexadecimal, which is a text of 64 digits")
    where = os.fspath(copied_to) if isinstance(copied_to, os.PathLike) else copied_to
    for name, text in (("copied_to", where), ("by", by)):
        if not (_is_text(text) and 0 < len(text) <= _TEXT_LIMIT and texts.storable(text) == text):
            raise refused(f"{name}={texts.shown(text)} is not a text of 1 to {_TEXT_LIMIT} characters")
    [said] = yield artifacts.acknowledge_artifact(artifact_id, sha256.lower(), where, by)
    detail = said.detail
    match said.verdict:
        case "acknowledged":
            at = datetime.fromisoformat(detail["at"])
            return Acknowledgement(at, detail["by"], detail["login"], detail["copied_to"]), detail["repeated"]
        case "hash_differs":
            raise refused(
                f"the copy's SHA-256 is {sha256.lower()}, and the ledger has {detail['sha256']} of {detail['size']} "
                "bytes: the copy is another file, or was damaged; fetch it again"
            )
        case "not_ready":
            raise refused(f"its upload has not ended, or was given up (state {detail['state']})")
        case "not_accepted":
            raise refused(f"it is not part of its job's result (the job is {detail['job_state']})")
        case _:
            raise ArtifactNotFound(artifact_id=artifact_id)


def _is_text(value: object) -> bool:
    """Callers without a type checker give bytes, too."""
    return isinstance(value, str)


def _artifact_id_of(named: AnyArtifact) -> UUID:
    return _id_of(named, "artifact", "what `put`, `list` or a result gave")


def _id_of(named: object, what: str, instead: str) -> UUID:
    """The id of what was named; raises InvalidReference."""
    found: object = getattr(named, "id", named)
    if isinstance(found, UUID):
        return found
    if isinstance(found, str):
        with suppress(ValueError):
            return UUID(found)
    raise InvalidReference(value=texts.shown(named), what=what, instead=instead)


def _gone(staged: StagedArtifact) -> ArtifactGone:
    removing = staged.removing
    if removing is None:
        message = f"artifact {staged.id} is neither there nor being removed"
        raise AssertionError(message)
    said = staged.acknowledged
    copy = f", by {said.by}, whose copy is at {said.copied_to}" if said and removing.why == "acknowledged" else ""
    why = _WHY_GONE.get(removing.why, removing.why) + copy
    return ArtifactGone(artifact_id=staged.id, since=_time(removing.at), why=why)


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
