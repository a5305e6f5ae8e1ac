"""What a process answers to whoever asks whether it lives, is ready, and has started."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

LOOP_SILENT_SECONDS: Final = 10.0
"""An event loop that has done nothing for so long is not alive."""
_BEAT_SECONDS: Final = 1.0


class Health(Protocol):
    """Answers from what the process knows: none of it asks the broker or the ledger.  Any thread may ask."""

    def not_alive(self) -> str:
        """Why this process should be started again; empty if it lives."""
        ...

    def not_ready(self) -> str:
        """Why it does no work now; empty if it does."""
        ...

    def not_started(self) -> str:
        """What its start still waits for; empty once it has started."""
        ...


class LoopBeat:
    """The beat of the event loop on which it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = time.monotonic()
        self._next = self._loop.call_soon(self._beat)

    def stop(self) -> None:
        """Beats no more."""
        self._next.cancel()

    def not_alive(self) -> str:
        """Why it is not alive; empty if it is."""
        silent = time.monotonic() - self._at
        return f"the event loop has been blocked for {silent:.0f} s" if silent >= LOOP_SILENT_SECONDS else ""

    def _beat(self) -> None:
        self._at = time.monotonic()
        self._next = self._loop.call_later(_BEAT_SECONDS, self._beat)


class LedgerSeen:
    """What the heartbeats of a process say of the ledger: it answered the last one, and not long ago."""

    def __init__(self, heartbeat_seconds: float) -> None:
        self._limit_seconds = 3 * heartbeat_seconds
        self._answered_at: float | None = None
        self._silent = False

    @property
    def ever(self) -> bool:
        """Has it answered?"""
        return self._answered_at is not None

    def answered(self) -> None:
        """It has answered a heartbeat."""
        self._answered_at = time.monotonic()
        self._silent = False

    def gave_no_answer(self) -> None:
        """A heartbeat got no answer."""
        self._silent = True

    def not_ready(self) -> str:
        """Why nothing can be recorded; empty if all is well."""
        if self._answered_at is None:
            return "the ledger has not answered yet"
        ago = time.monotonic() - self._answered_at
        if self._silent or ago > self._limit_seconds:
            return f"the ledger does not answer: its last answer to a heartbeat was {ago:.0f} s ago"
        return ""
