"""Whose turn it is among the lanes high, normal and low: 8 : 3 : 1 while all have something that waits.

Smooth weighted round robin: turns are spread evenly, no lane waits longer than its share says, and a lane in which
nothing waits takes no turn and saves none up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Lane = Literal["high", "normal", "low"]

NORMAL: Final[Lane] = "normal"
WEIGHTS: Final[Mapping[Lane, int]] = {"high": 8, NORMAL: 3, "low": 1}


class Turns:
    """Who was served how often, as far as that counts: the credits of all lanes add up to nothing."""

    def __init__(self, weights: Mapping[Lane, int] = WEIGHTS) -> None:
        self._weights = weights
        self._credit = dict.fromkeys(weights, 0)

    def order(self, waiting: Collection[Lane]) -> list[Lane]:
        """The lanes in which something waits, whose turn it is first."""
        return sorted(waiting, key=lambda lane: (-(self._credit[lane] + self._weights[lane]), -self._weights[lane]))

    def took(self, lane: Lane, waiting: Collection[Lane]) -> None:
        """Counts that `lane` had a turn while something waited in the lanes `waiting`, itself among them."""
        for one in waiting:
            self._credit[one] += self._weights[one]
        self._credit[lane] -= sum(self._weights[one] for one in waiting)
