"""What is said of trouble with publishing."""

from __future__ import annotations

import logging

_log = logging.getLogger("brokerjobs.broker.publisher")


class Complaints:
    """Logs what is wrong with publishing to an exchange when that changes, not at each call."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def say(self, exchange: str, trouble: str) -> None:
        """Log `trouble`, "" for none."""
        if trouble and trouble != self._last.get(exchange):
            _log.warning("publishing to exchange %r: %s", exchange, trouble)
        self._last[exchange] = trouble
