"""A deadline ends its job in time while one coordinator runs, whether or not any worker is alive.

Nothing here looks at the test's own clock.  A trigger of the test's ledger writes down each tick of the scheduler, by
the ledger's clock and with the transaction in which it does its work.  However slow the machine is, the first tick that
begins after a deadline has to end its job; and the ticks come as often as a second's bound needs, by the shortest of
their distances: a slow machine makes them longer, and none shorter than the coordinator means to rest.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from uuid_utils.compat import uuid7

from brokerjobs import App
from brokerjobs.broker.names import route_name
from brokerjobs.ledger import calls
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from tests.flow.driving import Flow, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    from tests.databases import Database

ROOT = Path(__file__).parents[2]
BOUND = timedelta(seconds=1)
WRITE_TICKS_DOWN = """
create table public.tick (at timestamptz not null, xid text not null);
create function public.note_tick() returns trigger language plpgsql security definer as $$
begin
  insert into public.tick values (new.ticked_at, pg_current_xact_id()::xid::text);
  return null;
end $$;
create trigger note_tick after update on brokerjobs.service for each row
  when (new.name = 'scheduler' and new.ticked_at > old.ticked_at) execute function public.note_tick()
"""
ENDS = """
select s.deadline, e.at, e.xmin::text, s.state
  from brokerjobs.job_state s join brokerjobs.event e on e.job_id = s.job_id
  where e.kind = 'deadline_passed'
"""


@dataclass(frozen=True, slots=True)
class Tick:
    at: datetime
    xid: str


@dataclass(frozen=True, slots=True)
class End:
    """When a deadline passed, when that was recorded, and by which transaction."""

    deadline: datetime
    at: datetime
    xid: str
    state: str


async def rows(owner: psycopg.AsyncConnection, query: LiteralString) -> list[tuple[Any, ...]]:
    return await (await owner.execute(query)).fetchall()


async def claim(made: Flow, job: UUID, job_type: str) -> None:
    """The claim and the start of a worker that is gone at once."""
    gone = calls.ProcessIdentity(uuid7(), "gone", "host", 1)
    ledger = AsyncLedgerConnection(ConnectOptions(made.database.worker_url))
    route = route_name(made.app.namespace, "default")
    request = calls.ClaimRequest(job, uuid7(), route, uuid7(), redelivered=False, delivered_at=datetime.now(UTC))
    (claimed,) = await ledger.fetch(calls.claim(gone, made.app.namespace, [job_type], [request]))
    holding = calls.Holding(job, claimed.attempt_id, claimed.fencing_number)
    (answer,) = await ledger.fetch(calls.start([holding], [datetime.now(UTC)]))
    assert answer.verdict == "started"
    await ledger.close()


@pytest.mark.timeout(150)  # a whole program is started, and the machine may be busy
async def test_deadline__ends_its_job_at_the_first_tick_after_it_while_one_coordinator_runs_and_no_worker(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)

    @app.job("work", repeatable=True, lease=timedelta(hours=1))
    async def work(payload: int) -> None: ...

    @app.job("pay", repeatable=False, lease=timedelta(hours=1))
    async def pay(payload: int) -> None: ...

    owner = await psycopg.AsyncConnection.connect(database.owner_url, autocommit=True)
    await owner.execute(WRITE_TICKS_DOWN.encode())
    urls = {"BROKERJOBS_DATABASE_URL": database.coordinator_url, "BROKERJOBS_BROKER_URL": broker_url}
    coordinator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "brokerjobs.cli", "coordinator"), cwd=ROOT, env={**os.environ, **urls}
    )

    async def ticks() -> list[Tick]:
        return [Tick(*row) for row in await rows(owner, "select at, xid from public.tick order by at")]

    async def all_rung() -> bool:
        return await rows(owner, "select from brokerjobs.outbox") == []

    async def all_ended() -> bool:
        return len(await rows(owner, ENDS)) == len(jobs)

    try:
        async with flow(app, database, broker_url) as made:
            await eventually(ticks, 30)
            ahead = datetime.now(UTC) + timedelta(hours=1)
            jobs = [(await made.submit(kind, 1, deadline=ahead)).id for kind in (work, work, pay) * 3]
            for job, kind in zip(jobs, ("nobody", "work", "pay") * 3, strict=True):
                if kind != "nobody":
                    await claim(made, job, kind)
            await eventually(all_rung, 30)  # from now on nobody but the scheduler takes these jobs' rows
            await owner.execute(
                "update brokerjobs.job_state s set deadline = clock_timestamp() + (3 + n) * interval '150 milliseconds'"
                " from unnest(%s) with ordinality x (job, n) where s.job_id = x.job",
                [jobs],
            )
            [(known,)] = await rows(owner, "select clock_timestamp()")  # a tick that begins later sees these deadlines
            await eventually(all_ended, 45)
    finally:
        if coordinator.returncode is None:
            coordinator.terminate()
        await coordinator.wait()
    ended, seen = [End(*row) for row in await rows(owner, ENDS)], await ticks()
    await owner.close()

    assert sorted(end.state for end in ended) == ["failed"] * 6 + ["review"] * 3
    for end in ended:
        assert end.at >= end.deadline
        (own,) = [tick for tick in seen if tick.xid == end.xid]
        assert [tick for tick in seen if max(end.deadline, known) <= tick.at < own.at] == []
    assert min(after.at - before.at for before, after in pairwise(seen)) <= BOUND
