"""How far a clock is from the ledger's, told from one question and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Skew:
    """How far this clock is ahead of the ledger's (negative: behind), seconds, give or take `uncertainty`."""

    seconds: float
    uncertainty: float

    def is_over(self, limit: timedelta) -> bool:
        """Whether it is over the limit for certain."""
        return abs(self.seconds) - self.uncertainty > limit.total_seconds()


def skew_of(asked_at: datetime, round_trip_seconds: float, ledger_at: datetime) -> Skew:
    """The skew of the clock that said `asked_at`; the ledger read its own somewhere within the round trip."""
    half = round_trip_seconds / 2
    return Skew((asked_at + timedelta(seconds=half) - ledger_at).total_seconds(), half)
