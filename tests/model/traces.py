"""Traces of the model for the ledger to replay: every action and every pair of successive ones, and some long walks.

An action is a step that the ledger knows of: a call with its answer, or time that passes for the job.  What happens
between them to workers and messages is left out.  Traces that begin alike are one branch, so nothing is replayed twice.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests.model.facts import Bounds
from tests.model.search import Search, Step
from tests.model.world import Model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.facts import Ledger, Protocol, World

    Kind = tuple[str, str, str]

CALLS = {
    "claim",
    "start",
    "complete",
    "fail temporary",
    "fail invalid",
    "fail unknown",
    "fail effect unknown",
    "release",
    "asked",
    "hand_back",
    "complete_v1",
    "fence_v1",
    "expire",
    "due",
    "cancel",
    "publish",
    "intent",
    "outcome happened",
    "outcome did not happen",
    "a person decides: retry",
    "a person decides: happened",
    "a person decides: give up",
    "a person decides: replay",
    "review_ask",
    "found happened",
    "found did not happen",
}
TIMES = {
    "the lease runs out",
    "the time of the next try comes",
    "the deadline passes",
    "the time limits of calls pass",
    "the outside forgets the key",
}
BEFORE_COMMIT = "connection lost before its COMMIT"


def kind_of(step: Step) -> Kind | None:
    """What the ledger sees of a step, without the attempt's number; None for what it does not see."""
    if step.what not in CALLS | TIMES or step.note == "delayed":
        return None
    return step.what, step.answer, step.note if step.note == BEFORE_COMMIT else ""


class Remembering(NamedTuple):
    """A state of the world, and the last action that led there."""

    world: World
    last: Kind | None


class Pairs:
    """A model that notes each pair of successive actions where it comes up first."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.first_seen: dict[tuple[Kind | None, Kind], tuple[Remembering, Step, World]] = {}

    def first(self) -> Remembering:
        """Where the model begins."""
        return Remembering(self._model.first(), None)

    def happenings(self, state: Remembering) -> Iterator[tuple[Step, Remembering]]:
        """What can happen next."""
        for step, after in self._model.happenings(state.world):
            kind = kind_of(step)
            if kind is not None:
                self.first_seen.setdefault((state.last, kind), (state, step, after))
            yield step, Remembering(after, kind or state.last)

    def broken(self, _before: Remembering, _after: Remembering, _step: Step) -> str | None:
        """A wrong model is replayed as well, to show that it is seen to be wrong."""
        return None

    def is_end(self, _state: Remembering) -> bool:
        """Ends are of no interest here."""
        return True


@dataclass(slots=True)
class Branch:
    """What may follow a trace so far: actions, each with the ledger as the model has it afterwards."""

    ledger: Ledger
    actions: dict[Step, Branch] = field(default_factory=dict[Step, "Branch"])

    def add(self, path: list[tuple[Step, World]]) -> None:
        """Adds a trace."""
        branch = self
        for step, world in path:
            if kind_of(step) is not None:
                branch = branch.actions.setdefault(step._replace(fault=False), Branch(world.ledger))

    def __len__(self) -> int:
        return sum(1 + len(branch) for branch in self.actions.values())


@dataclass(frozen=True, slots=True)
class Selection:
    """Which traces: every pair of actions within these bounds, and so many walks of so many steps from this seed."""

    name: str
    bounds: Bounds
    walks: int = 40
    steps: int = 60
    seed: int = 7


@cache
def traces(selection: Selection, protocol: Protocol) -> tuple[Branch, frozenset[Kind]]:
    """All of a selection's traces as one tree; and the actions that they cover."""
    model = Model(protocol, selection.bounds)
    pairs = Pairs(model)
    search = Search(pairs)
    search.run()
    root = Branch(model.first().ledger)
    for state, step, after in pairs.first_seen.values():
        root.add([*((step, seen.world) for step, seen in search.path(state)), (step, after)])
    chance = random.Random(selection.seed)
    for _ in range(selection.walks):
        root.add(_walk(model, chance, selection.steps))
    return root, frozenset(kind for _, kind in pairs.first_seen)


def _walk(model: Model, chance: random.Random, steps: int) -> list[tuple[Step, World]]:
    world = model.first()
    path: list[tuple[Step, World]] = []
    for _ in range(steps):
        possible = list(model.happenings(world))
        if not possible:
            break
        step, world = chance.choice(possible)
        path.append((step, world))
    return path


_QUIET = Bounds(faults=0, attempts=2, messages=1, hangs=False, loses_messages=False, reconcile=False)
_HEEDING = replace(_QUIET, cancel=True, deadline=True)
_EFFECT = replace(_QUIET, effect="once", rings=1)
SELECTIONS = (
    Selection("repeatable, with lost replies", replace(_QUIET, faults=1)),
    Selection("repeatable, with cancel and deadline", replace(_HEEDING, other_ends=True)),
    Selection("not repeatable, with lost replies", replace(_QUIET, faults=1, once=True)),
    Selection("not repeatable, with cancel and deadline", replace(_HEEDING, once=True, other_ends=True)),
    Selection("transactions that complete", replace(_QUIET, faults=1, transaction="completes", cancel=True)),
    Selection("transactions that fence", replace(_HEEDING, transaction="fences")),
    Selection("effects and decisions", replace(_EFFECT, decisions=1, refuses=True, drain=False), walks=20),
    Selection("effects and cancels", replace(_EFFECT, cancel=True, swallows=True), walks=20),
    Selection("effects with lost replies", replace(_EFFECT, faults=1, allowed=1, drain=False), walks=20),
    Selection(
        "effects that were given up", replace(_EFFECT, allowed=1, decisions=2, replay=True, drain=False), walks=20
    ),
    Selection(
        "effects with keys that are forgotten",
        replace(_EFFECT, effect="repeatable", forgets=True, refuses=True, drain=False),
        walks=20,
    ),
    Selection(
        "effects, reconcilers, deadlines",
        replace(_EFFECT, reconciler=True, goes_on=True, late_calls=False, deadline=True, drain=False),
        walks=20,
    ),
    Selection("effects of types that are not repeatable", replace(_EFFECT, once=True, decisions=1), walks=20),
)
