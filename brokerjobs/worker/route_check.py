"""Looks once, at the start of a worker, whether its routes are what they should be.

A worker has no right to declare, and the broker tells a queue's arguments to nobody else: a passive declaration
compares none, and needs the same right from RabbitMQ 4.2.6 on.  So the ledger says what those found who may declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.errors import TopologyMismatch
from brokerjobs.ledger.services import Route, routes_standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.worker.options import Services


async def check_routes(ledger: AsyncLedgerConnection, names: Sequence[str], services: Services | None) -> None:
    """Raises TopologyMismatch (several as an ExceptionGroup) for a route that could not be declared.

    The coordinator services of this process, if it has any, declare first what is not declared yet.
    """
    undeclared = [one for one in await ledger.fetch(routes_standing(names)) if not one.declared]
    if services is None:
        errors = [TopologyMismatch(**one.trouble) for one in undeclared if one.trouble is not None]
    else:
        errors = list(
            await services.declare([Route(one.name, one.namespace) for one in undeclared]) if undeclared else ()
        )
    # An exchange may stand in the way of several routes.
    errors = list({error.queue: error for error in errors}.values())
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup("routes of this worker differ at the broker from what is wanted", errors)
