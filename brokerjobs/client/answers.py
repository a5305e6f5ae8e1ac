"""What the ledger answers to a submission, as a value or as the error that says what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerjobs.broker import codec
from brokerjobs.errors import (
    ExpiredRecord,
    IdempotencyConflict,
    KeyInFlight,
    PayloadTooLarge,
    SubmissionRefused,
    UnknownJobType,
)
from brokerjobs.rules.verdicts import SubmitVerdict
from brokerjobs.telemetry import metrics

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.inquiries import NewJob, Submitted


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose submission it is, for the errors."""

    job_type: JobType[Any, Any]
    submitted_by: str


def accepted(asker: Asker, job: NewJob, answer: Submitted) -> UUID:
    """The job that a submission is, its own or an earlier one. Raises the refusal that the ledger's verdict says."""
    name = asker.job_type.name
    metrics.submitted(name, answer.verdict)
    detail: dict[str, Any] = json.loads(answer.detail) if answer.detail else {}
    match SubmitVerdict(answer.verdict):
        case SubmitVerdict.CREATED:
            return job.id
        case SubmitVerdict.EXISTING:
            return _job_id(answer)
        case SubmitVerdict.CONFLICT:
            raise IdempotencyConflict(
                job_id=_job_id(answer),
                key=job.key or "",
                submitted_by=asker.submitted_by,
                first_submitted_by=detail.get("first_submitted_by", "unknown"),
            )
        case SubmitVerdict.EXPIRED_RECORD:
            raise ExpiredRecord(
                job_id=_job_id(answer),
                job_type=name,
                key=job.key or "",
                first_submitted_by=detail.get("first_submitted_by", "unknown"),
            )
        case SubmitVerdict.KEY_IN_FLIGHT:
            raise KeyInFlight(job_type=name, key=job.key or "")
        case SubmitVerdict.UNKNOWN_TYPE:
            raise UnknownJobType(namespace=asker.job_type.namespace, job_type=name)
        case SubmitVerdict.INVALID if detail.get("problem") == "payload_too_large":
            raise PayloadTooLarge(job_type=name, size=detail["size"], limit=detail["limit"])
        case SubmitVerdict.INVALID:
            message = f"job type {name!r}: {detail.get('problem')}; nothing was recorded"
            raise SubmissionRefused(message)


def doorbell(job_type: JobType[Any, Any], job: NewJob, answer: Submitted) -> Outgoing | None:
    """The first ring of a job that was just made, None if it has none or somebody else rings it."""
    if answer.ticket is None or answer.route is None:
        return None
    return codec.doorbell(
        ticket=answer.ticket,
        job_id=job.id,
        namespace=job_type.namespace,
        route=answer.route,
        traceparent=job.traceparent,
    )


def _job_id(answer: Submitted) -> UUID:
    if answer.job_id is None:
        message = f"the ledger answered {answer.verdict!r} without a job"
        raise AssertionError(message)
    return answer.job_id
