"""Every error that brokerjobs raises on purpose: one root, evidence as attributes.

    BrokerjobsError
    ├── ConfigurationError: JobTypeConflict, MissingHandler         a setting or declaration is wrong
    ├── SchemaMismatch: TopologyMismatch                            `brokerjobs setup` has something to do
    ├── LedgerUnavailable, BrokerUnavailable, PermissionDenied; LoginRefused is the first and the last of them
    ├── SubmissionRefused: UnknownJobType, InvalidPayload, PayloadTooLarge, IdempotencyConflict, KeyInFlight,
    │   ExpiredRecord
    ├── WrongIsolation, StaleAttempt, AlreadyReported, ResultMissing    raised in an attempt's transaction
    ├── StopRequested                                               raised by `ctx.check()`
    ├── InvalidResult, ResultTooLarge
    ├── ArtifactError: those of `artifact_errors`, named here, too
    ├── JobNotFound, RefusedMove
    ├── JobFailed, JobCancelled, InReview, DecidedByPerson, ResultTimeout    answers of `handle.result()`
    └── HandlerSignal: TemporaryFailure, InvalidJob, PolicyRejected, UnknownOutcome, Snooze    raised *by* handlers;
        DidNotHappen raised by the call of an effect, EffectUnknown by `ctx.effect`

A message says what, where, and what to do.  Evidence is given by keyword and kept; errors survive `pickle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.artifact_errors import (
    AcknowledgementRefused,
    ArtifactError,
    ArtifactGone,
    ArtifactNameUsed,
    ArtifactNotFound,
    ArtifactNotReady,
    ArtifactNotVisible,
    ArtifactStoreFull,
    ArtifactStoreRefused,
    ArtifactStoreUnavailable,
    ArtifactTooLarge,
    HashMismatch,
    InvalidArtifact,
    InvalidReference,
)
from brokerjobs.error_base import BrokerjobsError, says

if TYPE_CHECKING:
    from uuid import UUID

__all__ = [
    "AcknowledgementRefused",
    "AlreadyReported",
    "ArtifactError",
    "ArtifactGone",
    "ArtifactNameUsed",
    "ArtifactNotFound",
    "ArtifactNotReady",
    "ArtifactNotVisible",
    "ArtifactStoreFull",
    "ArtifactStoreRefused",
    "ArtifactStoreUnavailable",
    "ArtifactTooLarge",
    "AttemptError",
    "BrokerUnavailable",
    "BrokerjobsError",
    "ConfigurationError",
    "DecidedByPerson",
    "DidNotHappen",
    "EffectUnknown",
    "ExpiredRecord",
    "HandlerSignal",
    "HashMismatch",
    "IdempotencyConflict",
    "InReview",
    "InvalidArtifact",
    "InvalidJob",
    "InvalidPayload",
    "InvalidReference",
    "InvalidResult",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "JobTypeConflict",
    "KeyInFlight",
    "LedgerUnavailable",
    "LoginRefused",
    "MissingHandler",
    "PayloadTooLarge",
    "PermissionDenied",
    "PolicyRejected",
    "RefusedMove",
    "ResultMissing",
    "ResultTimeout",
    "ResultTooLarge",
    "SchemaMismatch",
    "Snooze",
    "StaleAttempt",
    "StopRequested",
    "SubmissionRefused",
    "TemporaryFailure",
    "TopologyMismatch",
    "UnknownJobType",
    "UnknownOutcome",
    "WrongIsolation",
]

_LAST_SHOWN: Final = 300  # characters of what an attempt said: the whole is in `attempts`


@says("{size} bytes, over the limit of {limit}")
class _TooLarge(BrokerjobsError):
    job_type: str
    size: int
    limit: int

    @property
    def excess(self) -> int:
        """Bytes over the limit."""
        return self.size - self.limit


class ConfigurationError(BrokerjobsError):
    """A setting or declaration is wrong; `problems` has one line for each thing to mend."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join([message, *(f"  {problem}" for problem in problems)]))
        self.problems = problems


