"""What telemetry reads of an attempt: the worker's own values fit these shapes, so that nothing is copied for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID


class Subject(Protocol):
    """The attempt that some code runs for."""

    @property
    def job_id(self) -> UUID:
        """Its job."""
        ...

    @property
    def attempt_id(self) -> UUID:
        """Its id."""
        ...

    @property
    def number(self) -> int:
        """1 for the first of a job."""
        ...

    @property
    def fencing_number(self) -> int:
        """Its fencing number."""
        ...

    @property
    def type(self) -> str:
        """The job type."""
        ...


class OtherSubject(NamedTuple):
    """A subject of which another process has told."""

    job_id: UUID
    attempt_id: UUID
    number: int
    fencing_number: int
    type: str


class Claim(Subject, Protocol):
    """What the ledger said of a granted claim."""

    @property
    def lease_seconds(self) -> float:
        """The lease."""
        ...

    @property
    def traceparent(self) -> str | None:
        """The context of the job's creation."""
        ...


class Arrival(Protocol):
    """The delivery by which a job was claimed."""

    @property
    def ticket(self) -> UUID:
        """The message's id."""
        ...

    @property
    def route(self) -> str:
        """The queue it came by."""
        ...

    @property
    def redelivered(self) -> bool:
        """Had it been delivered before?"""
        ...

    @property
    def tag(self) -> int:
        """Its number on its channel."""
        ...


class Answer(Protocol):
    """What the ledger said of a report."""

    @property
    def verdict(self) -> str:
        """A word of ReportVerdict."""
        ...

    @property
    def reason(self) -> str | None:
        """Why it was rejected."""
        ...

    @property
    def late(self) -> bool | None:
        """Did it come after the lease had been given up?"""
        ...

    @property
    def state(self) -> str | None:
        """The job's state after it."""
        ...

    @property
    def until(self) -> datetime | None:
        """When the next try may begin."""
        ...


class Said(NamedTuple):
    """An answer in short, as after a completing transaction: `Said("accepted")`."""

    verdict: str
    reason: str | None = None
    late: bool | None = None
    state: str | None = None
    until: datetime | None = None


class Failed(Protocol):
    """How a handler failed."""

    @property
    def failure_class(self) -> str:
        """A word of FailureClass."""
        ...

    @property
    def error_type(self) -> str:
        """The name of the exception's type."""
        ...


class Particulars(NamedTuple):
    """What is known of a claim besides; all of it may be left out."""

    previous: str | None = None
    """The `traceparent` of the attempt before."""
    since_submit: float | None = None
    """Seconds from the job's submission to now; unknown counts as long ago."""
    delayed: bool = False
    """Was the job to wait: a schedule, a snooze?"""
    waited: float | None = None
    """Seconds from when it could be claimed to now."""
    limit: int | None = None
    """How many attempts its terms allow."""
    needs: Sequence[str] = ()
    """As the job type declares them: filled in, a template would show a part of the payload."""
    key_hash: str | None = None
