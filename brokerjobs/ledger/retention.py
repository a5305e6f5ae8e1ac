"""The queries of retention: what has ended long ago leaves the ledger, in steps that are bounded and never wait.

As in `ticks`, each keeps the lead and works in one statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from brokerjobs.ledger.ticks import Candidacy


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizons:
    """For how long things are kept; an hour at least, the ledger refuses less."""

    succeeded: timedelta = timedelta(days=30)
    """Succeeded jobs, from their end."""
    ended: timedelta = timedelta(days=180)
    """Failed and cancelled jobs, from their end."""
    keys: timedelta = timedelta(days=30)
    """Idempotency keys, from the removal of their job's record."""
    processes: timedelta = timedelta(days=7)
    """Workers and coordinators that stopped or fell silent, from their last heartbeat."""
    quarantine: timedelta = timedelta(days=30)
    """Records of quarantined messages."""

    @property
    def longest(self) -> timedelta:
        """How long a finished job is kept at most: events, and reports about unknown jobs, are kept as long."""
        return max(self.succeeded, self.ended)


@dataclass(frozen=True, slots=True)
class Removed:
    """What one step removed; all are numbers of rows, None while another process leads."""

    leading: bool
    jobs: int | None
    attempts: int | None
    keys: int | None
    late_reports: int | None
    processes: int | None
    quarantined: int | None

    def largest(self) -> int:
        """The most of one kind: a full batch says that there is more to remove."""
        return max(self.jobs or 0, self.keys or 0, self.late_reports or 0, self.processes or 0, self.quarantined or 0)


def remove(candidacy: Candidacy, horizons: Horizons, limit: int) -> Query[Removed]:
    """Removes at most `limit` jobs of each horizon, keys, reports of unknown jobs, processes and quarantine records."""
    return Query(
        "select l.leads, j.jobs, j.attempts, k.keys, e.late_reports, e.processes, e.quarantined"
        " from (select leads, case when leads then %s else 0 end from brokerjobs.lead(%s, %s, %s, %s) x(leads))"
        " l(leads, most)"
        " left join lateral brokerjobs.retain_jobs(%s, %s, l.most) j on l.leads"
        " left join lateral brokerjobs.retain_keys(%s, l.most) k(keys) on l.leads"
        " left join lateral brokerjobs.retain_evidence(%s, %s, %s, l.most) e on l.leads",
        [
            limit,
            *candidacy.params(),
            horizons.succeeded,
            horizons.ended,
            horizons.keys,
            horizons.longest,
            horizons.processes,
            horizons.quarantine,
        ],
        Removed,
    )


@dataclass(frozen=True, slots=True)
class Step:
    """A step towards dropping a month of events: nothing | begun | waiting | kept | busy | dropped."""

    step: str
    name: str | None
    jobs: int


def drop_events(horizons: Horizons, limit: int) -> Query[Step]:
    """Takes the next step; `limit` is the number of jobs whose events are looked at."""
    return Query("select * from brokerjobs.retain_events(%s, %s)", [horizons.longest, limit], Step)
