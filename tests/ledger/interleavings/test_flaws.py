"""Negative controls: each flaw of the protocol's review, planted in the product's SQL, breaks a promise in a triple.

With --log-cli-level=info pytest tells each story.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.ledger.interleavings import artifact_flaws, effect_flaws, flaws
from tests.ledger.interleavings.flaws import Flaw, planted, with_flaw
from tests.ledger.interleavings.shortest import first_broken
from tests.ledger.interleavings.triples import TRIPLES

if TYPE_CHECKING:
    from tests.ledger.interleavings.scenes import Stage

pytestmark = pytest.mark.timeout(300)  # bounded by the number of orders; the machine may be busy

FLAWS = (*flaws.FLAWS, *effect_flaws.FLAWS, *artifact_flaws.FLAWS)

_log = logging.getLogger(__name__)


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_flaws__are_caught(stage: Stage, flaw: Flaw) -> None:
    with planted(stage, flaw):
        story = first_broken(stage, with_flaw(TRIPLES[flaw.triple], flaw))

    assert story is not None, f"no order of {flaw.triple!r} shows that {flaw.name}"
    _log.info("%s\ncaught by %s", flaw.name, story)
    assert any(sentence.startswith(flaw.promise) for sentence in story.broken), str(story)


def test_flaws__are_gone_afterwards(stage: Stage) -> None:
    """What follows is tested on the product."""
    flaw = FLAWS[0]
    with planted(stage, flaw):
        pass

    assert first_broken(stage, TRIPLES[flaw.triple]) is None
