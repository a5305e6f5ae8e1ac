"""What the ledger answers, one word a row: the strings that its SQL functions return."""

from __future__ import annotations

from enum import StrEnum


class SubmitVerdict(StrEnum):
    """Answer to one submission."""

    CREATED = "created"
    EXISTING = "existing"  # same key, same payload: the job that is already there
    CONFLICT = "conflict"  # same key, other payload
    KEY_IN_FLIGHT = "key_in_flight"  # another open transaction holds the key
    EXPIRED_RECORD = "expired_record"  # same key, same payload: its job has ended, retention has removed its record
    UNKNOWN_TYPE = "unknown_type"
    INVALID = "invalid"


class ClaimVerdict(StrEnum):
    """Answer to one claim; everything but `granted`, `locked` and `again` is acked at once (R4)."""

    GRANTED = "granted"
    LOCKED = "locked"  # no answer: the row is busy, the claim goes into the next batch
    AGAIN = "again"  # no answer: the batch was full (bytes), the claim goes into the next one
    UNKNOWN_JOB = "unknown_job"
    WRONG_ROUTE = "wrong_route"  # the job does not belong to the route that it came by
    NO_HANDLER = "no_handler"
    FINISHED = "finished"
    HELD = "held"  # another attempt has a live lease
    NOT_DUE = "not_due"
    PAUSED = "paused"  # its type or its queue is paused: it is parked, and a resume rings it
    RESOURCE = "resource"  # a resource that it needs is held: it stands in the line, and is rung when it is its turn
    REVIEW = "review"
    LOST = "lost"  # this attempt id was granted before and has lost its lease since


class StartVerdict(StrEnum):
    """Answer to the recorded start of an attempt whose type is not repeatable."""

    STARTED = "started"
    LOST = "lost"
    CANCEL_REQUESTED = "cancel_requested"
    LOCKED = "locked"


class RenewVerdict(StrEnum):
    """Answer to one renewal."""

    KEPT = "kept"
    LOST = "lost"
    CANCEL_REQUESTED = "cancel_requested"
    LOCKED = "locked"


class ReportVerdict(StrEnum):
    """Answer to what an attempt reports: a result, a failure or a release."""

    ACCEPTED = "accepted"  # the result is the job's result
    RECORDED = "recorded"  # a failure or release took effect
    REJECTED = "rejected"  # kept as evidence, with a RejectReason
    ALREADY_REPORTED = "already_reported"  # a second, different report: kept as evidence
    LOCKED = "locked"  # no answer: ask again


class IntentVerdict(StrEnum):
    """Answer to an attempt that asks for permission to do an effect."""

    GRANTED = "granted"
    HAPPENED = "happened"  # before: its result is answered
    UNKNOWN = "unknown"  # it may have happened: the job goes to review
    LOST = "lost"  # the attempt is not the running one, or may not go on
    TOO_LONG = "too_long"  # the call may take longer than the lease
    LOCKED = "locked"  # no answer: ask again


class OutcomeVerdict(StrEnum):
    """Answer to what an attempt says of an effect."""

    RECORDED = "recorded"
    CONTRADICTS = "contradicts"  # another outcome was recorded: kept as evidence, and looked at
    NO_INTENT = "no_intent"  # this attempt was never granted it: kept as evidence
    LOCKED = "locked"  # no answer: ask again


class StageVerdict(StrEnum):
    """Answer to an attempt that is about to upload an artifact."""

    STAGED = "staged"  # its object's path is answered
    LOST = "lost"  # the attempt's result cannot be accepted any more
    NAME_USED = "name_used"  # another artifact of the attempt is ready under this name
    UNKNOWN_JOB = "unknown_job"


class ReadyVerdict(StrEnum):
    """Answer to an upload that is whole."""

    READY = "ready"
    DIFFERS = "differs"  # it was ready before, with another size or hash
    DISCARDED = "discarded"  # it was given up before: its object is swept
    NAME_USED = "name_used"  # another one was ready first under its name: this one is given up
    UNKNOWN = "unknown"


class AcknowledgeVerdict(StrEnum):
    """Answer to a consumer that has a copy of an artifact."""

    ACKNOWLEDGED = "acknowledged"
    HASH_DIFFERS = "hash_differs"  # its copy is another one: nothing is noted
    NOT_READY = "not_ready"
    NOT_ACCEPTED = "not_accepted"  # it is not part of its job's result
    UNKNOWN = "unknown"


class MismatchVerdict(StrEnum):
    """Answer to a consumer that has found another staged copy than was recorded."""

    NOTED = "noted"
    MATCHES = "matches"  # size and hash are the recorded ones
    REMOVED = "removed"  # it is about to be removed, or is: nothing is wrong
    NOT_ACCEPTED = "not_accepted"  # its attempt may still be accepted: nothing is noted
    UNKNOWN = "unknown"


class ObjectVerdict(StrEnum):
    """What the ledger knows of an object that was found in a store."""

    KNOWN = "known"
    REMOVED = "removed"  # its row says that it is gone: it is deleted again
    ORPHAN = "orphan"  # there is no row: recorded


class RejectReason(StrEnum):
    """Why a report was rejected."""

    NEWER_ATTEMPT = "newer_attempt"
    RESOURCE_TAKEN = "resource_taken"
    JOB_SUCCEEDED = "job_succeeded"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    DEADLINE = "deadline"
    UNKNOWN_EFFECT = "unknown_effect"  # what became of an effect that may not be repeated is unknown
    ARTIFACT_NOT_READY = "artifact_not_ready"  # it names an artifact that is not ready, or not its own
    RELEASED = "released"
    DECIDED = "decided"
    UNKNOWN_ATTEMPT = "unknown_attempt"
    UNKNOWN_JOB = "unknown_job"
    ALREADY_REPORTED = "already_reported"  # of a second, different report
