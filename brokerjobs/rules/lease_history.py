"""What an attempt that has ended says of leases: how long it was silent, and how late its renewals came.

All times are seconds.  `interval` is how long after a renewal the next one was due; workers do not record it, so it is
learned from the attempts themselves (`share_of_lease`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

THIRD: Final = 1 / 3  # of its lease, after which a worker renews if nobody says otherwise
_LEAST_SHARE: Final = 1e-6  # an effect may have its lease lengthened right after the claim: that is no interval
_JITTER: Final = 0.1  # by which the worker lets an interval vary


class Fate(StrEnum):
    """What became of an attempt's lease."""

    ENDED = "ended"
    """It reported before its lease was given up."""
    FALSE_EXPIRY = "false_expiry"
    """Its lease was given up, and its report came all the same: the worker lived."""
    PAST_LIMIT = "past_limit"
    """Its lease was given up after renewing had stopped at its time limit: no other lease would have kept it."""
    SILENT = "silent"
    """Its lease was given up, and nothing was heard of it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """An attempt that has reported or was given up; what counts from the claim is by the ledger's clock."""

    lease: float
    time_limit: float
    granted: float
    """From the claim to the last renewal that the ledger granted, 0 without one."""
    closed: float
    """From the claim to its end, or to when its lease was given up."""
    reported: float | None
    """From the claim to its report; None if none came."""
    lost: bool
    """Its lease was given up."""
    handler: float | None = None
    """How long its handler ran, by its worker's clock; None if that is not known."""
    renewals: int | None = 0
    """None: not told."""
    smallest_margin: float | None = None
    """What was left of the lease when the answer to the latest of its renewals came, by its worker's clock."""
    longest_round_trip: float | None = None
    completed: bool = False
    """Its report was a result."""
    limited: bool = False
    """It was ended by its time limit."""

    def fate(self, interval: float) -> Fate:
        """What became of its lease."""
        if not self.lost:
            return Fate.ENDED
        if self.renewing_stopped(interval):
            return Fate.PAST_LIMIT
        return Fate.SILENT if self.reported is None else Fate.FALSE_EXPIRY

    def renewing_stopped(self, interval: float) -> bool:
        """May its next renewal have been due after its time limit, when workers renew no more?"""
        return self.granted + interval * (1 + _JITTER) >= self.time_limit

    @property
    def life(self) -> float:
        """From the claim to the last that was heard of it."""
        return self.granted if self.reported is None else self.reported

    @property
    def duration(self) -> float:
        """How long its handler ran; by the ledger's clock, from the claim on, if its worker's does not tell."""
        return self.life if self.handler is None or self.handler < 0 else self.handler  # clocks are set back at times

    def delay(self, interval: float) -> float | None:
        """By how much the latest sign of life came after it was due, of an attempt that ended.

        None if nothing is known of that: it ended before a renewal was due, or its renewals were not told.  The jitter
        of intervals counts as delay, so it is rather too long than too short.
        """
        if self.renewals is None or self.reported is None:
            return None
        silences: list[float] = []
        if self.renewals and self.smallest_margin is not None:
            silences.append(self.lease - self.smallest_margin)
        last = self.reported - self.granted
        if last > interval and not self.renewing_stopped(interval):
            silences.append(last)
        return max(0.0, max(silences) - interval) if silences else None


def share_of_lease(attempts: Sequence[PastAttempt]) -> float | None:
    """After which part of their leases workers renew: the median over attempts that renewed; None without one.

    The median, since a worker that stood still makes the mean of its own attempt longer.
    """
    shares = [one.granted / one.renewals / one.lease for one in attempts if one.renewals and one.granted > 0]
    return min(1.0, max(_LEAST_SHARE, median(shares))) if shares else None


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles by the nearest rank, in seconds; None where there are too few values for one."""

    count: int
    p50: float | None
    p99: float | None
    p999: float | None
    longest: float | None


def spread(values: Sequence[float]) -> Spread:
    """The percentiles of some values; one beyond which no value could lie is not given."""
    ordered = sorted(values)
    count = len(ordered)
    return Spread(
        count,
        ordered[math.ceil(count * 0.5) - 1] if count else None,
        ordered[math.ceil(count * 0.99) - 1] if count >= 100 else None,  # one in a hundred
        ordered[math.ceil(count * 0.999) - 1] if count >= 1000 else None,  # one in a thousand
        ordered[-1] if count else None,
    )


def all_but(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at most this share of them is above; 0 if there are none."""
    ordered = sorted(values, reverse=True)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