class JobTypeConflict(ConfigurationError):
    """One name is declared twice in one app with terms that differ, as `problems` lists."""

    def __init__(self, *, job_type: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"job type {job_type!r} is declared twice in this app, with other terms:", problems=problems)
        self.job_type = job_type


class MissingHandler(ConfigurationError):
    """A job type that this process was asked to run has no handler."""

    def __init__(self, *, job_type: str) -> None:
        super().__init__(f"job type {job_type!r} has no handler here; import the module that has its `@….handler`")
        self.job_type = job_type


class SchemaMismatch(BrokerjobsError):
    """The ledger's schema is not one that this code serves; `command` mends it."""

    def __init__(self, message: str, *, command: str) -> None:
        super().__init__(f"{message}; run `{command}`")
        self.command = command


@says(
    "{queue!r} exists at the broker with {argument} = {existing!r}, wanted {wanted!r}; deliveries are doorbells, so "
    "`brokerjobs setup module:app --recreate {queue}` loses no job"
)
class TopologyMismatch(SchemaMismatch):
    """A queue or exchange of ours exists at the broker with another argument than wanted, the first that differs."""

    queue: str
    argument: str
    existing: object
    wanted: object
    command: str = "brokerjobs setup module:app --recreate QUEUE"

    def as_data(self) -> dict[str, object]:
        """What differs, as JSON values."""
        return {name: getattr(self, name) for name in ("queue", "argument", "existing", "wanted")}


class LedgerUnavailable(BrokerjobsError):
    """PostgreSQL gave no answer; the same call with the same ids may be made again."""


class BrokerUnavailable(BrokerjobsError):
    """RabbitMQ gave no answer; nothing is lost, since deliveries are rung again from the ledger."""


class PermissionDenied(BrokerjobsError):
    """The login may not do this; the message names the role or right that is missing."""


class LoginRefused(LedgerUnavailable, PermissionDenied):
    """PostgreSQL did not let the login in: said at once to whoever begins, waited out by what runs already."""


class SubmissionRefused(BrokerjobsError):
    """A job was not accepted at the door; nothing was recorded."""


@says(
    "the ledger does not know job type {job_type!r} of namespace {namespace!r}; "
    "register it with `brokerjobs setup module:app` or start a worker that has it"
)
class UnknownJobType(SubmissionRefused):
    """The ledger does not know the job type."""

    namespace: str
    job_type: str


@says("payload of job type {job_type!r} is invalid at {path}: {problem}")
class InvalidPayload(SubmissionRefused):
    """The payload is not one that its job type takes; `path` is like `items[3].price`, "" for the whole."""

    job_type: str
    path: str
    problem: str


@says(
    "payload of job type {job_type!r} is {size} bytes of JSON, {self.excess} over the limit of {limit}; "
    "keep large data in object storage and send its name, or in an artifact of an earlier job and send what "
    "ctx.artifacts.put returned there"
)
class PayloadTooLarge(_TooLarge, SubmissionRefused):
    """The payload's UTF-8 JSON is `size` bytes, more than `limit`."""


@says(
    "key {key!r} was first used by {first_submitted_by!r} for job {job_id} with another payload, "
    "and now by {submitted_by!r}; use another key for another job"
)
class IdempotencyConflict(SubmissionRefused):
    """`key` already names job `job_id`, which has another payload; both submitters are named."""

    job_id: UUID
    key: str
    submitted_by: str
    first_submitted_by: str


@says("key {key!r} of job type {job_type!r} is held by another open transaction; submit again when it has ended")
class KeyInFlight(SubmissionRefused):
    """Another open transaction has submitted the same key and has not ended within 2 s."""

    job_type: str
    key: str


