"""What tests of the command line share: a folder with an application, and commands that know both servers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import Command
from tests.ledger.ledger_clock import LedgerClock
from tests.ledger.ledger_driver import Doors, Ledger, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Database, Databases

_SHOP = """
from pydantic import BaseModel

from brokerjobs import App, InvalidJob, UnknownOutcome

jobs = App("{namespace}")


class Order(BaseModel):
    cents: int
    note: str = ""


@jobs.job("add", repeatable=True, queue="sums")
async def add(order: Order) -> int:
    return order.cents + 1


@jobs.job("refuse", repeatable=True)
async def refuse(order: Order) -> None:
    raise InvalidJob(f"no order: {{order.note}}")


@jobs.job("unclear", repeatable=False)
def unclear(order: Order) -> None:
    raise UnknownOutcome("nobody knows")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; what is imported from it is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) is None or str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def shop(folder: Path, namespace: str) -> str:
    """An application `shop:jobs` in the current folder, with the types add, refuse and unclear."""
    (folder / "shop.py").write_text(_SHOP.format(namespace=namespace))
    return "shop:jobs"


@pytest.fixture
def offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Commands that know no server, and no width of a terminal."""
    for name in ("BROKERJOBS_DATABASE_URL", "BROKERJOBS_BROKER_URL", "BROKERJOBS_APP", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return Command(folder, {"NO_COLOR": "1"})


@pytest.fixture
def brokerjobs(offline: Command, database: Database, broker_url: str) -> Command:
    """Commands of a producer on a ledger."""
    offline.env |= {"BROKERJOBS_DATABASE_URL": database.producer_url, "BROKERJOBS_BROKER_URL": broker_url}
    return offline


@pytest.fixture
def as_owner(database: Database) -> dict[str, str]:
    """The environment of whoever sets up the ledger."""
    return {"BROKERJOBS_DATABASE_URL": database.owner_url}


@pytest.fixture
def operator(brokerjobs: Command, database: Database) -> Command:
    """Commands of an operator on the same ledger."""
    env = brokerjobs.env | {"BROKERJOBS_DATABASE_URL": database.operator_url}
    return Command(brokerjobs.folder, env)


@pytest.fixture
def ready(brokerjobs: Command, as_owner: dict[str, str], shop: str) -> Command:
    """Commands of a producer after `brokerjobs setup shop:jobs`."""
    brokerjobs("setup", shop, env=as_owner).ok()
    return brokerjobs


@pytest.fixture(scope="module")
def database(databases: Databases) -> Iterator[Database]:
    """One ledger for the tests of a module: jobs do not meet, since each test has its own namespace."""
    made = databases.with_ledger()
    yield made
    databases.drop(made)


@pytest.fixture(scope="module")
def doors(database: Database) -> Iterator[Doors]:
    """Connections to it."""
    opened = Doors(database)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_clock(doors: Doors) -> Iterator[LedgerClock]:
    """Its clock, once a test of the module has asked for `ledger`; it only moves forward."""
    with doors.connect("owner") as owner:
        yield LedgerClock(owner)


@pytest.fixture
def ledger(doors: Doors, shared_clock: LedgerClock, namespace: str) -> Iterator[Ledger]:
    """The ledger of `brokerjobs`, driven call by call, with a clock that the test sets."""
    with Ledger(doors, shared_clock, Place(namespace)) as driver:
        yield driver
