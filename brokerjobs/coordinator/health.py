"""Whether a coordinator lives, is ready and has started, from what it knows: nobody is asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.telemetry.health import LedgerSeen

if TYPE_CHECKING:
    from collections.abc import Callable


class CoordinatorHealth:
    """Reads it off the heartbeats of a coordinator process; that its event loop goes on is all that its life takes."""

    def __init__(self, is_ending: Callable[[], bool], heartbeat_seconds: float) -> None:
        self._is_ending = is_ending
        self.ledger = LedgerSeen(heartbeat_seconds)

    def not_alive(self) -> str:
        """Nothing but the event loop, which is looked at beside this."""
        return ""

    def not_ready(self) -> str:
        """It hands over, has not started, or has no ledger."""
        return "handing over" if self._is_ending() else self.not_started() or self.ledger.not_ready()

    def not_started(self) -> str:
        """The ledger has answered no heartbeat."""
        return "" if self.ledger.ever else "starting: the ledger has answered no heartbeat yet"
