"""Bounds for the values of metric attributes: whatever comes, a metric has so many series and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.telemetry.attributes import OTHER

if TYPE_CHECKING:
    from collections.abc import Iterable


class Bounded:
    """The first values that come, up to a limit; those after them are `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = True
        self._known: dict[str, str] = {OTHER: OTHER}

    def only(self, values: Iterable[str]) -> None:
        """From now on these alone, and those that were given before: whatever else comes is `other`."""
        self._known.update((value, value) for value in values)
        self._open = False

    def __call__(self, value: str) -> str:
        """The value, or `other`."""
        known = self._known.get(value)
        if known is not None:
            return known
        if not self._open or len(self._known) > self._limit:
            return OTHER
        self._known[value] = value
        return value
