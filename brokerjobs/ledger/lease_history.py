"""What the ledger tells of how the leases of ended attempts fared: the query behind `brokerjobs lease advise`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from brokerjobs.ledger.database import Query
from brokerjobs.rules.lease_history import PastAttempt

if TYPE_CHECKING:
    from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many attempts are looked at, of whatever type."""

    newest: int = 20_000
    slices: int = 400
    """Spans of the time before the newest, where there are more."""
    each: int = 50
    """Of each of these."""


ALL: Final = Bounds()
ONE: Final = Bounds(newest=100_000, each=250)
"""A rare type has few attempts among those of all others, so more are looked at for one that is named."""


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """A registered job type, and a sample of its attempts that have ended; arrays by attempt, in seconds."""

    namespace: str
    type: str
    repeatable: bool
    lease_seconds: float
    time_limit_seconds: float
    whole: bool
    """Were all attempts of the time looked at?"""
    looked: int
    """How many were looked at, of whatever type."""
    looked_from: datetime
    oldest: datetime | None
    newest: datetime | None
    running: int
    leases: list[float]
    time_limits: list[float]
    granted: list[float]
    closed: list[float]
    reported: list[float | None]
    handlers: list[float | None]
    renewals: list[int | None]
    margins: list[float | None]
    round_trips: list[float | None]
    lost: list[bool]
    completed: list[bool]
    limited: list[bool]

    def attempts(self) -> list[PastAttempt]:
        """The attempts that have ended."""
        return [
            PastAttempt(
                lease=lease,
                time_limit=self.time_limits[place],
                granted=self.granted[place],
                closed=self.closed[place],
                reported=self.reported[place],
                lost=self.lost[place],
                handler=self.handlers[place],
                renewals=self.renewals[place],
                smallest_margin=self.margins[place],
                longest_round_trip=self.round_trips[place],
                completed=self.completed[place],
                limited=self.limited[place],
            )
            for place, lease in enumerate(self.leases)
        ]


def lease_history(
    namespace: str | None, name: str | None, since: timedelta, bounds: Bounds | None = None
) -> Query[LeaseHistory]:
    """Registered job types, or one by name, each with a sample of its attempts of that time that have ended."""
    look = bounds or (ALL if name is None else ONE)
    return Query(
        "select * from brokerjobs.lease_history(%s, %s, %s, %s, %s, %s)",
        [namespace, name, since, look.newest, look.slices, look.each],
        LeaseHistory,
    )
