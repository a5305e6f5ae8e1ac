"""The query of the service that counts retries against the budget of each queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from brokerjobs.ledger.ticks import Candidacy


@dataclass(frozen=True, slots=True)
class Stretched:
    """A route whose retries are above its budget; without a route if none is."""

    leading: bool
    route: str | None
    first_attempts: int | None
    retries: int | None
    stretch: float | None
    """By what the delays of new retries are multiplied."""


def stretch_retries(candidacy: Candidacy, limit: int) -> Query[Stretched]:
    """Counts what was claimed since the last count, at most `limit` attempts, and writes the stretch of each queue."""
    return Query(
        "select l.leads, t.route, t.first_attempts, t.retries, t.stretch"
        " from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.stretch_retries(case when l.leads then %s else 0 end) t on true",
        [*candidacy.params(), limit],
        Stretched,
    )
