"""Watches how far this process's clock is from the ledger's: it decides nothing, but dates what is observed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from brokerjobs.rules.clocks import skew_of
from brokerjobs.rules.durations import show_duration

if TYPE_CHECKING:
    from datetime import datetime, timedelta

_log = logging.getLogger("brokerjobs.clock")


class ClockWatch:
    """Warns when the skew comes to be over `limit`, and says when it no longer is."""

    def __init__(self, limit: timedelta) -> None:
        self._limit = limit
        self._warned = False
        self.skew_seconds: float | None = None
        """The last skew that was measured; positive if this clock is ahead."""

    def look(self, asked_at: datetime, round_trip_seconds: float, ledger_at: datetime) -> None:
        """Takes one answer of the ledger: `asked_at` by this process's clock, `ledger_at` by its own."""
        skew = skew_of(asked_at, round_trip_seconds, ledger_at)
        self.skew_seconds = round(skew.seconds, 3)
        if skew.is_over(self._limit) == self._warned:
            return
        self._warned = not self._warned
        if self._warned:
            _log.warning(
                "the clock of this host is %.1f s %s the ledger's, over the limit of %s (worker.clock_skew): it decides"
                " nothing, but what this process observes is misdated; is the host's time synchronised (NTP)?",
                abs(skew.seconds),
                "ahead of" if skew.seconds > 0 else "behind",
                show_duration(self._limit),
            )
        else:
            _log.info("the clock of this host is within %s of the ledger's again", show_duration(self._limit))
