"""One queue: who gets which message, and what comes back."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerjobs.broker.memory.words import Delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from brokerjobs.broker.memory.words import Letter
    from brokerjobs.broker.topology import Queue


@dataclass(slots=True)
class Held:
    """A message in a queue, or with a subscriber of it."""

    letter: Letter
    place: int
    """Its place among all messages that the queue ever had."""
    returns: int = 0
    """How often it was delivered and came back."""


@dataclass(slots=True, eq=False)
class Subscriber:
    """A subscription, and the messages that it has not settled."""

    number: int
    prefetch: int
    hear: Callable[[Delivered], None]
    unsettled: dict[int, Held] = field(default_factory=dict[int, Held])
    last_tag: int = 0

    @property
    def has_room(self) -> bool:
        """Whether it may be given one more."""
        return len(self.unsettled) < self.prefetch

    def give(self, held: Held) -> None:
        """Deliver a message."""
        self.last_tag += 1
        self.unsettled[self.last_tag] = held
        self.hear(Delivered(number=self.number, tag=self.last_tag, redelivered=held.returns > 0, letter=held.letter))

    def take(self, tags: Iterable[int]) -> list[Held]:
        """Take what is settled; raises `KeyError` for a tag that is not outstanding."""
        return [self.unsettled.pop(tag) for tag in tags]


class MemoryQueue:
    """Messages in order, given in turn to those subscribers that have room."""

    def __init__(self, declared: Queue, bury: Callable[[str, Letter], None]) -> None:
        """Make the queue as declared; `bury` sends a message to its dead-letter exchange."""
        self.declared = declared
        self.deleted = False
        self._bury = bury
        self._places = itertools.count()
        self._ready: deque[Held] = deque()
        self._turns: deque[Subscriber] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def subscribers(self) -> list[Subscriber]:
        """Those that may be given messages."""
        return list(self._turns)

    def put(self, letter: Letter) -> None:
        """Add a message; the oldest one goes if there are too many."""
        self._ready.append(Held(letter, next(self._places)))
        limit = self.declared.arguments.get("x-max-length")
        if isinstance(limit, int) and len(self._ready) > limit:
            self._ready.popleft()
        self._deliver()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Begin to give it messages."""
        self._turns.append(subscriber)
        self._deliver()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Give it no more; what it has stays with it."""
        if subscriber in self._turns:
            self._turns.remove(subscriber)

    def ack(self, subscriber: Subscriber, tags: Iterable[int]) -> None:
        """Forget messages; raises `KeyError` as `take`."""
        subscriber.take(tags)
        self._deliver()

    def reject(self, subscriber: Subscriber, tags: Iterable[int]) -> None:
        """Bury messages; raises `KeyError` as `take`."""
        for held in subscriber.take(tags):
            self._die(held)
        self._deliver()

    def leave(self, subscriber: Subscriber) -> None:
        """Take back what a subscriber has that is gone; what came back too often is buried."""
        self.unsubscribe(subscriber)
        if self.deleted:
            return
        returned, subscriber.unsettled = list(subscriber.unsettled.values()), {}
        limit = self.declared.arguments.get("x-delivery-limit")
        for held in returned:
            held.returns += 1
            if isinstance(limit, int) and held.returns > limit:
                self._die(held)
            else:
                self._ready.append(held)
        # To where they were: before what came after them.
        self._ready = deque(sorted(self._ready, key=lambda held: held.place))
        self._deliver()

    def _die(self, held: Held) -> None:
        exchange = self.declared.arguments.get("x-dead-letter-exchange")
        if isinstance(exchange, str):
            self._bury(exchange, held.letter)

    def _deliver(self) -> None:
        while self._ready and (subscriber := next((one for one in self._turns if one.has_room), None)):
            self._turns.remove(subscriber)
            self._turns.append(subscriber)
            subscriber.give(self._ready.popleft())
