"""Queries about artifacts: uploads by workers, and what consumers read and say. What is removed: `sweeping`.

Verdicts are the words of the SQL functions; times are the ledger's, durations seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from brokerjobs.ledger.arrays import Texts, Uuids
from brokerjobs.ledger.calls import array_literal, columns
from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from brokerjobs.ledger.calls import Holding


@dataclass(frozen=True, slots=True)
class Upload:
    """What an attempt is about to write into `store` (its public location); `id` is made before asking (rule R7)."""

    holding: Holding
    id: UUID
    name: str
    content_type: str | None
    store: str
    keep_for_seconds: float | None
    """How long after its job's end it is kept if nobody acknowledges it; None: seven days."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Answer to an upload: staged (the object's `path` in the store) | lost (`reason`) | name_used | unknown_job."""

    job_id: UUID
    attempt_id: UUID
    id: UUID
    verdict: str
    reason: str | None
    path: str | None


def artifact_stage(uploads: Sequence[Upload]) -> Query[Staged]:
    """Records uploads before their first byte is written."""
    return Query(
        "select * from brokerjobs.artifact_stage(%s::uuid[], %s::uuid[], %s::bigint[], %s::uuid[], %s::text[],"
        " %s::text[], %s::text[], %s::double precision[])",
        [
            *columns([one.holding for one in uploads]),
            Uuids(one.id for one in uploads),
            Texts(one.name for one in uploads),
            [one.content_type for one in uploads],
            Texts(one.store for one in uploads),
            array_literal(one.keep_for_seconds for one in uploads),
        ],
        Staged,
    )


@dataclass(frozen=True, slots=True)
class Uploaded:
    """An object that is whole and durable in its store; `sha256` in lower-case hex, `size` in bytes."""

    id: UUID
    attempt_id: UUID
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Ready:
    """Answer: ready | differs (ready before, with another size or hash) | unknown | discarded | name_used.

    name_used: another artifact of the attempt has become ready under its name meanwhile; this one is discarded.
    """

    id: UUID
    verdict: str


def artifact_ready(uploaded: Sequence[Uploaded]) -> Query[Ready]:
    """Says that uploads are whole; taken however late, unless they were discarded."""
    return Query(
        "select * from brokerjobs.artifact_ready(%s::uuid[], %s::uuid[], %s::bigint[], %s::text[])",
        [
            Uuids(one.id for one in uploaded),
            Uuids(one.attempt_id for one in uploaded),
            array_literal(one.size for one in uploaded),
            Texts(one.sha256 for one in uploaded),
        ],
        Ready,
    )


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An upload that has failed, `why` in one line."""

    id: UUID
    attempt_id: UUID
    why: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """Answer to an upload that was given up: discarded | ready (it is whole, and stays) | unknown."""

    id: UUID
    verdict: str


