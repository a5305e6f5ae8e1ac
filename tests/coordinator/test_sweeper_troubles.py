"""A store that is away, hangs or keeps an object; sweepers killed or replaced; consumers at the same moment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.client.artifacts import Artifacts
from brokerjobs.coordinator import reaper, sweeper
from brokerjobs.coordinator.coordinator import Coordinator
from brokerjobs.coordinator.hands import AT_ONCE
from brokerjobs.coordinator.routes import Queues
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.coordinator.sweeper import Sweeping
from brokerjobs.errors import ArtifactGone, ArtifactStoreRefused, ArtifactStoreUnavailable
from brokerjobs.ledger import artifacts, calls, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from tests.coordinator.stage import PERIODS, process
from tests.coordinator.sweeping_stage import CONTENT, EVERY
from tests.ledger.staging import HOUR, MINUTE, WEEK, sha256_of
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from brokerjobs.artifacts.sources import Chunk
    from brokerjobs.broker.publisher import Publisher
    from tests.coordinator.stage import Stage
    from tests.coordinator.sweeping_stage import Depot

ROOT = Path(__file__).parents[2]
SOON = timedelta(milliseconds=500)
LEAD = (EVERY + timedelta(minutes=1) + PERIODS.service_lease).total_seconds()


class Gate(ArtifactStore):
    """A store at whose gate calls wait until it is opened."""

    def __init__(self, url: str) -> None:
        super().__init__(StoreOptions(url=url))
        self.opened = threading.Event()
        self.arrived = 0

    def _wait(self) -> None:
        self.arrived += 1
        assert self.opened.wait(60)

    def delete(self, path: str) -> None:
        """Deletes it, once it may."""
        self._wait()
        super().delete(path)

    def read(self, path: str) -> Iterator[Chunk]:
        """Reads it, once it may."""
        self._wait()
        yield from super().read(path)

    async def has(self, calls: int) -> None:
        """Waits until so many calls are at the gate."""

        async def arrived() -> bool:
            return self.arrived >= calls

        await eventually(arrived)


@pytest.fixture
def gate(depot: Depot) -> Iterator[Gate]:
    """Before the test's store; open at the end, so that no thread stays."""
    made = Gate(depot.store)
    yield made
    made.opened.set()


def due(depot: Depot) -> UUID:
    """An artifact that is to be removed."""
    _, safe = depot.handed_over()
    depot.acknowledge(safe)
    depot.ledger.clock.advance(HOUR)
    return safe


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return [one.name for one in folder.iterdir()]


async def test_store__that_is_away_costs_the_lead_and_is_tried_again(
    depot: Depot, caplog: pytest.LogCaptureFixture
) -> None:
    safe = due(depot)
    away = depot.folder.with_name("away")
    depot.folder.rename(away)
    running = depot.sweeper()

    with pytest.raises(ArtifactStoreRefused, match="there is no folder"):
        await running.tick()
    assert await running.service.run_once() == LED_ELSEWHERE  # for a period without a word to anybody
    shown = depot.shown(safe)
    assert (shown.removing is None, shown.removed_at) == (False, None)
    depot.ledger.clock.advance(MINUTE)
    with pytest.raises(ArtifactStoreRefused):
        await running.tick()
    assert caplog.text.count("the store kept 1 of 1 object, which is asked again later") == 1

    away.rename(depot.folder)
    depot.ledger.clock.advance(MINUTE)
    assert await running.tick() == EVERY
    assert depot.paths() == set()
    assert depot.shown(safe).removed_at is not None


async def test_store__that_keeps_one_object_gives_the_others(depot: Depot, caplog: pytest.LogCaptureFixture) -> None:
    kept, *others = [depot.handed_over()[1] for _ in range(5)]
    for one in (kept, *others):
        depot.acknowledge(one)
    depot.ledger.clock.advance(HOUR)
    file = depot.folder / depot.path(kept)
    file.unlink()
    file.mkdir()  # what cannot be deleted as a file, by any user
    running = depot.sweeper()

    assert await running.tick() == EVERY
    assert [depot.shown(one).removed_at is None for one in others] == [False] * 4
    depot.ledger.clock.advance(MINUTE)
    with pytest.raises(ArtifactStoreRefused):  # nothing else was there to do
        await running.tick()
    shown = depot.shown(kept)
    assert (shown.removing is None, shown.removed_at) == (False, None)
    assert caplog.text.count("the store kept") == 1
    file.rmdir()
    depot.ledger.clock.advance(MINUTE)
    assert await running.tick() == EVERY
    assert depot.shown(kept).removed_at is not None


async def test_store__that_hangs_costs_a_few_threads_and_stalls_nobody(
    depot: Depot, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "_LONGEST_TICK", SOON)
    several = [depot.handed_over()[1] for _ in range(AT_ONCE + 2)]
    for one in several:
        depot.acknowledge(one)
    depot.ledger.clock.advance(HOUR)
    running = depot.sweeper(store=gate)

    ticking = asyncio.create_task(running.tick())
    await gate.has(AT_ONCE)
    await depot.connection.fetch(services.schema_version())  # the connection that all services of a process share
    assert not ticking.done()
    with pytest.raises(ArtifactStoreUnavailable, match=f"no answer in time, {AT_ONCE} calls are still waiting"):
        await ticking
    for _ in range(2):
        depot.ledger.clock.advance(MINUTE)
        with pytest.raises(ArtifactStoreUnavailable, match="no answer in time"):
            await running.tick()
    assert gate.arrived == AT_ONCE

    gate.opened.set()

    async def all_are_gone() -> bool:
        depot.ledger.clock.advance(MINUTE)
        try:
            await running.tick()
        except ArtifactStoreUnavailable:  # its threads have not all ended yet
            return False
        return all(depot.shown(one).removed_at is not None for one in several)

    await eventually(all_are_gone)
    assert depot.paths() == set()


