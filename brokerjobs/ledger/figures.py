"""What the elected monitor asks of the ledger: all of its numbers in one statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from brokerjobs.ledger.ticks import Candidacy


@dataclass(frozen=True, slots=True)
class Figure:
    """A number by its metric and the values of that one's attributes; without a metric if the process does not lead."""

    leading: bool
    metric: str | None
    labels: list[str] | None
    value: float | None


def monitored(candidacy: Candidacy, look: int, objective_seconds: float) -> Query[Figure]:
    """Takes or keeps the lead, and looks at `look` rows at most of each kind, the oldest."""
    return Query(
        "select l.leads, t.metric, t.labels, t.value from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.monitored(case when l.leads then %s else 0 end, %s) t on true",
        [*candidacy.params(), look, objective_seconds],
        Figure,
    )
