"""What submitting is, whoever runs it: the statements and their answers.

Ids are made before anything is sent, so that a submission whose reply was lost is asked again with the same id and is
the same job (rule R7).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from brokerjobs.client.answers import Asker, accepted, doorbell
from brokerjobs.client.new_jobs import batches, note_place
from brokerjobs.errors import LedgerUnavailable, LoginRefused, SubmissionRefused
from brokerjobs.ledger.database import DataRefused
from brokerjobs.ledger.inquiries import NewJob, SubmitBatch, Submitted, submit
from brokerjobs.telemetry.instruments import measuring

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.asking import Asking
    from brokerjobs.ledger.database import Query

AnyJobType: TypeAlias = "JobType[Any, Any]"


@dataclass(frozen=True, slots=True)
class Made:
    """The job that a submission is, with the doorbell that its handle has to ring, if it has one."""

    job_id: UUID
    doorbell: Outgoing | None = None


def statement(asker: Asker, jobs: Sequence[NewJob], *, announced: bool) -> Query[Submitted]:
    """One statement that submits all; `announced`: whoever submits rings himself."""
    measuring.look()
    job_type = asker.job_type
    return submit(
        SubmitBatch(
            namespace=job_type.namespace,
            type=job_type.name,
            submitted_by=asker.submitted_by,
            fingerprint=job_type.fingerprint,
            observed_at=datetime.now(UTC),
            announced=announced,
            jobs=jobs,
        )
    )


def one(asker: Asker, job: NewJob, *, announced: bool) -> Asking[Made]:
    """Submits one job."""
    [answer] = yield statement(asker, [job], announced=announced)
    return _made(asker, job, answer)


def every(asker: Asker, jobs: Sequence[NewJob], *, announced: bool) -> Asking[list[Made]]:
    """Submits all in the order given, or raises at the first that is refused: whoever runs it undoes the others."""
    made: dict[int, Made] = {}
    for batch in batches(jobs):
        answers = yield statement(asker, [jobs[place] for place in batch], announced=announced)
        for place, answer in zip(batch, answers, strict=True):
            try:
                made[place] = _made(asker, jobs[place], answer)
            except SubmissionRefused as refused:
                note_place(refused, place, len(jobs))
                raise
    return [made[place] for place in range(len(jobs))]


def _made(asker: Asker, job: NewJob, answer: Submitted) -> Made:
    return Made(accepted(asker, job, answer), doorbell(asker.job_type, job, answer))


@contextmanager
def creating(jobs: Sequence[NewJob]) -> Generator[Callable[[list[Made]], list[Made]]]:
    """Ends the spans of submissions: with what is given to the function it yields, or with the error."""

    def told(made: list[Made]) -> list[Made]:
        for job, one in zip(jobs, made, strict=True):
            if job.creation is not None:
                job.creation.answered("created" if one.job_id == job.id else "existing", one.job_id)
        return made

    try:
        yield told
    except BaseException as error:
        for job in jobs:
            if job.creation is not None:
                job.creation.failed(error)
        raise


@contextmanager
def telling(job_type: AnyJobType, what: str) -> Generator[None]:
    """Says of an error of the ledger what it means for the submission of `what`."""
    try:
        yield
    except DataRefused as error:
        raise SubmissionRefused(f"job type {job_type.name!r}: the ledger refused a value: {error}") from error
    except LoginRefused:
        raise
    except LedgerUnavailable as error:
        raise LedgerUnavailable(
            f"{what} may or may not have been submitted: {error}; submitting again is harmless with a key= alone"
        ) from error
