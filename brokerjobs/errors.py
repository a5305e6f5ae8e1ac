"""Every error that brokerjobs raises on purpose: one file, one root, evidence as attributes.

    BrokerjobsError
    ├── ConfigurationError            a setting or an application declaration is wrong
    │   ├── JobTypeConflict           one name registered twice in one app with different terms
    │   └── MissingHandler            a job type that this process must run has no handler
    ├── SchemaMismatch                the ledger's schema is not one that this code serves
    │   └── TopologyMismatch          a queue or exchange exists with other arguments
    ├── LedgerUnavailable             PostgreSQL gave no answer (may be tried again)
    ├── BrokerUnavailable             RabbitMQ gave no answer (may be tried again)
    ├── PermissionDenied              the login may not do this
    ├── SubmissionRefused             a job was not accepted at the door
    │   ├── UnknownJobType
    │   ├── InvalidPayload
    │   ├── PayloadTooLarge
    │   ├── IdempotencyConflict       same key, other payload
    │   └── KeyInFlight               another open transaction holds the key
    ├── WrongIsolation                a guest transaction that is not READ COMMITTED
    ├── StaleAttempt                  the attempt is no longer the current one
    ├── AlreadyReported               the attempt has already made its one report
    ├── ResultMissing                 a completing transaction ended without a result
    ├── InvalidResult
    ├── ResultTooLarge
    ├── JobNotFound
    ├── JobFailed                     ┐
    ├── JobCancelled                  │ answers of `handle.result()`
    ├── InReview                      │ that are not a result
    ├── ResultTimeout                 ┘
    ├── RefusedMove                   the job's state does not allow what was asked
    └── HandlerSignal                 raised *by* handlers to say how an attempt ended
        ├── TemporaryFailure
        ├── InvalidJob
        ├── PolicyRejected
        ├── UnknownOutcome
        └── Snooze

A message says what was wrong, where, and what to do.  Evidence is given by keyword and kept under
the same name; every error survives `pickle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


def _rebuilt(kind: type[BrokerjobsError], args: tuple[Any, ...], evidence: dict[str, Any]) -> BrokerjobsError:
    """Make a pickled error again without calling its constructor, whose arguments are keywords."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(evidence)
    return error


class BrokerjobsError(Exception):
    """Root of every error that brokerjobs raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


# --- declarations and settings ------------------------------------------------------------------


class ConfigurationError(BrokerjobsError):
    """A setting or declaration is wrong; `problems` has one line for each thing to mend."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join([message, *(f"  {problem}" for problem in problems)]))
        self.problems = problems


class JobTypeConflict(ConfigurationError):
    """One name is declared twice in one app with terms that differ, as `differences` lists."""

    def __init__(self, *, job_type: str, differences: tuple[str, ...]) -> None:
        super().__init__(
            f"job type {job_type!r} is declared twice in this app with different terms; "
            "declare it once and import it where it is used:",
            problems=differences,
        )
        self.job_type = job_type
        self.differences = differences


class MissingHandler(ConfigurationError):
    """A job type that this process was asked to run has no handler."""

    def __init__(self, *, job_type: str) -> None:
        super().__init__(
            f"job type {job_type!r} has no handler in this process; import the module that decorates one "
            "with `@<job type>.handler`, or do not run this type here"
        )
        self.job_type = job_type


class SchemaMismatch(BrokerjobsError):
    """The ledger's schema is not one that this code serves; `command` mends it."""

    def __init__(self, message: str, *, command: str) -> None:
        super().__init__(f"{message}; run `{command}`")
        self.command = command


class TopologyMismatch(SchemaMismatch):
    """A queue or exchange of ours exists at the broker with another argument than wanted."""

    def __init__(self, *, queue: str, argument: str, existing: object, wanted: object) -> None:
        super().__init__(
            f"{queue!r} exists at the broker with {argument} = {existing!r}, wanted {wanted!r}; deliveries are "
            "doorbells, so making it anew loses no job",
            command=f"brokerjobs setup --recreate {queue}",
        )
        self.queue = queue
        self.argument = argument
        self.existing = existing
        self.wanted = wanted


# --- the two servers ----------------------------------------------------------------------------


class LedgerUnavailable(BrokerjobsError):
    """PostgreSQL gave no answer; the same call with the same ids may be made again."""


class BrokerUnavailable(BrokerjobsError):
    """RabbitMQ gave no answer; nothing is lost, since deliveries are rung again from the ledger."""


class PermissionDenied(BrokerjobsError):
    """The login may not do this; the message names the role or right that is missing."""


# --- submitting ---------------------------------------------------------------------------------


class SubmissionRefused(BrokerjobsError):
    """A job was not accepted at the door; nothing was recorded."""


