"""The order in which what waits in a worker gets slots and quantities.

First come, first served in each lane, and the lanes take turns.  The first whose quantities are not free holds the
line: see `held_line`.  Whoever needs none of the same quantities is not held back.  Quantities are reserved in the
moment in which something is taken, until `release`.

A granted attempt may need more than its route said: it has its slot, waits for all of it at once, and is tried before
those that are not claimed yet, behind the one who holds the line.
"""

from __future__ import annotations

import statistics
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from brokerjobs.rules.held_line import HeldLine
from brokerjobs.rules.lanes import NORMAL, WEIGHTS, Lane, Turns
from brokerjobs.rules.stock import NOTHING, Amounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from brokerjobs.rules.stock import Stock

_RECENT: Final = 101  # so many attempts make the median
_FIRST_MEDIAN: Final = 1.0  # seconds, before any attempt has ended


class Waits(Protocol):
    """What can wait; one is told from another by its identity."""

    @property
    def route(self) -> str:
        """The route that it came by."""
        ...

    @property
    def received(self) -> float:
        """When it came, seconds of the monotonic clock."""
        ...


class Place(NamedTuple):
    """Where those that come by a route wait, and what each needs."""

    lane: Lane = NORMAL
    amounts: Amounts = NOTHING


_USUAL: Final = Place()
W = TypeVar("W", bound=Waits)