@says(
    "key {key!r} of job type {job_type!r} was first used by {first_submitted_by!r} for job {job_id}, which has ended "
    "and whose record retention has removed: it is not run again; use another key for another job"
)
class ExpiredRecord(SubmissionRefused):
    """`key` named job `job_id`, with the same payload; that job ended so long ago that nothing more is known of it."""

    job_id: UUID
    job_type: str
    key: str
    first_submitted_by: str


@says(
    "the transaction given with within= is {level}; begin it with `BEGIN ISOLATION LEVEL READ COMMITTED` "
    '(SQLAlchemy: `create_engine(..., isolation_level="READ COMMITTED")`), so that its check sees what others commit'
)
class WrongIsolation(BrokerjobsError):
    """A transaction given with `within=` has isolation `level` instead of READ COMMITTED."""

    level: str


@says(
    "attempt {attempt_id} (fencing number {fencing_number}) of job {job_id} is not the current one: {reason}; "
    "let this error pass, so that the transaction rolls back"
)
class StaleAttempt(BrokerjobsError):
    """The attempt is not the current one of its job; roll back, its writes must not be committed."""

    job_id: UUID
    attempt_id: UUID
    fencing_number: int
    reason: str


@says("the handler of attempt {attempt_id} of job {job_id} is to stop: {self.told}; clean up and let this error pass")
class StopRequested(BrokerjobsError):
    """Raised by `ctx.check()` once the handler is to stop; `reason` is cancel, time_limit, deadline or drain."""

    job_id: UUID
    attempt_id: UUID
    reason: str

    @property
    def told(self) -> str:
        """Why, in words."""
        return {
            "cancel": "a cancel of the job was asked for",
            "time_limit": "its time limit is over",
            "deadline": "the job's deadline has passed",
            "drain": "the worker ends",
        }.get(self.reason, self.reason)


@says("attempt {attempt_id} of job {job_id} has already reported; let this error pass, so that all is rolled back")
class AlreadyReported(BrokerjobsError):
    """The attempt has made its one report; a second transaction's writes must be rolled back."""

    job_id: UUID
    attempt_id: UUID


@says(
    "the transaction of attempt {attempt_id} of job {job_id} had no result and was rolled back; call "
    "`tx.complete(result)` in it, or open it with `ctx.transaction(complete=False)`"
)
class ResultMissing(BrokerjobsError):
    """A completing transaction came to its end without `tx.complete(result)`; it was rolled back."""

    job_id: UUID
    attempt_id: UUID


@says("result of job type {job_type!r} is invalid at {path}: {problem}")
class InvalidResult(BrokerjobsError):
    """The result is not one that its job type declares; `path` is like `items[3].price`, "" for the whole."""

    job_type: str
    path: str
    problem: str
    returned: bool = False
    """A handler gave it as its job's result; else it was read, or is what a call inside the handler gave."""


@says(
    "result of job type {job_type!r} is {size} bytes of JSON, {self.excess} over the limit of {limit}; "
    "keep large data in an artifact: stage it with ctx.artifacts.put, and put what that returns into the result"
)
class ResultTooLarge(_TooLarge):
    """The result's UTF-8 JSON is `size` bytes, more than `limit`."""

    returned: bool = False
    """As of InvalidResult."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptError:
    """How one attempt ended without an accepted result; both times are the ledger's, aware, in UTC."""

    number: int
    attempt_id: UUID
    worker: str
    failure_class: str  # of `rules.failures.FailureClass`; plain, since a newer ledger may know more
    error_type: str
    message: str
    claimed_at: datetime
    ended_at: datetime | None


@says(
    "the ledger has no job {job_id}; it was never submitted there, its transaction was rolled back or has not "
    "committed yet, or retention has removed it since it ended"
)
class JobNotFound(BrokerjobsError):
    """The ledger has no such job (any more)."""

    job_id: UUID | str


