"""Three sessions of the ledger's functions on one job, in every order, keep every promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.interleavings.explorer import Explorer
from tests.ledger.interleavings.shortest import shortest
from tests.ledger.interleavings.triples import TRIPLES

if TYPE_CHECKING:
    from tests.ledger.interleavings.scenes import Stage


@pytest.mark.timeout(300)  # bounded by the number of orders; the machine may be busy
@pytest.mark.parametrize("name", TRIPLES)
def test_triples__keep_every_promise_in_every_order(stage: Stage, name: str) -> None:
    triple, told = TRIPLES[name], 0
    for story in Explorer(stage, triple):
        told += 1
        if story.broken:
            pytest.fail(str(shortest(stage, triple, story)), pytrace=False)

    assert told >= 4  # as there are orders of three that exclude one another; two may do the same in either order