class Line(Generic[W]):
    """What waits, what it needs, and what is reserved; `early` is after how many seconds the holder is taken all the
    same as soon as there is a slot, so that it waits as a granted attempt, for no other to get its place.
    """

    def __init__(self, stock: Stock, early: float) -> None:
        self._stock = stock
        self._early = early
        self._places: Mapping[str, Place] = {}
        self._lanes: dict[Lane, deque[W]] = {lane: deque() for lane in WEIGHTS}
        self._granted: deque[tuple[W, Amounts]] = deque()
        self._reserved: dict[int, Amounts] = {}
        self._turns = Turns()
        self._holder: tuple[W, Amounts] | None = None
        self._held = HeldLine()
        self._run_times: deque[float] = deque(maxlen=_RECENT)
        self._median_known: float | None = _FIRST_MEDIAN
        self._plain = True
        self._has_slot = True

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def place(self, places: Mapping[str, Place]) -> None:
        """Says where the deliveries of more routes wait, and what they need; those of unknown ones need nothing."""
        waiting = list(self)
        self._places = {**self._places, **places}
        for lane in self._lanes.values():
            lane.clear()
        self._let_go()
        for one in waiting:
            self.put(one)
        self._plain = not any(place.amounts for place in self._places.values())

    def __iter__(self) -> Iterator[W]:
        """What is not taken yet, the oldest first."""
        return iter(sorted(chain.from_iterable(self._lanes.values()), key=lambda one: one.received))

    def put(self, one: W) -> None:
        """Takes what has come."""
        self._lanes[self._lane(one)].append(one)

    def put_back(self, several: Sequence[W]) -> None:
        """Takes back what was taken, in front, and gives back what it had reserved."""
        for one in reversed(several):
            self.release(one)  # or it would be counted twice
            self._lanes[self._lane(one)].appendleft(one)

    def oldest(self, *, but_holder: bool = False) -> W | None:
        """What has waited for the longest time of what is not taken yet; leaves out the holder of the line if told."""
        if not but_holder or self._holder is None:
            heads = [lane[0] for lane in self._lanes.values() if lane]
            return min(heads, key=lambda one: one.received, default=None)
        return next((one for one in self if not self._holds(one)), None)

    def take(self, limit: int, now: float) -> list[W]:
        """Takes what may be claimed now, at most `limit`, and reserves what it needs."""
        waiting = self._waiting()
        if self._plain and not self._granted and len(waiting) == 1:
            several = self._lanes[waiting[0]]
            return [several.popleft() for _ in range(min(limit, len(several)))]
        self._has_slot = True
        taken: list[W] = []
        while len(taken) < limit and (one := self._next(now)) is not None:
            taken.append(one)
        if self._holder is None:
            self._held.end()
        return taken

    def take_older(self, received_by: float, limit: int) -> list[W]:
        """Takes what came so long ago, but for the one that holds the line; it reserves nothing."""
        due = [one for one in self if one.received <= received_by and not self._holds(one)][:limit]
        for one in due:
            self._remove(one)
        return due

    def take_all(self) -> list[W]:
        """Takes everything, the oldest first; it reserves nothing."""
        taken = list(self)
        for lane in self._lanes.values():
            lane.clear()
        self._let_go()
        return taken

    def wait(self, one: W, amounts: Amounts) -> bool:
        """A granted attempt needs these: True if it has just that reserved already, else it gives back and waits."""
        if self._reserved.get(id(one), NOTHING) == amounts:
            if self._holds(one):
                self._let_go()
            return True
        self._give_back(one)
        self._granted.append((one, amounts))
        return False

    def admit(self, now: float, *, has_slot: bool) -> list[W]:
        """The granted attempts that have all that they need reserved now, and begin.

        `has_slot`: is there a slot for the one that holds the line, if it has none yet?
        """
        self._has_slot = has_slot
        admitted: list[W] = []
        for one, amounts in sorted(self._granted, key=lambda pair: (not self._holds(pair[0]), pair[0].received)):
            if self._may(one, amounts, now):
                self._granted.remove((one, amounts))
                self._reserve(one, amounts, now)
                admitted.append(one)
        return admitted

    def release(self, one: W, ran: float | None = None) -> None:
        """Something is over, after it ran for so many seconds if it did: it waits for nothing and has nothing."""
        if ran is not None:
            self._run_times.append(ran)
            self._median_known = None
        if self._holds(one):
            self._let_go()
        if self._granted:
            self._granted = deque(pair for pair in self._granted if pair[0] is not one)
        self._give_back(one)

    def opens_at(self, now: float) -> float | None:
        """When somebody may be taken or admitted though nothing else happens, if there will be such a time."""
        if self._holder is None:
            return None
        times = (self._held.opens_at(self._median()), self._holder[0].received + self._early)
        return min((time for time in times if time is not None and time > now), default=None)

    def _next(self, now: float) -> W | None:
        waiting = self._waiting()
        if self._holder is not None and self._waits_unclaimed(self._holder[0]):
            one, amounts = self._holder
            is_early = not self._stock.fits(amounts)
            if not is_early or now >= one.received + self._early:
                self._turns.took(self._lane(one), waiting)
                self._remove(one)
                if not is_early:  # else it goes on holding the line
                    self._reserve(one, amounts, now)
                return one
        for lane in self._turns.order(waiting):
            for one in self._lanes[lane]:
                amounts = self._places.get(one.route, _USUAL).amounts
                if self._may(one, amounts, now):
                    self._turns.took(lane, waiting)
                    self._remove(one)
                    self._reserve(one, amounts, now)
                    return one
            waiting.remove(lane)
        return None

    def _may(self, one: W, amounts: Amounts, now: float) -> bool:
        """May this one have what it needs? If there is too little it comes to hold the line, unless one does."""
        if not amounts:
            return True
        if not self._stock.fits(amounts):
            if self._holder is None:
                self._holder = one, amounts
                self._held.begin(now)
            return False
        return not self._is_held_back(one, amounts) or self._held.may_pass(now, self._median())

    def _is_held_back(self, one: W, amounts: Amounts) -> bool:
        """Is it behind the one that holds the line, and needs some of the same?

        One that fits, and has no slot yet, holds nobody back: those that have one may go.
        """
        if self._holder is None or self._holds(one) or amounts.keys().isdisjoint(self._holder[1]):
            return False
        return self._has_slot or not self._stock.fits(self._holder[1])

    def _reserve(self, one: W, amounts: Amounts, now: float) -> None:
        if self._is_held_back(one, amounts):
            self._held.passed(now, self._median())
        if self._holds(one):
            self._holder = None
        if amounts:
            self._stock.take(amounts)
            self._reserved[id(one)] = amounts

    def _give_back(self, one: W) -> None:
        if (amounts := self._reserved.pop(id(one), None)) is not None:
            self._stock.give(amounts)

    def _holds(self, one: W) -> bool:
        return self._holder is not None and self._holder[0] is one

    def _let_go(self) -> None:
        self._holder = None
        self._held.end()

    def _waiting(self) -> list[Lane]:
        return [lane for lane, several in self._lanes.items() if several]

    def _lane(self, one: W) -> Lane:
        return self._places.get(one.route, _USUAL).lane

    def _waits_unclaimed(self, one: W) -> bool:
        return any(other is one for other in self._lanes[self._lane(one)])

    def _remove(self, one: W) -> None:
        lane = self._lanes[self._lane(one)]
        del lane[next(index for index, other in enumerate(lane) if other is one)]

    def _median(self) -> float:
        if self._median_known is None:
            self._median_known = statistics.median(self._run_times)
        return self._median_known
