"""When processes say to whoever looks after containers that all is well."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from brokerjobs import App
from brokerjobs.coordinator.process import BrokerOptions, Options, serve
from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection
from brokerjobs.servers.processes import LOOPBACK, free_port
from tests.databases import at
from tests.flow.driving import flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.databases import Database


async def test_worker__is_alive_while_the_ledger_answers_and_its_event_loop_goes_on(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    app, path = App(namespace), tmp_path / "alive"

    @app.job("work", repeatable=True)
    async def _(_: int) -> None: ...

    async with flow(app, database, broker_url) as made:
        worker = made.worker(alive_file=path)
        beat: Any = cast("Any", worker)._beat  # what the lease keeper's thread calls
        period = made.options.heartbeat.total_seconds()
        here = LedgerConnection(ConnectOptions(database.worker_url))
        away = LedgerConnection(ConnectOptions(at(database.worker_url, LOOPBACK, free_port())))

        with pytest.raises(LedgerUnavailable):
            await asyncio.to_thread(beat, away, 0.0)
        await asyncio.to_thread(beat, here, period + 1)
        assert not path.exists()

        async with made.working(worker):
            await eventually(_of(path.exists))
        here.close()


async def test_coordinator__is_alive_while_the_ledger_answers(
    database: Database, broker_url: str, tmp_path: Path
) -> None:
    stop, path = asyncio.Event(), tmp_path / "alive"
    options = Options(
        ledger=ConnectOptions(database.coordinator_url), broker=BrokerOptions(url=broker_url), alive_file=path
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(options, stop))
        await eventually(_of(path.exists))
        stop.set()


def _of(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return condition()

    return asked
