"""The query behind `brokerjobs status`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Overview:
    """What runs, what waits, and what is not as it should be; counts of 10 000 say "at least"."""

    overview: dict[str, Any]


def overview(namespace: str | None, waits_too_long: timedelta) -> Query[Overview]:
    """One bounded look at a namespace, or at all; jobs that wait for a delivery are told of after `waits_too_long`."""
    return Query("select brokerjobs.overview(%s, %s)", [namespace, waits_too_long], Overview)
