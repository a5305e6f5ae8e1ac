"""The shortest story that breaks a promise: with fewer sessions if that is enough, and in the simplest order."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.ledger.interleavings.explorer import Explorer, Triple

if TYPE_CHECKING:
    from tests.ledger.interleavings.scenes import Stage
    from tests.ledger.interleavings.story import Story


def first_broken(stage: Stage, triple: Triple) -> Story | None:
    """The first order that breaks a promise, if any does."""
    return next((story for story in Explorer(stage, triple) if story.broken), None)


def shortest(stage: Stage, triple: Triple, found: Story) -> Story:
    """The same breach by one or two of the three sessions, if they can do it alone."""
    for size in (1, 2):
        for parts in itertools.combinations(triple.parts, size):
            fewer = replace(
                triple, name=f"{triple.name}, of whom {' and '.join(p.name for p in parts)} do", parts=parts
            )
            story = first_broken(stage, fewer)
            if story is not None and set(story.broken) & set(found.broken):
                return story
    return found
