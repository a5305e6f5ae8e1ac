"""What tests of the coordinator share."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.broker.publisher import Publisher
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from tests.coordinator.stage import Stage, stage
from tests.coordinator.sweeping_stage import Depot
from tests.ledger.conftest import doors, ledger, shared_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.databases import Database
    from tests.ledger.ledger_driver import Ledger

__all__ = ["doors", "ledger", "shared_clock"]


@pytest.fixture
async def staged(database: Database, broker_url: str, namespace: str) -> AsyncIterator[Stage]:
    """A ledger with the job type `work`; its route is not declared."""
    async with stage(database, broker_url, namespace) as made:
        yield made


@pytest.fixture
async def publisher(broker_url: str) -> AsyncIterator[Publisher]:
    made = Publisher(broker_url)
    yield made
    await made.close()


@pytest.fixture
async def depot(ledger: Ledger, tmp_path: Path) -> AsyncIterator[Depot]:
    """Artifacts in a folder, with leases of an hour; more time passes than the months of events that set-up made."""
    ledger.coordinator.sql("select brokerjobs.make_partitions(48)")
    ledger.declare("work", lease=timedelta(hours=1))
    store = ArtifactStore(StoreOptions(url=str(tmp_path / "store")))
    store.prepare()
    connection = AsyncLedgerConnection(ConnectOptions(ledger.database.coordinator_url))
    yield Depot(ledger, store, connection)
    await connection.close()