class UnknownJobType(SubmissionRefused):
    """The ledger does not know the job type."""

    def __init__(self, *, namespace: str, job_type: str) -> None:
        super().__init__(
            f"the ledger does not know job type {job_type!r} of namespace {namespace!r}; "
            "register it with `brokerjobs setup module:app` or start a worker that has it"
        )
        self.namespace = namespace
        self.job_type = job_type


class InvalidPayload(SubmissionRefused):
    """The payload is not one that its job type takes; `path` is like `items[3].price`, "" for the whole."""

    def __init__(self, *, path: str, problem: str, job_type: str | None = None) -> None:
        super().__init__(f"payload{_of(job_type)} is invalid{_at(path)}: {problem}")
        self.path = path
        self.problem = problem
        self.job_type = job_type


class PayloadTooLarge(SubmissionRefused):
    """The payload's UTF-8 JSON is `size` bytes, more than `limit`."""

    def __init__(self, *, size: int, limit: int, job_type: str | None = None) -> None:
        super().__init__(_too_large("payload", size, limit, job_type))
        self.size = size
        self.limit = limit
        self.job_type = job_type


class IdempotencyConflict(SubmissionRefused):
    """`key` already names job `job_id`, which has another payload; both submitters are named."""

    def __init__(self, *, job_id: UUID, key: str, submitted_by: str, first_submitted_by: str) -> None:
        super().__init__(
            f"key {key!r} was first used by {first_submitted_by!r} for job {job_id} with another payload, "
            f"and now by {submitted_by!r}; use another key for another job"
        )
        self.job_id = job_id
        self.key = key
        self.submitted_by = submitted_by
        self.first_submitted_by = first_submitted_by


class KeyInFlight(SubmissionRefused):
    """Another open transaction has submitted the same key and has not ended within 2 s."""

    def __init__(self, *, key: str, job_type: str | None = None) -> None:
        super().__init__(
            f"key {key!r}{_of(job_type)} is held by another open transaction; submit again when it has ended"
        )
        self.key = key
        self.job_type = job_type


# --- attempts and their transactions ------------------------------------------------------------


class WrongIsolation(BrokerjobsError):
    """A transaction given with `within=` has isolation `level` instead of READ COMMITTED."""

    def __init__(self, *, level: str) -> None:
        super().__init__(
            f"the transaction given with within= is {level.upper()}; it must be READ COMMITTED, because its "
            "check must see what other transactions committed meanwhile: open it with "
            "`BEGIN ISOLATION LEVEL READ COMMITTED` (SQLAlchemy: "
            '`connection.execution_options(isolation_level="READ COMMITTED")`)'
        )
        self.level = level


class StaleAttempt(BrokerjobsError):
    """The attempt is not the current one of its job; roll back, its writes must not be committed."""

    def __init__(self, *, job_id: UUID, attempt_id: UUID, fencing_number: int, reason: str) -> None:
        super().__init__(
            f"attempt {attempt_id} (fencing number {fencing_number}) of job {job_id} is not the current one: "
            f"{reason}; let this error pass, so that the transaction rolls back"
        )
        self.job_id = job_id
        self.attempt_id = attempt_id
        self.fencing_number = fencing_number
        self.reason = reason


class AlreadyReported(BrokerjobsError):
    """The attempt has made its one report; a second transaction's writes must be rolled back."""

    def __init__(self, *, job_id: UUID, attempt_id: UUID) -> None:
        super().__init__(
            f"attempt {attempt_id} of job {job_id} has already reported; let this error pass, so that the writes "
            "of this transaction roll back: those of the first one may stand"
        )
        self.job_id = job_id
        self.attempt_id = attempt_id


class ResultMissing(BrokerjobsError):
    """A completing transaction came to its end without `tx.complete(result)`; it was rolled back."""

    def __init__(self, *, job_id: UUID, attempt_id: UUID) -> None:
        super().__init__(
            f"the transaction of attempt {attempt_id} of job {job_id} ended without a result and was rolled back; "
            "call `tx.complete(result)` in it, or open it with `ctx.transaction(complete=False)`"
        )
        self.job_id = job_id
        self.attempt_id = attempt_id


class InvalidResult(BrokerjobsError):
    """The result is not one that its job type declares; `path` is like `items[3].price`, "" for the whole."""

    def __init__(self, *, path: str, problem: str, job_type: str | None = None) -> None:
        super().__init__(f"result{_of(job_type)} is invalid{_at(path)}: {problem}")
        self.path = path
        self.problem = problem
        self.job_type = job_type


