"""Ledgers with a clock of their own: `ledger` shares its module's database, `own_ledger` has one to itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.ledger.ledger_caller import Place
from tests.ledger.ledger_clock import LedgerClock
from tests.ledger.ledger_driver import Doors, Ledger

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.databases import Database, Databases


@pytest.fixture(scope="module")
def doors(databases: Databases) -> Iterator[Doors]:
    """One ledger for the tests of a module: jobs do not meet, and each test has its own namespace."""
    made = databases.with_ledger()
    opened = Doors(made)
    yield opened
    opened.close()
    databases.drop(made)


@pytest.fixture(scope="module")
def shared_clock(doors: Doors) -> Iterator[LedgerClock]:
    """Its clock, which only moves forward."""
    with doors.connect("owner") as owner:
        yield LedgerClock(owner)


@pytest.fixture
def ledger(doors: Doors, shared_clock: LedgerClock, namespace: str) -> Iterator[Ledger]:
    """A driver of the module's ledger, in a namespace of the test's own."""
    with Ledger(doors, shared_clock, Place(namespace)) as driver:
        yield driver


@pytest.fixture
def own_ledger(database: Database, namespace: str) -> Iterator[Ledger]:
    """A driver of a ledger that no other test uses."""
    with _driven(database, namespace) as driver:
        yield driver


@pytest.fixture
def own_ledger_with_sessions(database: Database, namespace: str) -> Iterator[Ledger]:
    """The same for a test whose callers keep something in their sessions, which a pooler would not let them."""
    with _driven(database.direct, namespace) as driver:
        yield driver


@contextmanager
def _driven(database: Database, namespace: str) -> Generator[Ledger]:
    doors = Doors(database)
    with doors.connect("owner") as owner, Ledger(doors, LedgerClock(owner), Place(namespace)) as driver:
        yield driver
    doors.close()
