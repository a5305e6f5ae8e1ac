"""Whether a worker lives, is ready and has started, from what it knows: nobody is asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerjobs.telemetry.health import LedgerSeen

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.broker.protocol import Consumer
    from brokerjobs.worker.leases import LeaseKeeper
    from brokerjobs.worker.routes import Routes

KEEPER_SILENT_SECONDS: Final = 10.0
"""A lease keeper that has done nothing for so long, and waits for no answer of the ledger, is not alive."""


class WorkerHealth:
    """Reads it off the parts of a worker; any thread may ask."""

    def __init__(
        self,
        keeper: LeaseKeeper,
        consumer: Consumer,
        routes: Routes,
        is_draining: Callable[[], bool],
        heartbeat_seconds: float,
    ) -> None:
        self._keeper = keeper
        self._consumer = consumer
        self._routes = routes
        self._is_draining = is_draining
        self.ledger = LedgerSeen(heartbeat_seconds)

    def not_alive(self) -> str:
        """The lease keeper is gone or hangs: leases run out while handlers work."""
        silent = self._keeper.silent_seconds()
        if silent is None:
            return "the lease keeper has ended"
        return f"the lease keeper has hung for {silent:.0f} s" if silent >= KEEPER_SILENT_SECONDS else ""

    def not_ready(self) -> str:
        """It drains, has not started, has no ledger, or consumes none of its routes."""
        if self._is_draining():
            return "draining"
        return self.not_started() or self.ledger.not_ready() or self._not_consuming()

    def not_started(self) -> str:
        """It has not been registered in the ledger."""
        return "" if self.ledger.ever else "starting: not registered in the ledger yet"

    def _not_consuming(self) -> str:
        # One queue of several may be missing while the others are served; paused ones are not to be consumed.
        wanted = self._routes.to_consume
        if not wanted or self._consumer.consuming & wanted:
            return ""
        return f"consumes none of its {len(wanted)} routes: the broker is away, or has no queue for them"
