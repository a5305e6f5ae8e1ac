"""Drives whole jobs in one process: a worker as a task, submissions and rings by the doors of ledger and broker."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from uuid_utils.compat import uuid7

from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.codec import doorbell
from brokerjobs.broker.names import route_name
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from brokerjobs.coordinator.process import BrokerOptions, Options, serve
from brokerjobs.coordinator.service import Periods
from brokerjobs.ledger import calls, inquiries, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, LedgerConnection
from brokerjobs.worker.options import Duty, WorkerOptions
from brokerjobs.worker.worker import DrainedWith, Worker
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from uuid import UUID

    from brokerjobs.app import App
    from brokerjobs.broker.protocol import Publisher
    from brokerjobs.broker.topology import QueueType
    from brokerjobs.job_type import JobType
    from tests.databases import Database


@dataclass
class Flow:
    """A ledger and a broker with one app's types registered and its routes declared."""

    app: App
    database: Database
    broker_url: str
    publisher: Publisher
    options: WorkerOptions
    announced: bool = False
    """Submissions leave their ring to the test for two seconds, instead of to the relay."""
    queue_type: QueueType = "quorum"
    asking: AsyncLedgerConnection = field(init=False)

    def __post_init__(self) -> None:
        self.asking = AsyncLedgerConnection(ConnectOptions(self.database.producer_url))

    async def submit(self, job_type: JobType[Any, Any], payload: Any, **more: Any) -> inquiries.Submitted:
        """Submits one job; its ring stays in the outbox."""
        new = inquiries.NewJob(uuid7(), job_type.encode_payload(payload).decode(), None, {}, None, None, None)
        batch = inquiries.SubmitBatch(
            self.app.namespace,
            job_type.name,
            "tests",
            job_type.fingerprint,
            datetime.now(UTC),
            True,
            [replace(new, **more)],
        )
        (submitted,) = await self.asking.fetch(inquiries.submit(batch))
        assert submitted.verdict == "created", submitted
        return submitted

    async def submit_many(self, job_type: JobType[Any, Any], payloads: Sequence[Any], **more: Any) -> list[UUID]:
        """Submits jobs in one batch; the relay rings them."""
        jobs = [
            replace(
                inquiries.NewJob(uuid7(), job_type.encode_payload(one).decode(), None, {}, None, None, None), **more
            )
            for one in payloads
        ]
        now, kind = datetime.now(UTC), job_type.name
        batch = inquiries.SubmitBatch(self.app.namespace, kind, "tests", job_type.fingerprint, now, False, jobs)
        answers = await self.asking.fetch(inquiries.submit(batch))
        assert {answer.verdict for answer in answers} == {"created"}
        return [answer.id for answer in answers]

    async def ring(self, job_id: UUID, times: int = 1, queue: str = "default") -> None:
        """Publishes doorbells of a job, each with a ticket of its own."""
        route = route_name(self.app.namespace, queue)
        rings = [
            doorbell(ticket=uuid7(), job_id=job_id, namespace=self.app.namespace, route=route) for _ in range(times)
        ]
        assert await self.publisher.publish(rings) == [PublishOutcome.CONFIRMED] * times

    async def record(self, job_id: UUID) -> dict[str, Any]:
        """The job's record."""
        (row,) = await self.asking.fetch(inquiries.record(job_id))
        assert row.record is not None
        return row.record

    async def state(self, job_id: UUID) -> str:
        """The job's state."""
        (row,) = await self.asking.fetch(inquiries.status([job_id]))
        return row.state

    async def reached(self, job_id: UUID, state: str, within_seconds: float = 10.0) -> dict[str, Any]:
        """Waits until the job is in `state`; answers its record."""

        async def there() -> bool:
            return await self.state(job_id) == state

        await eventually(there, within_seconds)
        return await self.record(job_id)

    async def cancel(self, job_id: UUID) -> str:
        """Asks for a cancel; answers the verdict."""
        (row,) = await self.asking.fetch(inquiries.cancel(job_id, "tests", "on second thoughts"))
        return row.verdict

    async def reap(self, job_id: UUID) -> dict[str, Any]:
        """Plays the reaper, and nothing else of a coordinator, until the job runs no more; answers its record."""
        process = calls.ProcessIdentity(uuid7(), "reaper-a", socket.gethostname(), os.getpid())
        reaping = AsyncLedgerConnection(ConnectOptions(self.database.coordinator_url))

        async def given_up() -> bool:
            await reaping.fetch(services.lead("reaper", process, 4.0))
            return job_id in {expired.job_id for expired in await reaping.fetch(services.expire(process, 100))}

        await eventually(given_up, 20)
        await reaping.close()
        return await self.record(job_id)

    def worker(self, name: str = "worker-a", **options: Any) -> Worker:
        """A worker of the app, with a least-privileged login."""
        process = calls.ProcessIdentity(uuid7(), name, socket.gethostname(), os.getpid())
        types = {n: t for n, t in self.app.types.items() if t.handled_by is not None}
        return Worker(Duty(process, self.app.namespace, types), replace(self.options, **options))

    @asynccontextmanager
    async def working(self, worker: Worker) -> AsyncGenerator[Worker]:
        """Runs a worker beside the test, and drains it at the end."""
        async with asyncio.TaskGroup() as group:
            running: asyncio.Task[DrainedWith] = group.create_task(worker.run())
            try:
                yield worker
            finally:
                worker.drain()
                worker.drain()
            await running


