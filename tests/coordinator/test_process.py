from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from brokerjobs.coordinator import partitions, reaper, relay, routes, scheduler
from brokerjobs.coordinator.process import BrokerOptions, Options, serve
from brokerjobs.errors import LedgerUnavailable, PermissionDenied, SchemaMismatch
from brokerjobs.ledger.database import ConnectOptions
from tests.coordinator.coordinator_process import HEARTBEAT
from tests.coordinator.stage import LEASE, PERIODS, arrived, rung
from tests.waiting import eventually

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncGenerator, AsyncIterator

    from tests.coordinator.stage import Stage
    from tests.databases import Database

ROOT = Path(__file__).parents[2]
NAMES = (relay.NAME, reaper.NAME, scheduler.NAME, routes.NAME)
# The lead of the dead runs out, then another hears of it and makes its first tick; doubled for a busy machine.
TAKEN_OVER_SECONDS = 2 * (PERIODS.service_lease + HEARTBEAT * 1.1 + PERIODS.tick).total_seconds() + 1


class Start(Protocol):
    """Starts a coordinator process; it is killed at the end of the test."""

    async def __call__(self, name: str, *, send_itself: signal.Signals | None = None) -> Process: ...


@pytest.fixture
async def start(staged: Stage) -> AsyncIterator[Start]:
    async with AsyncExitStack() as started:

        async def one(name: str, *, send_itself: signal.Signals | None = None) -> Process:
            return await started.enter_async_context(coordinator(staged, name, send_itself))

        yield one


@asynccontextmanager
async def coordinator(staged: Stage, name: str, send_itself: signal.Signals | None) -> AsyncGenerator[Process]:
    environment = {
        **os.environ,
        "BJ_DATABASE": staged.database.coordinator_url,
        "BJ_BROKER": staged.broker_url,
        "BJ_NAME": name,
        "BJ_SIGNAL": str(int(send_itself or 0)),
    }
    module = "tests.coordinator.coordinator_process"
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def leads(staged: Stage, name: str, within_seconds: float = 30) -> None:
    async def does() -> bool:
        return {await staged.leader(service) for service in NAMES} == {name}

    await eventually(does, within_seconds)


async def beats(staged: Stage, name: str, times: int = 1) -> None:
    """Waits until the process has sent so many more heartbeats."""
    seen = set[object]()

    async def does() -> bool:
        rows = await staged.sql("select heartbeat_at from brokerjobs.worker where name = %s", name)
        seen.update(row["heartbeat_at"] for row in rows)
        return len(seen) > times

    await eventually(does, 30)


async def is_rung(staged: Stage, within_seconds: float = 30) -> None:
    async def does() -> bool:
        return await staged.outbox() == 0

    await eventually(does, within_seconds)


async def is_stopped(process: Process) -> None:
    async def does() -> bool:
        return state_of(process) == "T"

    await eventually(does, 30)


