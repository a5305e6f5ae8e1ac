"""What idle copies cost the database, against the design's arithmetic."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.coordinator.process import BrokerOptions, Options, serve
from brokerjobs.coordinator.sweeper import Sweeping
from brokerjobs.ledger.database import ConnectOptions
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from pathlib import Path

    from psycopg.rows import TupleRow

    from brokerjobs.servers.finder import Server
    from tests.coordinator.stage import Stage

SECONDS = 8.0
STARTS = 60
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


@contextmanager
def unvacuumed(outside: psycopg.Connection[TupleRow]) -> Generator[None]:
    """Without autovacuum, whose transactions would be counted: it looks at every table of a new database."""
    outside.execute("alter system set autovacuum = off")
    outside.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        outside.execute("alter system reset autovacuum")
        outside.execute("select pg_reload_conf()")


class Told(NamedTuple):
    """How many transactions a server process has just told of, and when (seconds, monotonic)."""

    all: int
    at: float


async def told(transactions: Callable[[], int]) -> Told:
    """Waits for the next news: server processes tell about once a second what they did, and only then it is exact."""
    before = transactions()

    async def is_news() -> bool:
        return transactions() != before

    await eventually(is_news, 30)
    return Told(transactions(), time.monotonic())


async def test_cost__three_idle_copies_ask_no_more_than_one(staged: Stage, postgres: Server, tmp_path: Path) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as outside, unvacuumed(outside):

        def transactions() -> int:
            """Statements are transactions: all of ours are in autocommit."""
            row = outside.execute(
                "select xact_commit + xact_rollback from pg_stat_database where datname = %s", [staged.database.name]
            ).fetchone()
            assert row is not None
            return int(row[0])

        async def all_are_up() -> bool:
            # By a connection that ends: one that idles tells of its own transactions ten seconds later.
            with psycopg.connect(staged.database.admin_url) as asking:
                return asking.execute("select count(*) = 3 from brokerjobs.worker").fetchone() == (True,)

        async with copies(staged, 3, tmp_path):
            await eventually(all_are_up, 30)
            up = transactions()
            while (at_first := await told(transactions)).all - up <= STARTS:
                pass  # what the starts cost
            while (at_last := await told(transactions)).at - at_first.at < SECONDS:
                pass
    rate = (at_last.all - at_first.all) / (at_last.at - at_first.at)

    print(f"{rate:.1f} statements a second")  # noqa: T201
    assert 3 < rate <= WANTED * 1.2, rate
