"""What tests of the coordinator share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker.publisher import Publisher
from tests.coordinator.stage import Stage, stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.databases import Database


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