def artifact_discard(given_up: Sequence[GivenUp]) -> Query[Discarded]:
    """Gives up uploads: their objects are the sweeper's from then on."""
    return Query(
        "select * from brokerjobs.artifact_discard(%s::uuid[], %s::uuid[], %s::text[])",
        [
            Uuids(one.id for one in given_up),
            Uuids(one.attempt_id for one in given_up),
            Texts(one.why for one in given_up),
        ],
        Discarded,
    )


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a consumer said of its own copy: when, by whom (and with which database login), and where it is."""

    at: datetime
    by: str
    login: str
    copied_to: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A staged copy that was found to be another one; size (bytes) and hash are None if the object was missing."""

    at: datetime
    by: str
    size: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Removing:
    """Since when the staged copy is to be removed, and why.

    `why`: incomplete | not_accepted | acknowledged | unacknowledged | mismatch; `detail`: what the worker said of it.
    """

    at: datetime
    why: str
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedArtifact:
    """An artifact as the ledger knows it.

    `state`: staging | ready | acknowledged | hash_mismatch | expired_unacknowledged | discarded. It is `visible` when
    its attempt's result is its job's result. `size` (bytes) and `sha256` (lower-case hex) are None until it is ready.
    The object is `path` in `store`, until `removed_at`; `expires_at` is when it will be due for removal if nothing
    else happens, None while that is not known.
    """

    id: UUID
    job: UUID
    attempt: UUID
    number: int
    fencing_number: int
    namespace: str
    name: str
    content_type: str | None
    state: str
    visible: bool
    size: int | None
    sha256: str | None
    store: str
    path: str
    made_at: datetime
    ready_at: datetime | None
    keep_for: timedelta
    expires_at: datetime | None
    acknowledged: Acknowledgement | None
    mismatch: Mismatch | None
    expired_at: datetime | None
    removing: Removing | None
    removed_at: datetime | None
    record: Mapping[str, Any] = field(repr=False, compare=False)
    """The same as the ledger's JSON, `brokerjobs.staged_artifact/1`."""

    @property
    def is_there(self) -> bool:
        """Whether its object can still be fetched: it is ready, and not about to be removed."""
        return self.sha256 is not None and self.removing is None

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Reads the ledger's `artifact_json`; fields that it does not know are left in `record`."""
        said, other, removing = record["acknowledged"], record["mismatch"], record["removing"]
        return cls(
            id=UUID(record["id"]),
            job=UUID(record["job"]),
            attempt=UUID(record["attempt"]),
            number=record["number"],
            fencing_number=int(record["fencing_number"]),
            namespace=record["namespace"],
            name=record["name"],
            content_type=record["content_type"],
            state=record["state"],
            visible=record["visible"],
            size=record["size"],
            sha256=record["sha256"],
            store=record["store"],
            path=record["path"],
            made_at=datetime.fromisoformat(record["made_at"]),
            ready_at=_moment(record["ready_at"]),
            keep_for=timedelta(seconds=record["keep_for_seconds"]),
            expires_at=_moment(record["expires_at"]),
            acknowledged=said and Acknowledgement(_at(said), said["by"], said["login"], said["copied_to"]),
            mismatch=other and Mismatch(_at(other), other["by"], other["size"], other["sha256"]),
            expired_at=_moment(record["expired_at"]),
            removing=removing and Removing(_at(removing), removing["why"], removing["detail"]),
            removed_at=_moment(record["removed_at"]),
            record=record,
        )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _at(fact: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(fact["at"])


def artifacts(job_id: UUID, *, all_attempts: bool = False) -> Query[StagedArtifact]:
    """A job's artifacts, those of its result or of all its attempts; by attempt, then by when they were ready."""
    return Query("select brokerjobs.artifacts_v1(%s, %s)", [job_id, all_attempts], StagedArtifact.from_json)


def artifact(artifact_id: UUID) -> Query[StagedArtifact]:
    """One artifact; no row if the ledger does not know it."""
    return Query(
        "select a from brokerjobs.artifact_v1(%s) a where a is not null", [artifact_id], StagedArtifact.from_json
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which artifacts to list, newest first: those of results, or of all attempts; `before`: the last one seen."""

    namespace: str | None = None
    state: str | None = None
    all_attempts: bool = False
    before: UUID | None = None
    limit: int = 50


def list_artifacts(wanted: Wanted) -> Query[StagedArtifact]:
    """Artifacts of all jobs, by namespace and state; a thousand at most."""
    return Query(
        "select brokerjobs.list_artifacts(%s, %s, %s, %s, %s)",
        [wanted.namespace, wanted.state, wanted.all_attempts, wanted.before, wanted.limit],
        StagedArtifact.from_json,
    )


@dataclass(frozen=True, slots=True)
class Said:
    """Answer to an acknowledgement: acknowledged | hash_differs | not_ready | not_accepted | unknown.

    `detail`: acknowledged: the recorded {at, by, login, copied_to} and `repeated`; hash_differs: the recorded {size,
    sha256}; not_ready and not_accepted: the artifact's `state` and its `job_state`.
    """

    verdict: str
    detail: dict[str, Any]


def acknowledge_artifact(artifact_id: UUID, sha256: str, copied_to: str, by: str | None = None) -> Query[Said]:
    """Says that a safe copy with this hash is at `copied_to`; `by` is the database login if it is None."""
    return Query(
        "select * from brokerjobs.acknowledge_artifact_v1(%s, %s, %s, coalesce(%s, session_user::text))",
        [artifact_id, sha256, copied_to, by],
        Said,
    )


@dataclass(frozen=True, slots=True)
class Noted:
    """Answer to a mismatch: noted | matches (size and hash are the recorded ones) | removed | unknown."""

    verdict: str


def artifact_mismatch(artifact_id: UUID, by: str, size: int | None, sha256: str | None) -> Query[Noted]:
    """Says that the staged copy is another than the recorded one; size and hash None: there is no object."""
    return Query(
        "select brokerjobs.artifact_mismatch_v1(%s, %s, %s, %s)",
        [artifact_id, by, size, sha256],
        Noted,
    )
