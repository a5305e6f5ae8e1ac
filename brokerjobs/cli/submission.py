"""What `brokerjobs submit` does: one submission to the ledger, and waiting for what becomes of it."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from uuid_utils.compat import uuid7

from brokerjobs.app import App
from brokerjobs.cli import payloads
from brokerjobs.client import questions
from brokerjobs.client.answers import Asker, accepted
from brokerjobs.errors import (
    InReview,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LedgerUnavailable,
    LoginRefused,
    PayloadTooLarge,
    ResultTimeout,
    SubmissionRefused,
)
from brokerjobs.job_type import PAYLOAD_LIMIT, JobType, Submission
from brokerjobs.ledger import inquiries, records
from brokerjobs.ledger.database import ConnectOptions, DataRefused, LedgerConnection
from brokerjobs.rules.states import FINISHED, JobState

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.ledger.inquiries import NewJob, Outcome

AnyJobType = JobType[Any, Any]

_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.2
_FIRST_POLL_SECONDS: Final = 0.05
_LONGEST_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the command line asks for."""

    job_type: AnyJobType
    checked: bool
    submission: Submission[str]
    submitted_by: str


@dataclass(frozen=True, slots=True)
class Made:
    """The job that the submission is; `existing` says who submitted it first, and when, if not this submission."""

    job_id: UUID
    existing: dict[str, str] | None


@contextmanager
def ledger_at(url: str) -> Generator[LedgerConnection]:
    """A connection to the ledger, made when it is first used."""
    ledger = LedgerConnection(ConnectOptions(url, application="brokerjobs submit"))
    try:
        yield ledger
    finally:
        ledger.close()


def unchecked_type(namespace: str, name: str) -> AnyJobType:
    """A job type of which only the name is known: it takes any JSON.  Raises ConfigurationError for a wrong name."""
    return App(namespace).job_type(name, cast("type[Any]", Any), cast("type[Any]", Any), repeatable=False)


def new_job(order: Order) -> NewJob:
    """The submission with its id and checked payload; raises UsageError, InvalidPayload, PayloadTooLarge."""
    submission, job_type = order.submission, order.job_type
    text = submission.payload
    value = payloads.value_of(text)
    if order.checked:
        text = job_type.encode_payload(job_type.decode_payload(text)).decode()
    else:
        # As it was written: numbers keep their digits.  Encoding it says what PostgreSQL could not store.
        if (size := len(text.encode())) > PAYLOAD_LIMIT:
            raise PayloadTooLarge(job_type=job_type.name, size=size, limit=PAYLOAD_LIMIT)
        job_type.encode_payload(value)
    return inquiries.NewJob(
        id=uuid7(),
        payload=text,
        key=submission.key,
        tags=submission.tags,
        not_before=submission.not_before,
        deadline=submission.deadline,
        traceparent=None,
        priority=submission.priority,
        needs=submission.needs,
    )


def submit(ledger: LedgerConnection, order: Order) -> Made:
    """Submit it, again with the same id if no answer came; raises as `Client.submit`."""
    job = new_job(order)
    batch = inquiries.SubmitBatch(
        namespace=order.job_type.namespace,
        type=order.job_type.name,
        submitted_by=order.submitted_by,
        fingerprint=order.job_type.fingerprint if order.checked else None,
        observed_at=datetime.now(UTC),
        announced=False,
        jobs=[job],
    )
    try:
        answer = _answered(ledger, batch)
    except DataRefused as error:
        message = f"job type {order.job_type.name!r}: the ledger refused a value: {error}"
        raise SubmissionRefused(message) from error
    job_id = accepted(Asker(order.job_type, order.submitted_by), job, answer)
    existing = json.loads(answer.detail or "{}") if answer.verdict == "existing" else None
    return Made(job_id, existing)


def pause_of(ledger: LedgerConnection, job_id: UUID) -> dict[str, Any] | None:
    """Who paused the type of a job that waits for that, and why; None if it does not, or nobody can say just now."""
    try:
        standings = ledger.fetch(inquiries.status([job_id]))
    except LedgerUnavailable:
        return None
    return next((one.wait_detail for one in standings if one.waiting == "pause"), None)


def _answered(ledger: LedgerConnection, batch: inquiries.SubmitBatch) -> inquiries.Submitted:
    for left in reversed(range(_TRIES)):
        try:
            [answer] = ledger.fetch(inquiries.submit(batch))
        except LedgerUnavailable as error:
            if not left or isinstance(error, LoginRefused):
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return answer
    raise AssertionError("unreachable: the last try returns or raises")


def outcome_of(ledger: LedgerConnection, job_id: UUID, timeout: timedelta) -> Outcome:
    """What ended the job or put it into review; raises ResultTimeout, JobNotFound."""
    end = time.monotonic() + timeout.total_seconds()
    pause, standing = _FIRST_POLL_SECONDS, "in an unknown state"
    while True:
        try:
            rows = ledger.fetch(inquiries.results([job_id]))
        except LedgerUnavailable:
            standing = "in an unknown state"
        else:
            if not rows:
                raise JobNotFound(job_id=job_id)
            [outcome] = rows
            if outcome.state in FINISHED or outcome.state == JobState.REVIEW:
                return outcome
            standing = f"{outcome.state} ({outcome.waiting})" if outcome.waiting else outcome.state
        left = end - time.monotonic()
        if left <= 0:
            raise ResultTimeout(job_id=job_id, timeout=timeout, state=standing)
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_POLL_SECONDS)


def check_success(outcome: Outcome) -> None:
    """Raise JobFailed, JobCancelled or InReview unless the job succeeded; DecidedByPerson if it has no known result."""
    reason = outcome.reason or ""
    if decided := questions.decision_without_result(outcome):
        raise decided
    match JobState(outcome.state):
        case JobState.FAILED:
            raise JobFailed(
                job_id=outcome.job_id,
                failure_class=outcome.failure_class or "",
                reason=reason,
                attempts=records.attempt_errors(outcome.attempts or ()),
            )
        case JobState.CANCELLED:
            raise JobCancelled(job_id=outcome.job_id, reason=reason)
        case JobState.REVIEW:
            raise InReview(job_id=outcome.job_id, reason=reason)
        case JobState.SUCCEEDED | JobState.QUEUED | JobState.RUNNING:
            return
