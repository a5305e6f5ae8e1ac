"""One granted attempt in this process: what the ledger said, and how its lease has fared."""

from __future__ import annotations

import enum
import math
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from brokerjobs.handlers import RunsIn
from brokerjobs.ledger.calls import Holding, LeaseFigures, Report
from brokerjobs.telemetry.attempts import NOTHING, AttemptSpan

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from datetime import datetime

    from brokerjobs.broker.protocol import Delivery
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.calls import Claimed
    from brokerjobs.worker.stopping import Stop


class Lease(enum.Enum):
    """What the ledger last said about the lease."""

    HELD = "held"
    LOST = "lost"


class Child(Protocol):
    """The process that runs a handler."""

    def tell(self, why: Stop) -> None:
        """Lets `ctx.check()` raise there."""
        ...

    def kill(self) -> None:
        """Ends it at once."""
        ...


def _no() -> bool:
    return False


class Attempt:
    """Written by the event loop and by the lease keeper's thread; the lease's figures are guarded by a lock."""

    # Of few attempts, so not set for each.
    stop: Stop | None = None
    """Why its handler was told to stop."""
    child: Child | None = None
    """The process that runs its handler."""
    abandoned = False
    """Its task ignored that it was told to stop: the attempt has ended, what the task still says is evidence."""
    reporting: asyncio.Task[Any] | None = None
    """The report of an abandoned attempt."""
    waits = False
    """It waits for quantities that its submission added; its handler has not begun."""
    given_back = False
    """It was released because the worker's drain limit had come."""
    cancel_told = False
    """The ledger said that a cancel is wanted, and the event loop has been told."""
    deadline_at: float | None = None
    """When the job's deadline has surely passed (seconds, monotonic): counted from the answer to the claim."""

    span: AttemptSpan = NOTHING
    """What is told of it to whoever traces."""

    def __init__(self, claimed: Claimed, delivery: Delivery, job_type: JobType[Any, Any], asked_at: float) -> None:
        self.claimed = claimed
        self.runs_in = RunsIn.TASK if job_type.handled_by is None else job_type.handled_by.runs_in
        self.delivery = delivery
        self.job_type = job_type
        self.holding = Holding(claimed.job_id, claimed.attempt_id, claimed.fencing_number)
        self.started_at: datetime | None = None
        self.task: asyncio.Task[None] | None = None
        self.thread: asyncio.Future[Any] | None = None
        """Where a sync handler runs: it may go on after the attempt has ended."""
        self.is_ending: Callable[[], bool] = _no
        """Is its report under way? Then a renewal that finds it gone says nothing new."""
        self.has_ended = False
        """Its handler has ended: only the report is left, which nothing may interrupt."""
        self.acked_on_claim = False
        self.lease = Lease.HELD
        self.lease_seconds = claimed.lease_seconds
        self.began_at = asked_at
        """When its handler began, or may have (seconds, monotonic)."""
        self.keep_until = asked_at + claimed.time_limit_seconds
        """Renewing stops at the time limit, whatever the handler does (seconds, monotonic)."""
        if claimed.deadline is not None and claimed.until is not None:
            left = claimed.deadline - (claimed.until - timedelta(seconds=claimed.lease_seconds))
            self.deadline_at = time.monotonic() + left.total_seconds()
        self._lock = threading.Lock()
        self._asked_at = asked_at
        self._trusted_until = asked_at + claimed.lease_seconds
        self._renewals = 0
        self._smallest_margin: float | None = None
        self._longest_round_trip: float | None = None

    @property
    def age_seconds(self) -> float:
        """Since its claim was asked for."""
        return time.monotonic() - self._asked_at

    def must_wait(self) -> None:
        """Its handler begins later: its lease is kept without a limit until then."""
        self.waits = True
        self.keep_until = math.inf

    def begin(self) -> None:
        """It has waited; the time limit counts from now."""
        self.waits = False
        self.began_at = time.monotonic()
        self.keep_until = self.began_at + self.claimed.time_limit_seconds

    def cancel_task(self) -> None:
        """Cancels the task that runs it."""
        if self.task is not None:
            self.task.cancel()

    @property
    def runs_on(self) -> bool:
        """Does its handler go on, though the attempt has ended?"""
        return self.abandoned or (self.thread is not None and not self.thread.done())

    @property
    def waits_for_process(self) -> bool:
        """Is there no process yet that could run its handler? Then nothing of it has been done."""
        return self.runs_in is RunsIn.PROCESS and self.child is None

    @property
    def trusted_until(self) -> float:
        """Until when the lease may be trusted (seconds, monotonic); the past once it is lost."""
        with self._lock:
            return self._trusted_until if self.lease is Lease.HELD else 0.0

    def is_trusted(self, now: float | None = None) -> bool:
        """May the lease still be trusted on this process's own monotonic clock?"""
        with self._lock:
            return self.lease is Lease.HELD and (time.monotonic() if now is None else now) < self._trusted_until

    def renewed(self, sent_at: float, answered_at: float, lease_seconds: float) -> float:
        """Counts a renewal; the lease is trusted from before the request was sent. Answers how much of it was left."""
        with self._lock:
            margin = self._trusted_until - answered_at
            self._renewals += 1
            self._smallest_margin = margin if self._smallest_margin is None else min(self._smallest_margin, margin)
            round_trip = answered_at - sent_at
            self._longest_round_trip = (
                round_trip if self._longest_round_trip is None else max(self._longest_round_trip, round_trip)
            )
            self._trusted_until = max(self._trusted_until, sent_at + lease_seconds)
            return margin

    def lost(self) -> None:
        """The ledger says that this attempt is no longer the running one: it may finish and report."""
        with self._lock:
            self.lease = Lease.LOST

    def report(self, body: str, observed_at: datetime) -> Report:
        """What is said of the attempt at its end, with how its lease fared."""
        lease = self.lease_figures()
        return Report(
            self.holding,
            body,
            observed_at,
            lease.started_at,
            lease.renewals,
            lease.smallest_margin_seconds,
            lease.longest_round_trip_seconds,
        )

    def lease_figures(self) -> LeaseFigures:
        """How the lease has fared until now."""
        with self._lock:
            return LeaseFigures(self.started_at, self._renewals, self._smallest_margin, self._longest_round_trip)
