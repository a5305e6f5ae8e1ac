"""What idle copies cost the database, against the design's arithmetic."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.coordinator.process import BrokerOptions, Options, serve
from brokerjobs.coordinator.sweeper import Sweeping
from brokerjobs.ledger.database import ConnectOptions
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from brokerjobs.servers.finder import Server
    from tests.coordinator.stage import Stage

SECONDS = 8.0
# One of the copies leads: relay every 50 ms, reaper, explainer and routes every second, scheduler twice, the others
# seldom (the sweeper of an empty store once a minute); three heartbeats in 10 s.
WANTED = 20 + 5 + 0.3


@asynccontextmanager
async def copies(staged: Stage, count: int, folder: Path) -> AsyncGenerator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            options = Options(
                ledger=ConnectOptions(staged.database.coordinator_url),
                broker=BrokerOptions(url=staged.broker_url),
                name=f"copy-{number}",
                sweeping=Sweeping(store=ArtifactStore(StoreOptions(url=str(folder)))),
            )
            group.create_task(serve(options, stop))
        try:
            yield
        finally:
            stop.set()


async def test_cost__three_idle_copies_ask_no_more_than_one(staged: Stage, postgres: Server, tmp_path: Path) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as outside:

        def transactions() -> int:
            """Statements are transactions: all of ours are in autocommit."""
            row = outside.execute(
                "select xact_commit + xact_rollback from pg_stat_database where datname = %s", [staged.database.name]
            ).fetchone()
            assert row is not None
            return int(row[0])

        async def all_are_up() -> bool:
            return bool(await staged.value("select count(*) = 3 from brokerjobs.worker"))

        async with copies(staged, 3, tmp_path):
            await eventually(all_are_up, 30)
            before, began = transactions(), time.monotonic()

            async def measured() -> bool:
                # Asked of another database: nothing but the copies is counted.
                return time.monotonic() - began >= SECONDS

            await eventually(measured, 30)
            rate = (transactions() - before) / (time.monotonic() - began)

    # A server process tells what it did about once a second, so the edges of the time measured are not sharp.
    assert 3 < rate <= WANTED * 1.2, rate
