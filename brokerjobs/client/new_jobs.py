"""Submissions made ready for the ledger: ids, encoded payloads, trace context, order and batches."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from uuid_utils.compat import uuid7

from brokerjobs.errors import SubmissionRefused
from brokerjobs.job_type import JobType, Submission
from brokerjobs.ledger.group_commit import MAX_BYTES, MAX_ROWS
from brokerjobs.ledger.inquiries import NewJob
from brokerjobs.rules import texts
from brokerjobs.telemetry import spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

P = TypeVar("P")

# The ledger refuses what is more than a year ahead, and says so; an interval beyond its range it could not even read.
_FARTHEST: Final = timedelta(days=1_000)


def new_job(job_type: JobType[P, Any], submission: Submission[P]) -> NewJob:
    """One submission with its id; raises InvalidPayload or PayloadTooLarge, SubmissionRefused for what is none."""
    _check(job_type, submission)
    payload, job_id = job_type.encode_payload(submission.payload).decode(), uuid7()
    creation = spans.create(job_type.namespace, job_type.name, job_id)
    return NewJob(
        id=job_id,
        payload=payload,
        key=submission.key,
        tags=submission.tags,
        not_before=_within_range(submission.not_before),
        deadline=_within_range(submission.deadline),
        traceparent=creation.traceparent,
        priority=submission.priority,
        needs=submission.needs,
        creation=creation,
    )


def new_jobs(job_type: JobType[P, Any], submissions: Sequence[Submission[P]]) -> Iterator[NewJob]:
    """All submissions with their ids, one after the other; raises as `new_job`, naming the place."""
    for place, submission in enumerate(submissions):
        try:
            yield new_job(job_type, submission)
        except SubmissionRefused as refused:
            note_place(refused, place, len(submissions))
            raise


def note_place(refused: SubmissionRefused, place: int, total: int) -> None:
    """Notes on a refusal which of many submissions it is about."""
    refused.add_note(f"submission {place + 1} of {total}; none of them was recorded")


def key_order(jobs: Sequence[NewJob]) -> list[int]:
    """Their places in the order of their keys: statements that share keys wait for each other, without deadlock."""
    return sorted(range(len(jobs)), key=lambda place: jobs[place].key or "")


def batches(jobs: Sequence[NewJob]) -> Iterator[list[int]]:
    """Their places in the order of their keys, in statements bounded by rows and bytes."""
    batch: list[int] = []
    size = 0
    for place in key_order(jobs):
        size += len(jobs[place].payload)
        if batch and (len(batch) == MAX_ROWS or size > MAX_BYTES):
            yield batch
            batch, size = [], len(jobs[place].payload)
        batch.append(place)
    if batch:
        yield batch


def _check(job_type: object, submission: object) -> None:
    """Says what people hand in who come from libraries that go by names."""
    if not isinstance(job_type, JobType):
        message = f"{texts.shown(job_type)} is no job type; give what App.job_type(...) or @App.job(...) made"
        raise SubmissionRefused(message)
    if not isinstance(submission, Submission):
        message = f"{texts.shown(submission)} is no Submission; write Submission(payload, key=...)"
        raise SubmissionRefused(message)


def _within_range(time: datetime | timedelta | None) -> datetime | timedelta | None:
    return max(-_FARTHEST, min(time, _FARTHEST)) if isinstance(time, timedelta) else time
