"""A ledger on which the model's traces are replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.ledger_caller import Place
from tests.ledger.ledger_clock import LedgerClock
from tests.ledger.ledger_driver import Doors, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Databases


@pytest.fixture(scope="module")
def ledger(databases: Databases) -> Iterator[Ledger]:
    """One ledger of the module's own; a replay takes everything back."""
    made = databases.with_ledger()
    doors = Doors(made)
    with doors.connect("owner") as owner, Ledger(doors, LedgerClock(owner), Place("model")) as opened:
        yield opened
    doors.close()
    databases.drop(made)