@asynccontextmanager
async def flow(
    app: App, database: Database, broker_url: str, *, queue_type: QueueType = "quorum"
) -> AsyncGenerator[Flow]:
    """Registers the app's types and declares its routes, as `brokerjobs setup` does."""
    types: Sequence[JobType[Any, Any]] = list(app.types.values())
    setup = LedgerConnection(ConnectOptions(database.owner_url))
    setup.fetch(services.register_types(app.namespace, [t.as_data() for t in types], change=True))
    setup.close()
    routes = frozenset(route_name(app.namespace, t.terms.queue) for t in types)
    broker = broker_at(broker_url)
    await broker.declare(Topology(frozenset({app.namespace}), routes, queue_type))
    publisher = broker.publisher()
    options = WorkerOptions(database_url=database.worker_url, broker_url=broker_url)
    made = Flow(app, database, broker_url, publisher, options, queue_type=queue_type)
    try:
        yield made
    finally:
        await made.asking.close()
        await publisher.close()


@asynccontextmanager
async def coordinating(made: Flow, *, in_thread: bool = False, **periods: Any) -> AsyncGenerator[None]:
    """Runs a coordinator beside the test, with short periods; `in_thread` if the test blocks its own event loop.

    It looks for lost doorbells as seldom as in production, unless `periods` says otherwise.
    """
    options = Options(
        ledger=ConnectOptions(made.database.coordinator_url),
        broker=BrokerOptions(url=made.broker_url, queue_type=made.queue_type),
        name="coordinator-a",
        heartbeat=timedelta(seconds=1),
        periods=Periods(
            service_lease=timedelta(seconds=2),
            relay_poll=timedelta(milliseconds=10),
            tick=timedelta(milliseconds=50),
            **periods,
        ),
    )
    async with AsyncExitStack() as stack:
        if in_thread:
            loop, stop = asyncio.new_event_loop(), asyncio.Event()

            def serve_and_close() -> None:
                loop.run_until_complete(serve(options, stop))
                loop.close()

            thread = threading.Thread(target=serve_and_close)
            thread.start()
            stack.callback(thread.join)
            stack.callback(loop.call_soon_threadsafe, stop.set)
        else:
            stop = asyncio.Event()
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(serve(options, stop))
            stack.callback(stop.set)
        yield
