"""Every order in which the steps of three sessions can follow one another, fewest switches first.

Orders are found by playing them: after each step the explorer looks who could go on, takes the one who acted last if
that one can, and keeps the others for later.  So the first order that breaks a promise is one of the simplest that do.
(Fewest switches first: Musuvathi and Qadeer, "Iterative context bounding", PLDI 2007.)

Two ways to the same place are one: an order is not played on where each session has done and been told the same as in
an earlier order, at the same time, and the ledger's rows are the same.  And a session that is told `locked` has done
nothing, and asks again after the next step of another; where that is known to happen it is asked in passing.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.ledger.interleavings.promises import broken_invariants, broken_promises
from tests.ledger.interleavings.sessions import AT_DOOR, BUSY, Hand, Session, Status
from tests.ledger.interleavings.story import Line, Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.ledger.interleavings.scenes import Scene, Stage
    from tests.ledger.interleavings.sessions import Program
    from tests.ledger.ledger_driver import Ledger

    # What the rest of an order depends on: what each session has done, when, and whether it waits; and the rows.
    Place = tuple[tuple[tuple[str, ...], ...], tuple[bool, ...], str]


@dataclass(frozen=True, slots=True)
class Part:
    """What one session does, and with the login of which role."""

    name: str
    role: str
    program: Program
    waits: bool = False  # may it wait for a row's lock? (rule R9: no batch does)


@dataclass(frozen=True, slots=True)
class Triple:
    """Three sessions, and where they begin."""

    name: str
    ground: Callable[[Ledger], Scene]
    parts: tuple[Part, ...]


@dataclass(slots=True)
class _Play:
    """One order being played."""

    triple: Triple
    scene: Scene
    sessions: list[Session]
    story: Story
    done: list[tuple[str, ...]]  # by each session, without the steps that did nothing
    last: int | None = None  # who did something last
    busy: set[int] = field(default_factory=set[int])  # since then

    def place(self) -> Place:
        blocked = tuple(session.status is Status.BLOCKED for session in self.sessions)
        return tuple(self.done), blocked, self.scene.looks()

    def enabled(self) -> list[int]:
        return [number for number, session in enumerate(self.sessions) if session.enabled and number not in self.busy]

    def standing(self, number: int) -> tuple[object, ...]:
        """How far everybody is, in whatever order they came there; and who asks."""
        return number, *map(len, self.done), *(session.in_transaction for session in self.sessions)

    def step(self, number: int) -> bool:
        """One session takes a step; those that it held up may then go on by themselves. Whether anything happened."""
        self.sessions[number].step()
        while any(self._is_let_go(session) for session in self.sessions):
            pass  # whoever was let go may have let go others
        happened = False
        for who in sorted(range(len(self.sessions)), key=lambda n: n != number):
            session = self.sessions[who]
            for word in session.said:
                self.story.lines.append(Line(session.name, word))
                if word != BUSY:
                    happened = True
                    seen = (
                        self.scene.looks() if word == AT_DOOR else ""
                    )  # by one that took no lock, others may write now
                    self.done[who] += (f"{word} at {self.scene.age} {seen}",)
            session.said.clear()
            if session.failure is not None:
                self.story.broken.append(f"no call fails: {_said(session.failure)}")
            if session.waited_for and not self.triple.parts[who].waits:
                self.story.broken.append(f"no batch waits for a row lock (rule R9): {session.name} waited")
        self.story.order += (number,)
        if not happened:
            self.busy.add(number)
            return False
        self.last, self.busy = number, set()
        return True

    @staticmethod
    def _is_let_go(session: Session) -> bool:
        if session.status is not Status.BLOCKED:
            return False
        session.settle()
        return session.status is not Status.BLOCKED

    def look_at_the_end(self) -> None:
        stuck = [session.name for session in self.sessions if session.status is not Status.ENDED]
        self.story.broken = [f"nobody can go on: {', '.join(stuck)}"] if stuck else broken_promises(self.scene)


class Explorer:
    """Plays the orders of one triple on a stage."""

    def __init__(self, stage: Stage, triple: Triple) -> None:
        self._stage = stage
        self._triple = triple
        self._seen: set[Place] = set()
        self._busy: dict[Place, set[int]] = {}
        self._busy_standing: set[tuple[object, ...]] = set()
        self._later: list[tuple[int, int, tuple[int, ...], Place | None]] = [(0, 0, (), None)]
        self._count = itertools.count(1)
        self.played: list[Story] = []  # also those that were not told: they came to where another had been

    def __iter__(self) -> Iterator[Story]:
        """Tells the story of each order that was played to its end; whoever has seen enough stops asking."""
        while self._later:
            switches, _, prefix, place = heapq.heappop(self._later)
            if place is None or prefix[-1] not in self._busy.get(place, ()):
                story = self._play(prefix, place, switches)
                if story is not None:
                    yield story

    def _play(self, prefix: tuple[int, ...], place: Place | None, switches: int) -> Story | None:
        stage, triple = self._stage, self._triple
        scene = triple.ground(stage.ledger)
        scene.begin()
        sessions = [session_of(stage, scene, number, part) for number, part in enumerate(triple.parts)]
        play = _Play(triple, scene, sessions, Story(triple.name), [()] * len(sessions))
        self.played.append(play.story)
        try:
            happened = True
            for number in prefix:
                assert number in play.enabled(), f"{prefix} went another way, not by its order alone:\n{play.story}"
                happened = self._step(play, number, place)
            if not happened:
                return None
            while not play.story.broken and play.enabled():
                place = play.place()
                if place in self._seen:
                    play.story.broken += broken_invariants(scene)
                    return play.story if play.story.broken else None
                self._seen.add(place)
                self._go_on(play, place, switches)
            if not play.story.broken:
                play.look_at_the_end()
        finally:
            for session in sessions:
                session.abandon()
            stage.clear()
        return play.story

    def _go_on(self, play: _Play, place: Place, switches: int) -> None:
        """From a place that is new: asks in passing who is busy, then one goes on and the others are kept for later."""
        happened = False
        while not happened and (enabled := play.enabled()):
            asked = [n for n in enabled if n != play.last and play.standing(n) in self._busy_standing]
            chosen = asked[0] if asked else play.last if play.last in enabled else enabled[0]
            order, cost = play.story.order, switches + (play.last in enabled)
            happened = self._step(play, chosen, place)
            if happened:
                for other in enabled:
                    if other != chosen:
                        heapq.heappush(self._later, (cost, next(self._count), (*order, other), place))

    def _step(self, play: _Play, number: int, place: Place | None) -> bool:
        standing = play.standing(number)
        happened = play.step(number)
        if not happened:
            self._busy_standing.add(standing)
            if place is not None:
                self._busy.setdefault(place, set()).add(number)
        return happened


def _said(error: psycopg.Error) -> str:
    return str(error).splitlines()[0]


def session_of(stage: Stage, scene: Scene, number: int, part: Part) -> Session:
    """A session of the stage that is to do a part."""
    hand = Hand(part.name, stage.caller(number, part.role), scene, stage.gates)
    return Session(part.name, hand, part.program(hand), stage.threads[number])