def state_of(process: Process) -> str:
    """The state of a process that has not ended, in one letter (proc(5))."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


async def two(staged: Stage, start: Start) -> tuple[Process, Process]:
    """The first leads; the second knows it."""
    first = await start("first")
    await leads(staged, "first")
    second = await start("second")
    await beats(staged, "second")
    return first, second


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_process__another_rings_and_reaps_when_the_leader_disappears(
    staged: Stage, start: Start, how: signal.Signals
) -> None:
    first, _ = await two(staged, start)
    (lost,) = await staged.submit()
    await is_rung(staged)
    assert (await staged.claim(lost)).verdict == "granted"
    assert rung(await arrived(staged.broker_url, staged.route())) == [lost]

    first.send_signal(how)
    (job,) = await staged.submit()

    await leads(staged, "second", TAKEN_OVER_SECONDS)
    reaped_within = TAKEN_OVER_SECONDS + LEASE.total_seconds()

    async def is_reaped() -> bool:
        return (await staged.status(lost)).state == "queued"

    await eventually(is_reaped, reaped_within)
    await is_rung(staged)
    # The lost job is rung again by the scheduler, after its delay.
    assert set(rung(await arrived(staged.broker_url, staged.route()))) >= {job}
    assert await staged.value("select closed_by from brokerjobs.attempt") == "second"


async def test_process__a_stopped_leader_that_returns_does_no_harm(staged: Stage, start: Start) -> None:
    first, _ = await two(staged, start)
    first.send_signal(signal.SIGSTOP)
    jobs = await staged.submit(3)
    await leads(staged, "second")
    await is_rung(staged)

    first.send_signal(signal.SIGCONT)
    await beats(staged, "first", 3)

    await leads(staged, "second")
    assert sorted(rung(await arrived(staged.broker_url, staged.route()))) == sorted(jobs)
    assert first.returncode is None


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_process__a_relay_that_disappears_before_it_marks_rings_twice_and_harms_nothing(
    staged: Stage, start: Start, how: signal.Signals
) -> None:
    await staged.declare()
    first = await start("first", send_itself=how)
    await leads(staged, "first")
    (job,) = await staged.submit()
    await (is_stopped(first) if how == signal.SIGSTOP else first.wait())
    await staged.let_holds_run_out()

    await start("second")
    await leads(staged, "second")
    await is_rung(staged)
    if how == signal.SIGSTOP:
        first.send_signal(signal.SIGCONT)
        await beats(staged, "first")  # and so it has marked what another has marked

    first_ring, second_ring = await arrived(staged.broker_url, staged.route())
    assert first_ring.message_id == second_ring.message_id
    claimed = await staged.claim(job)
    assert (await staged.claim(job)).verdict == "held"
    assert (await staged.report(claimed)).verdict == "accepted"
    assert (await staged.claim(job)).verdict == "finished"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_process__hands_over_and_ends_with_exit_code_0(staged: Stage, start: Start, how: signal.Signals) -> None:
    first, _ = await two(staged, start)

    first.send_signal(how)

    async with asyncio.timeout(30):
        assert await first.wait() == 0
    assert await staged.value("select state from brokerjobs.worker where name = 'first'") == "stopped"
    # Not even the lead of the partitions, which lasts for long, is waited for.
    assert await staged.leader(partitions.NAME) in {None, "second"}
    await leads(staged, "second")


async def test_process__says_in_the_ledger_that_it_lives(staged: Stage, start: Start) -> None:
    process = await start("first")
    await beats(staged, "first", 2)

    (row,) = await staged.sql("select name, role, pid, state from brokerjobs.worker")
    assert row == {"name": "first", "role": "coordinator", "pid": process.pid, "state": "online"}


def options(url: str, broker_url: str) -> Options:
    return Options(
        ledger=ConnectOptions(url), broker=BrokerOptions(url=broker_url), heartbeat=HEARTBEAT, periods=PERIODS
    )


async def test_serve__refuses_a_database_without_a_ledger(blank_database: Database, broker_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="brokerjobs setup"):
        await serve(options(blank_database.owner_url, broker_url), asyncio.Event())


async def test_serve__refuses_a_schema_that_does_not_serve_this_code(staged: Stage) -> None:
    await staged.sql("update brokerjobs.meta set oldest_code = 9999, schema_version = 9999")

    with pytest.raises(SchemaMismatch):
        await serve(options(staged.database.coordinator_url, staged.broker_url), asyncio.Event())


async def test_serve__does_not_start_without_a_ledger(broker_url: str) -> None:
    with pytest.raises(LedgerUnavailable):
        await serve(options("postgresql://nobody@127.0.0.1:1/nothing", broker_url), asyncio.Event())


@pytest.mark.parametrize("kind", ["worker_url", "reader_url"])
async def test_serve__ends_if_its_login_may_run_nothing(staged: Stage, kind: str) -> None:
    with pytest.raises(PermissionDenied, match="--grant"):
        await serve(options(getattr(staged.database, kind), staged.broker_url), asyncio.Event())


async def test_serve__what_ends_a_service_ends_the_process(staged: Stage) -> None:
    await staged.sql("drop function brokerjobs.due")

    with pytest.raises(SchemaMismatch, match="due"):
        await serve(options(staged.database.coordinator_url, staged.broker_url), asyncio.Event())


def test_options__do_not_show_the_broker_password() -> None:
    shown = repr(options("postgresql://localhost/x", "amqp://user:secret@localhost/"))

    assert "secret" not in shown
