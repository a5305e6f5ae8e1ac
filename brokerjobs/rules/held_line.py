"""How long others are held back behind a job that waits for quantities which do not suffice for it.

While the line is held nobody who needs any of those quantities goes before it, so they come free for it.  After twice
the median run time those that fit may pass, for one median from the first that does; then the line is held again.  So
somebody small waits at most twice the median more.  Where run times differ by far, those who pass could occupy the
quantities for ever: from the fifth time on the line is held twice as long as before, until it outlasts them all.
"""

from __future__ import annotations

from typing import Final

_HELD_MEDIANS: Final = 2.0
_OPEN_MEDIANS: Final = 1.0
_ALIKE: Final = 4  # so often it is held for two medians


class HeldLine:
    """The clock of one line; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._held_since: float | None = None
        self._open_until: float | None = None
        self._opened = 0

    def begin(self, now: float) -> None:
        """Somebody comes to hold the line; held already for the one before, it is held no longer for that."""
        self._opened = 0
        if self._held_since is None:
            self._held_since = now

    def end(self) -> None:
        """Nobody holds it."""
        self._held_since = self._open_until = None

    def may_pass(self, now: float, median: float) -> bool:
        """May somebody pass now, where `median` is the median run time in seconds?"""
        if self._held_since is None:
            return True
        if self._open_until is not None and now >= self._open_until:
            self._held_since, self._open_until = self._open_until, None
            self._opened += 1
        return self._open_until is not None or now >= self._held_since + self._held_seconds(median)

    def passed(self, now: float, median: float) -> None:
        """Somebody has passed who had to ask."""
        if self._held_since is not None and self._open_until is None:
            self._open_until = now + _OPEN_MEDIANS * median

    def opens_at(self, median: float) -> float | None:
        """From when on somebody may pass, if that is not now; to be asked after `may_pass`."""
        if self._held_since is None or self._open_until is not None:
            return None
        return self._held_since + self._held_seconds(median)

    def _held_seconds(self, median: float) -> float:
        return _HELD_MEDIANS * median * 2.0 ** max(0, self._opened - _ALIKE + 1)