async def test_coordinator__with_a_store_that_hangs_runs_its_other_services_and_hands_over(
    staged: Stage, publisher: Publisher, tmp_path: Path
) -> None:
    store = Gate(str(tmp_path))
    (job,) = await staged.submit()
    claimed = await staged.claim(job)
    holding = calls.Holding(job, claimed.attempt_id, claimed.fencing_number)
    upload = artifacts.Upload(holding, claimed.attempt_id, "report", None, store.public, None)
    (begun,) = await staged.worker.fetch(artifacts.artifact_stage([upload]))
    assert begun.verdict == "staged"
    await staged.worker.fetch(artifacts.artifact_discard([artifacts.GivenUp(begun.id, holding.attempt_id, "no")]))
    coordinator = Coordinator(
        ledger=ConnectOptions(staged.database.coordinator_url),
        publisher=publisher,
        queues=Queues(staged.broker_url),
        process=process("hanging"),
        periods=PERIODS,
        sweeping=Sweeping(store=store),
    )
    assert f"sweeper {store.public}" in coordinator.services
    coordinator.hear([])
    running = asyncio.create_task(coordinator.run())
    await store.has(1)

    async def reaps() -> bool:
        return (await staged.status(job)).state == "queued"

    await eventually(reaps)
    assert await staged.leader(reaper.NAME) == "hanging"
    async with asyncio.timeout(5):
        await coordinator.hand_over()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    store.opened.set()
    assert await staged.leader(f"sweeper {store.public}") is None


@pytest.mark.parametrize("dies", ["before", "after"])
async def test_sweeper__killed_while_it_deletes_leaves_a_record_that_another_goes_on_from(
    depot: Depot, dies: str
) -> None:
    safe = due(depot)
    environment = {**os.environ, "BJ_DATABASE": depot.ledger.database.coordinator_url, "BJ_STORE": depot.store}
    module = "tests.coordinator.sweeping_process"
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, cwd=ROOT, env={**environment, "BJ_DIES": dies}
    )
    assert await killed.wait() == -signal.SIGKILL

    shown = depot.shown(safe)
    assert depot.is_there(safe) == (dies == "before")
    assert shown.removing is not None
    assert (shown.removing.why, shown.removed_at) == ("acknowledged", None)
    other = depot.sweeper("another")
    assert await other.tick() == LED_ELSEWHERE  # the dead one leads yet
    depot.ledger.clock.advance(LEAD + 60)
    await other.tick()

    assert depot.paths() == set()
    assert depot.shown(safe).removed_at is not None


async def test_sweeper__replaced_while_it_deletes_does_no_harm_when_it_goes_on(depot: Depot, gate: Gate) -> None:
    safe = due(depot)
    ticking = asyncio.create_task(depot.sweeper("paused", store=gate).tick())
    await gate.has(1)
    depot.ledger.clock.advance(LEAD + 60)
    await depot.sweeper("another").tick()
    removed_at = depot.shown(safe).removed_at
    assert removed_at is not None
    depot.ledger.clock.advance(1)

    gate.opened.set()
    await ticking

    assert depot.shown(safe).removed_at == removed_at
    assert depot.paths() == set()


async def test_sweeper__cancelled_while_it_deletes_ends_at_once(depot: Depot, gate: Gate) -> None:
    safe = due(depot)
    ticking = asyncio.create_task(depot.sweeper(store=gate).tick())
    await gate.has(1)

    ticking.cancel()
    async with asyncio.timeout(1):
        await asyncio.gather(ticking, return_exceptions=True)

    assert depot.shown(safe).removed_at is None


async def test_acknowledgement__that_comes_while_the_object_is_deleted_is_recorded(depot: Depot, gate: Gate) -> None:
    _, late = depot.handed_over()
    depot.ledger.clock.advance(WEEK)
    ticking = asyncio.create_task(depot.sweeper(store=gate).tick())
    await gate.has(1)
    assert depot.shown(late).state == "expired_unacknowledged"

    assert depot.acknowledge(late).verdict == "acknowledged"
    gate.opened.set()
    await ticking

    shown = depot.shown(late)
    assert (shown.state, shown.removed_at) == ("acknowledged", depot.ledger.clock.now)


async def test_fetch__of_what_is_removed_meanwhile_says_that_it_is_gone(
    depot: Depot, gate: Gate, tmp_path: Path
) -> None:
    _, late = depot.handed_over()
    connection = AsyncLedgerConnection(ConnectOptions(depot.ledger.database.producer_url))
    consumer = Artifacts(connection, lambda: gate, submitted_by="archive", patience_seconds=1)
    depot.ledger.clock.advance(WEEK - 1)
    fetching = asyncio.create_task(consumer.fetch(late, to=tmp_path / "copy"))
    await gate.has(1)

    depot.ledger.clock.advance(1)
    await depot.sweeper().tick()
    gate.opened.set()

    with pytest.raises(ArtifactGone, match="nobody acknowledged it"):
        await fetching
    await connection.close()
    shown = depot.shown(late)
    assert (shown.state, shown.mismatch) == ("expired_unacknowledged", None)
    assert names(tmp_path) == ["store"]
    assert sha256_of(CONTENT.decode()) == shown.sha256
