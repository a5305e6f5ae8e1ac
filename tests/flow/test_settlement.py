"""What a worker has told the ledger of its acknowledgements when it has drained."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from brokerjobs import App
from brokerjobs.ledger.calls import LeaseFigures, SentAck
from tests.flow.driving import flow

if TYPE_CHECKING:
    from tests.databases import Database


async def test_record__waits_for_the_one_that_is_under_way(database: Database, namespace: str, broker_url: str) -> None:
    """A drain ends with it, and cancels whatever is still under way."""
    app = App(namespace)

    @app.job("work", repeatable=True)
    async def _(_: int) -> None: ...

    async with flow(app, database, broker_url) as made:
        worker = cast("Any", made.worker())
        settlement, ledger = worker._settlement, worker._claiming
        settlement._sent.append(SentAck(uuid4(), datetime.now(UTC), LeaseFigures()))
        async with ledger._lock:  # no answer yet
            under_way = asyncio.create_task(settlement.record())
            await asyncio.sleep(0)
            assert settlement._sent == []
            drained = asyncio.create_task(settlement.record())
            for _turn in range(10):
                await asyncio.sleep(0)
            assert not drained.done()
        await asyncio.wait_for(drained, 10)
        assert under_way.done()
        await ledger.close()
