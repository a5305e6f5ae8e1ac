"""A stage for the tests of a module: one ledger with gates, cleared after every order of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.interleavings import grounds
from tests.ledger.interleavings.scenes import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Databases


@pytest.fixture(scope="module")
def stage(databases: Databases) -> Iterator[Stage]:
    """One ledger and three sessions."""
    made = databases.with_ledger()
    with Stage(made, "interleavings") as opened:
        grounds.declare_types(opened.ledger)
        yield opened
    databases.drop(made)