@says("job {job_id} failed ({failure_class}): {reason}{self.last_said}")
class JobFailed(BrokerjobsError):
    """The job ended `failed`: its class, the reason, and every attempt with its error."""

    job_id: UUID
    failure_class: str
    reason: str
    attempts: tuple[AttemptError, ...] = ()

    @property
    def last_said(self) -> str:
        """What the last attempt said, where the reason is not that already."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or not last.message or last.message in self.reason:
            return ""
        said = f"{last.error_type}: {last.message}"
        return f"; the last attempt: {said[:_LAST_SHOWN]}{'…' if len(said) > _LAST_SHOWN else ''}"


@says("job {job_id} was cancelled: {reason}")
class JobCancelled(BrokerjobsError):
    """The job was cancelled; `reason` is what the one who cancelled it said."""

    job_id: UUID
    reason: str = ""


@says("job {job_id} is in review, its outcome is unknown: {reason}; see `brokerjobs review show {job_id}`")
class InReview(BrokerjobsError):
    """The outcome of the job is unknown and waits for a decision; it may still end either way."""

    job_id: UUID
    reason: str = ""


@says("job {job_id} was decided by {by}, without a result: it happened ({reference}), because {reason}")
class DecidedByPerson(BrokerjobsError):
    """The job has succeeded, as a person found out in its review; what its handler would have returned is not known.

    `reference` is what proves it in the world outside; `at` is the ledger's time, aware.
    """

    job_id: UUID
    by: str
    at: datetime
    reason: str
    reference: str


@says("job {job_id} was still {state} after {timeout} (h:mm:ss); it goes on, ask its handle again later")
class ResultTimeout(BrokerjobsError):
    """The job had not ended within `timeout`; it goes on, and its handle can be asked again."""

    job_id: UUID
    timeout: timedelta
    state: str


@says("job {job_id} {self.stands}: {move} is not possible, nothing was changed")
class RefusedMove(BrokerjobsError):
    """The job is `state`, from which `move` (cancel, replay …) is not allowed; nothing was changed."""

    job_id: UUID
    state: str
    move: str = "cancel"

    @property
    def stands(self) -> str:
        """How it stands, in words."""
        return {"succeeded": "has succeeded", "failed": "has failed", "review": "is in review"}.get(
            self.state, f"is {self.state}"
        )


class HandlerSignal(BrokerjobsError):
    """Raised by a handler to say how its attempt ended; counts as classified by its type."""


class TemporaryFailure(HandlerSignal):
    """Try again later; not before `retry_after`, which is kept within zero and one year."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        # Often another service's answer: a value out of bounds must not hide the failure itself.
        self.retry_after = None if retry_after is None else min(max(retry_after, timedelta(0)), timedelta(days=365))


class InvalidJob(HandlerSignal):
    """The job can never succeed as submitted: fail it at once."""


class PolicyRejected(HandlerSignal):
    """The job may not be run: it fails at once, and no other worker is asked."""


class UnknownOutcome(HandlerSignal):
    """Something outside may or may not have happened: a person decides (review)."""


class DidNotHappen(HandlerSignal):
    """Raised by the call of an effect: it surely did not happen, and the next try may do it anew, with another key.

    Also what a reconciler answers that found this out.
    """

    def __init__(self, message: str = "it did not happen") -> None:
        super().__init__(message)


@says(
    "job {job_id}: whether its effect {effect!r} (key {key}) happened in an earlier attempt is unknown, and it may not "
    "be repeated; let this error pass: the job goes to review"
)
class EffectUnknown(UnknownOutcome):
    """An earlier attempt may have done `effect`, which may not be repeated (or no longer, with its key)."""

    job_id: UUID
    attempt_id: UUID
    effect: str
    key: str


class Snooze(HandlerSignal):
    """Not yet: run the job again at `until` (aware); the attempt is not charged, within bounds."""

    def __init__(self, until: datetime) -> None:
        if until.utcoffset() is None:
            message = f"Snooze(until={until!r}) has no time zone; give an aware datetime, such as UTC"
            raise ValueError(message)
        super().__init__(f"snoozed until {until.isoformat()}")
        self.until = until
