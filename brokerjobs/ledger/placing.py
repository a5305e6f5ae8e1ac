"""The queries of the services that place jobs: what is looked at, what is said of it, and which routes are retired.

As in `ticks`, a statement that leads takes or keeps the lead itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger.calls import Count, Nothing
from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.ledger.ticks import Candidacy


@dataclass(frozen=True, slots=True)
class Retired:
    """A row of `retire`; without a name if no queue of a retired route can be deleted now."""

    leading: bool
    name: str | None


def retire(candidacy: Candidacy, idle: timedelta, limit: int) -> Query[Retired]:
    """Retires routes that have had no job for so long; answers the queues that can be deleted."""
    return Query(
        "select l.leads, t.name from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.retire_routes(%s, case when l.leads then %s else 0 end) t on true",
        [*candidacy.params(), idle, limit],
        Retired,
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """The row of `placement`: the living workers, and each wanted route with a job type that comes by it."""

    leading: bool
    workers: list[dict[str, Any]] | None
    routes: list[dict[str, Any]] | None


def placement(candidacy: Candidacy) -> Query[Placement]:
    """Looks at everything that decides which jobs a living worker can run; no job is looked at."""
    return Query(
        "select l.leads, t.workers, t.routes from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral (select * from brokerjobs.placement() p where l.leads) t on true",
        candidacy.params(),
        Placement,
    )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why no living worker can run jobs of a type that come by a route; None where one can."""

    route: str
    type: str
    report: dict[str, Any] | None


def explained(explanations: Sequence[Explanation]) -> Query[Nothing]:
    """Records explanations that have changed."""
    return Query(
        "select brokerjobs.explained(%s::text[], %s::text[], %s::text[]::jsonb[])",
        [
            [one.route for one in explanations],
            [one.type for one in explanations],
            [None if one.report is None else json.dumps(one.report) for one in explanations],
        ],
        Nothing,
    )


def wake_placement(namespace: str, types: Sequence[str], limit: int) -> Query[Count]:
    """Lets jobs of these types that wait for a qualified worker be rung at the next tick; answers how many."""
    return Query("select brokerjobs.wake_placement(%s, %s::text[], %s)", [namespace, list(types), limit], Count)


@dataclass(frozen=True, slots=True)
class EndedUnplaceable:
    """How many jobs were ended, and the last one that was looked at, None at the end of the walk."""

    ended: int
    last: UUID | None


def end_unplaceable(after: UUID | None, rows: int) -> Query[EndedUnplaceable]:
    """Ends jobs that no living worker can run in time, among the next `rows` that wait for a delivery."""
    return Query("select * from brokerjobs.end_unplaceable(%s, %s)", [after, rows], EndedUnplaceable)


def routes_removed(names: Sequence[str]) -> Query[Nothing]:
    """Records that the queues of retired routes are deleted."""
    return Query("select brokerjobs.routes_removed(%s::text[])", [list(names)], Nothing)
