"""One granted attempt in this process: what the ledger said, and how its lease has fared."""

from __future__ import annotations

import enum
import threading
import time
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger.calls import Holding, LeaseFigures, Report

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from datetime import datetime

    from brokerjobs.broker.protocol import Delivery
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.calls import Claimed


class Lease(enum.Enum):
    """What the ledger last said about the lease."""

    HELD = "held"
    LOST = "lost"


def _no() -> bool:
    return False


class Attempt:
    """Written by the event loop and by the lease keeper's thread; the lease's figures are guarded by a lock."""

    def __init__(self, claimed: Claimed, delivery: Delivery, job_type: JobType[Any, Any], asked_at: float) -> None:
        self.claimed = claimed
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
        self.draining = False
        """The task is cancelled because the worker's drain limit has come."""
        self.lease = Lease.HELD
        self.lease_seconds = claimed.lease_seconds
        self.keep_until = asked_at + claimed.time_limit_seconds
        """Renewing stops at the time limit, whatever the handler does (seconds, monotonic)."""
        self._lock = threading.Lock()
        self._asked_at = asked_at
        self._trusted_until = asked_at + claimed.lease_seconds
        self._renewals = 0
        self._smallest_margin: float | None = None
        self._longest_round_trip: float | None = None

    def is_trusted(self, now: float | None = None) -> bool:
        """May the lease still be trusted on this process's own monotonic clock?"""
        with self._lock:
            return self.lease is Lease.HELD and (time.monotonic() if now is None else now) < self._trusted_until

    def renewed(self, sent_at: float, answered_at: float, lease_seconds: float) -> None:
        """Counts a renewal; the lease is trusted from before the request was sent."""
        with self._lock:
            margin = self._trusted_until - answered_at
            self._renewals += 1
            self._smallest_margin = margin if self._smallest_margin is None else min(self._smallest_margin, margin)
            round_trip = answered_at - sent_at
            self._longest_round_trip = (
                round_trip if self._longest_round_trip is None else max(self._longest_round_trip, round_trip)
            )
            self._trusted_until = max(self._trusted_until, sent_at + lease_seconds)

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
