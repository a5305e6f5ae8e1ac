"""The errors of artifacts: large outputs that are staged by attempts and handed over to consumers.

ArtifactError
├── InvalidArtifact, ArtifactTooLarge, ArtifactNameUsed          said of what `ctx.artifacts.put` was given
├── ArtifactStoreUnavailable, ArtifactStoreRefused, ArtifactStoreFull    said of the store
├── InvalidReference                                             said of what `client.artifacts` was asked for
├── ArtifactNotFound, ArtifactNotReady, ArtifactNotVisible, ArtifactGone    said of the ledger's record of it
└── HashMismatch, AcknowledgementRefused                         said of a consumer's copy
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.error_base import BrokerjobsError, says

if TYPE_CHECKING:
    from uuid import UUID


class ArtifactError(BrokerjobsError):
    """Root of the errors of artifacts."""


@says("artifact {name!r} cannot be staged: {problem}")
class InvalidArtifact(ArtifactError):
    """The name, the source or the content type is none that can be staged; nothing was uploaded."""

    name: str
    problem: str


@says(
    "artifact {name!r} is larger than the limit of {limit} bytes, its upload was given up; raise artifacts.max_size, "
    "or stage it in parts"
)
class ArtifactTooLarge(ArtifactError):
    """The source went on beyond `limit` bytes; the upload was given up."""

    name: str
    limit: int


@says("attempt {attempt_id} of job {job_id} has staged an artifact {name!r} already; give this one another name")
class ArtifactNameUsed(ArtifactError):
    """Another artifact of the same attempt has the name and is ready."""

    job_id: UUID
    attempt_id: UUID
    name: str


@says("the artifact store {store} gave no answer: {problem}; the same call may be made again")
class ArtifactStoreUnavailable(ArtifactError):
    """The store gave no answer, or said that it cannot at the moment."""

    store: str
    problem: str


@says(
    "the artifact store {store} refused: {problem}; see artifacts.url and artifacts.options, and the store's own rights"
)
class ArtifactStoreRefused(ArtifactError):
    """The store refused credentials or rights, or has no such bucket or folder; asking again does not help."""

    store: str
    problem: str


@says("the artifact store {store} is full: {problem}; make room, the upload was given up and left nothing behind")
class ArtifactStoreFull(ArtifactError):
    """There was no room for the object: the disk, a quota or a limit of the file size."""

    store: str
    problem: str


@says("{value} names no {what}: give {instead}, its id as a UUID, or the UUID as text")
class InvalidReference(ArtifactError):
    """What was given names no artifact, or no job; `value` is how it reads, `what` which of the two was wanted."""

    value: str
    what: str
    instead: str


@says("the ledger has no artifact {artifact_id}; it was never staged there, or retention has removed its job")
class ArtifactNotFound(ArtifactError):
    """The ledger has no such artifact (any more)."""

    artifact_id: UUID | str


@says("artifact {artifact_id} is not ready: its upload has not ended, or was given up (state {state})")
class ArtifactNotReady(ArtifactError):
    """Its upload has not ended, so that neither size nor hash is known."""

    artifact_id: UUID
    state: str


@says(
    "artifact {artifact_id} is of attempt {number} of job {job_id}, whose result is not the accepted one; such outputs "
    "are evidence, and are handed out only when asked for as such (unaccepted)"
)
class ArtifactNotVisible(ArtifactError):
    """Its attempt is not the accepted one of its job, or not yet."""

    artifact_id: UUID
    job_id: UUID
    number: int


@says("the staged copy of artifact {artifact_id} is gone since {since}: {why}; the ledger keeps its hash and size")
class ArtifactGone(ArtifactError):
    """The staged copy was removed, or is being removed; `why` says by which rule, `since` when, as text."""

    artifact_id: UUID
    since: str
    why: str


@says(
    "artifact {artifact_id} has {size} bytes with SHA-256 {sha256} in the ledger, but {found}; nothing was written to "
    "{to}"
)
class HashMismatch(ArtifactError):
    """What was fetched is not what was staged; `found` says what is there instead.

    `observed_size` (bytes) and `observed_sha256` are of that, None if there is nothing.
    """

    artifact_id: UUID
    size: int
    sha256: str
    found: str
    to: str
    observed_size: int | None = None
    observed_sha256: str | None = None


@says("the acknowledgement of artifact {artifact_id} was refused: {problem}; nothing was changed")
class AcknowledgementRefused(ArtifactError):
    """The ledger refused it: the hash is another one, or the artifact is not ready or not visible."""

    artifact_id: UUID
    problem: str