class ResultTooLarge(BrokerjobsError):
    """The result's UTF-8 JSON is `size` bytes, more than `limit`."""

    def __init__(self, *, size: int, limit: int, job_type: str | None = None) -> None:
        super().__init__(_too_large("result", size, limit, job_type))
        self.size = size
        self.limit = limit
        self.job_type = job_type


# --- asking about a job -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptError:
    """How one attempt ended without an accepted result; both times are the ledger's, aware, in UTC."""

    number: int
    attempt_id: UUID
    worker: str
    # A plain string, one of `rules.failures.FailureClass`: a newer ledger may know more classes.
    failure_class: str
    error_type: str
    message: str
    claimed_at: datetime
    ended_at: datetime | None


class JobNotFound(BrokerjobsError):
    """The ledger has no such job (any more)."""

    def __init__(self, *, job_id: UUID | str) -> None:
        super().__init__(f"the ledger has no job {job_id}; it may never have been submitted, or be past its retention")
        self.job_id = job_id


class JobFailed(BrokerjobsError):
    """The job ended `failed`: its class, the reason, and every attempt with its error."""

    def __init__(
        self, *, job_id: UUID, failure_class: str, reason: str, attempts: tuple[AttemptError, ...] = ()
    ) -> None:
        tried = f" after {len(attempts)} attempt{'' if len(attempts) == 1 else 's'}" if attempts else ""
        super().__init__(f"job {job_id} failed ({failure_class}){tried}: {reason}")
        self.job_id = job_id
        self.failure_class = failure_class
        self.reason = reason
        self.attempts = attempts


class JobCancelled(BrokerjobsError):
    """The job was cancelled; `reason` is what the one who cancelled it said."""

    def __init__(self, *, job_id: UUID, reason: str = "") -> None:
        super().__init__(f"job {job_id} was cancelled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason


class InReview(BrokerjobsError):
    """The outcome of the job is unknown and waits for a decision; it may still end either way."""

    def __init__(self, *, job_id: UUID, reason: str = "") -> None:
        super().__init__(
            f"job {job_id} is in review, its outcome is unknown{f': {reason}' if reason else ''}; "
            f"look at `brokerjobs jobs show {job_id}` and do not submit it again"
        )
        self.job_id = job_id
        self.reason = reason


class ResultTimeout(BrokerjobsError):
    """The job had not ended within `timeout`; it goes on, and its handle can be asked again."""

    def __init__(self, *, job_id: UUID, timeout: timedelta, state: str = "") -> None:
        super().__init__(
            f"job {job_id} had not ended after {timeout.total_seconds():g} s"
            f"{f' (it is {state})' if state else ''}; it goes on, ask its handle again later"
        )
        self.job_id = job_id
        self.timeout = timeout
        self.state = state


class RefusedMove(BrokerjobsError):
    """The job is `state`, from which `move` (cancel, replay …) is not allowed; nothing was changed."""

    def __init__(self, *, job_id: UUID, state: str, move: str = "cancel") -> None:
        super().__init__(f"job {job_id} is {state}; {move} is not possible any more and nothing was changed")
        self.job_id = job_id
        self.state = state
        self.move = move


# --- raised by handlers -------------------------------------------------------------------------


class HandlerSignal(BrokerjobsError):
    """Raised by a handler to say how its attempt ended; counts as classified by its type."""


class TemporaryFailure(HandlerSignal):
    """Try again later; not before `retry_after`, which is kept within zero and one year."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        # Often computed from another service's header: a value out of bounds must not hide the failure itself.
        bounded = None if retry_after is None else min(max(retry_after, timedelta(0)), timedelta(days=365))
        self.retry_after = bounded


class InvalidJob(HandlerSignal):
    """The job can never succeed as submitted: fail it at once."""


class PolicyRejected(HandlerSignal):
    """This worker may not run the job: find a qualified one, or stop."""


class UnknownOutcome(HandlerSignal):
    """Something outside may or may not have happened: a person decides (review)."""


class Snooze(HandlerSignal):
    """Not yet: run the job again at `until` (aware); the attempt is not charged, within bounds."""

    def __init__(self, until: datetime) -> None:
        if until.utcoffset() is None:
            raise ValueError(f"Snooze(until={until!r}) has no time zone; give an aware datetime, such as UTC")
        super().__init__(f"snoozed until {until.isoformat()}")
        self.until = until


def _of(job_type: str | None) -> str:
    return f" of job type {job_type!r}" if job_type else ""


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _too_large(what: str, size: int, limit: int, job_type: str | None) -> str:
    return (
        f"{what}{_of(job_type)} is {size} bytes of JSON, {size - limit} over the limit of {limit}; "
        "keep large data in object storage (an artifact) and give its name instead"
    )
