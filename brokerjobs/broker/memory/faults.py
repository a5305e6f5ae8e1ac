"""Losing, repeating and reordering on command: all that a broker can do to a doorbell."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from brokerjobs.broker.memory.words import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Faults:
    """What becomes of the next messages; nothing unless it is told."""

    def __init__(self) -> None:
        self._next: deque[Fate] = deque()
        self._held: list[Callable[[], None]] = []
        self._random = random.Random()

    def plan(self, fates: Iterable[Fate], seed: int = 0) -> None:
        """Have the next messages meet these fates, in the order of their arrival.

        Those that are held come into their queues when the plan is used up, in an order drawn from `seed`.
        """
        self._next.extend(fates)
        self._random.seed(seed)

    def drop(self, count: int) -> None:
        """Confirm the next `count` messages and lose them."""
        self.plan([Fate.DROP] * count)

    def repeat(self, count: int) -> None:
        """Put the next `count` messages into their queues twice."""
        self.plan([Fate.REPEAT] * count)

    def reorder(self, count: int, seed: int = 0) -> None:
        """Put the next `count` messages into their queues in another order, once all of them have come."""
        self.plan([Fate.HOLD] * count, seed)

    def befall(self, put: Callable[[], None]) -> None:
        """Call `put`, which puts a message into its queues, as often and as late as it is to be."""
        match self._next.popleft() if self._next else Fate.KEEP:
            case Fate.KEEP:
                put()
            case Fate.DROP:
                pass
            case Fate.REPEAT:
                put()
                put()
            case Fate.HOLD:
                self._held.append(put)
        if not self._next:
            self.release()

    def release(self) -> None:
        """Let go what is held, in another order than it came if there are several."""
        held, self._held = self._held, []
        order = list(range(len(held)))
        self._random.shuffle(order)
        if order == sorted(order):
            order.reverse()
        for place in order:
            held[place]()

    def forget(self) -> None:
        """Drop what is held, and plan nothing."""
        self._next.clear()
        self._held.clear()


def drawn(seed: int, count: int, *, drop: float = 0.0, repeat: float = 0.0, hold: float = 0.0) -> list[Fate]:
    """Return fates for `count` messages, drawn with these chances; the same seed gives the same."""
    chances = {Fate.DROP: drop, Fate.REPEAT: repeat, Fate.HOLD: hold}
    kept = 1.0 - sum(chances.values())
    if kept < 0 or min(chances.values()) < 0:
        raise ValueError(f"chances are not negative and add up to at most 1, not {chances}")
    fates = [*chances, Fate.KEEP]
    return random.Random(seed).choices(fates, [*chances.values(), kept], k=count)
