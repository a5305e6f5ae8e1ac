"""The ledger's inner functions, called by its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


def asked(ledger: Ledger, query: LiteralString, *params: Any) -> list[Any]:
    """The one column of what a query answers; functions find each other by the path that their callers have set."""
    with ledger.owner.transaction():
        ledger.owner.execute("set local search_path = brokerjobs, pg_temp")
        return [found for (found,) in ledger.owner.execute(query, params)]
