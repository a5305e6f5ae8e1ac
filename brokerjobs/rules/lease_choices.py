"""What another lease, or another time limit, would have meant for attempts that have ended.

An attempt keeps its lease if it reports before the lease ends, or if its renewals come in time: its delays would have
been the same, counted from when renewals would have been due.  All times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from brokerjobs.rules.lease_history import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerjobs.rules.lease_history import PastAttempt

_ROUNDING: Final = 1e-6  # the ledger counts microseconds
PER_THOUSAND: Final = 1000


@dataclass(frozen=True, slots=True)
class LeaseChoice:
    """A lease and its renewal interval, and what they would have meant."""

    name: str
    lease_seconds: float
    renewal_seconds: float
    false_expiries: int
    """Attempts that would surely have lost their lease while their worker lived."""
    possible: int
    """More of them, of which it is not recorded for how long they were silent."""
    unknown: int
    """Attempts that would have had to renew, and of whose delays nothing is recorded."""
    recovery_mean_seconds: float
    """From the death of a worker to when its attempts are given up."""
    recovery_longest_seconds: float
    renewals_per_attempt: float
    renewals_per_second: float
    """For each thousand attempts that run."""


@dataclass(frozen=True, slots=True)
class LimitChoice:
    """A time limit, and how many of the attempts that completed it would have cut short."""

    name: str
    time_limit_seconds: float
    cut: int


@dataclass(frozen=True, slots=True)
class Detection:
    """How long after its end a lease is given up."""

    usual: float
    longest: float


@dataclass(frozen=True, slots=True)
class Replay:
    """Attempts that have ended, to be looked at under other leases."""

    attempts: Sequence[PastAttempt]
    share: float
    """After which part of their own leases they renewed."""
    detection: Detection

    def lease(self, name: str, lease: float, renewal: float) -> LeaseChoice:
        """What a lease that is renewed at an interval would have meant."""
        sure = possible = unknown = 0
        for one in self.attempts:
            match would_expire(one, lease, renewal, self.share * one.lease):
                case True:
                    sure += 1
                case None if one.lost:
                    possible += 1
                case None:
                    unknown += 1
                case False:
                    pass
        renewals = [one.life // renewal for one in self.attempts]
        return LeaseChoice(
            name=name,
            lease_seconds=lease,
            renewal_seconds=renewal,
            false_expiries=sure,
            possible=possible,
            unknown=unknown,
            # A worker dies somewhere between two renewals: on average half an interval of its lease has passed.
            recovery_mean_seconds=lease - renewal / 2 + self.detection.usual,
            recovery_longest_seconds=lease + self.detection.longest,
            renewals_per_attempt=sum(renewals) / len(renewals) if renewals else 0.0,
            renewals_per_second=PER_THOUSAND / renewal,
        )


def would_expire(one: PastAttempt, lease: float, renewal: float, interval: float) -> bool | None:
    """Would this lease have been given up while its worker lived? None if what is recorded does not tell.

    `interval` is that at which the attempt renewed, `renewal` that at which it would have renewed.
    """
    match one.fate(interval):
        case Fate.FALSE_EXPIRY if one.reported is not None:
            # It was silent for its whole lease at least, and at most until its report.
            if renewal + (one.lease - interval) >= lease - _ROUNDING:
                return True
            longest = one.reported - one.granted
            return None if renewal + (longest - interval) > lease + _ROUNDING and one.reported > lease else False
        case Fate.ENDED:
            if one.life <= lease:
                return False
            delay = one.delay(interval)
            return None if delay is None else renewal + delay > lease + _ROUNDING
        case _:
            return False


def of_limit(name: str, limit: float, durations: Iterable[float]) -> LimitChoice:
    """What a time limit would have meant for attempts that took so long and completed."""
    return LimitChoice(name, limit, sum(duration > limit for duration in durations))
