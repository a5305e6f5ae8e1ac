"""Looks at every state that can come about, breadth first: the first trace to a broken promise is one of the shortest.

Safety: no step anywhere breaks a promise.  Liveness: from every state that can come about an end can be reached without
further faults (can be, not will be: a worker that releases for ever is not seen).
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    State = TypeVar("State", bound=Hashable)
else:
    State = TypeVar("State")


class Step(NamedTuple):
    """One thing that happens."""

    what: str
    attempt: int = 0
    answer: str = ""
    note: str = ""  # what went wrong on the way
    fault: bool = False

    def __str__(self) -> str:
        text = f"{self.what}({self.attempt})" if self.attempt else self.what
        return text + (f"={self.answer}" if self.answer else "") + (f", {self.note}" if self.note else "")


class Machine(Protocol[State]):
    """What can be searched."""

    def first(self) -> State:
        """Where it begins."""
        ...

    def happenings(self, state: State, /) -> Iterator[tuple[Step, State]]:
        """Everything that can happen next."""
        ...

    def broken(self, before: State, after: State, step: Step, /) -> str | None:
        """The promise that a step breaks."""
        ...

    def is_end(self, state: State, /) -> bool:
        """Whether nothing more is owed."""
        ...


@dataclass(slots=True)
class Found:
    """What a search has found."""

    states: int = 0
    breaches: dict[str, list[Step]] = field(default_factory=dict[str, list[Step]])  # with the shortest trace of each
    stuck: list[Step] | None = None  # the shortest trace to a state from which no end can be reached
    complete: bool = True  # every state within the bounds was looked at


class Search(Generic[State]):
    """One search."""

    def __init__(self, machine: Machine[State], most_states: int = 3_000_000) -> None:
        self._machine = machine
        self._most_states = most_states
        self.states: list[State] = []
        self._parents: list[tuple[int, Step | None]] = []
        self._known: dict[State, int] = {}
        self._from = array("i")  # steps without a fault, as pairs of states
        self._to = array("i")
        self.found = Found()

    def run(self, until: str | None = None) -> Found:
        """Looks at all states, or until the named promise is broken. Beyond a broken promise it does not look."""
        self._add(self._machine.first(), -1, None)
        number = 0
        while number < len(self.states) and (until is None or until not in self.found.breaches):
            if len(self.states) > self._most_states:
                self.found.complete = False
                break
            self._expand(number)
            number += 1
        self.found.states = len(self.states)
        if until is None and self.found.complete and not self.found.breaches:
            self._look_for_dead_ends()
        return self.found

    def _expand(self, number: int) -> None:
        state = self.states[number]
        for step, after in self._machine.happenings(state):
            promise = self._machine.broken(state, after, step)
            if promise is not None:
                if promise not in self.found.breaches:
                    self.found.breaches[promise] = [*self.trace(number), step]
                continue
            there = self._known.get(after)
            if there is None:
                there = self._add(after, number, step)
            if not step.fault:
                self._from.append(number)
                self._to.append(there)

    def _add(self, state: State, parent: int, step: Step | None) -> int:
        number = len(self.states)
        self._known[state] = number
        self.states.append(state)
        self._parents.append((parent, step))
        return number

    def _look_for_dead_ends(self) -> None:
        backwards: list[list[int]] = [[] for _ in self.states]
        for before, after in zip(self._from, self._to, strict=True):
            backwards[after].append(before)
        good = bytearray(map(self._machine.is_end, self.states))
        waiting = deque(number for number, is_good in enumerate(good) if is_good)
        while waiting:
            for before in backwards[waiting.popleft()]:
                if not good[before]:
                    good[before] = True
                    waiting.append(before)
        dead = good.find(0)
        self.found.stuck = None if dead < 0 else self.trace(dead)

    def path(self, state: State) -> list[tuple[Step, State]]:
        """The steps that lead to a state, each with the state after it."""
        number = self._known[state]
        path: list[tuple[Step, State]] = []
        parent, step = self._parents[number]
        while step is not None:
            path.append((step, self.states[number]))
            number = parent
            parent, step = self._parents[number]
        return path[::-1]

    def trace(self, number: int) -> list[Step]:
        """The steps that lead to a state."""
        steps: list[Step] = []
        parent, step = self._parents[number]
        while step is not None:
            steps.append(step)
            parent, step = self._parents[parent]
        return steps[::-1]
