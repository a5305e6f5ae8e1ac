"""A backlog that stands while doorbells are looked for: jobs, a relay, a broker, and a worker that takes its time.

The worker is real where it meets broker and ledger, and has no handlers: what it claims it completes at once.
`python -m tests.coordinator.backlog 100000` does at length what a test does with a few thousand jobs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
from uuid_utils.compat import uuid7

from brokerjobs.broker.codec import READS
from brokerjobs.broker.consumer import Consumer
from brokerjobs.broker.publisher import Publisher
from brokerjobs.coordinator import reconcile, relay
from brokerjobs.ledger import calls, services
from brokerjobs.servers.postgres import PrivatePostgres
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
from tests.coordinator.stage import PERIODS, candidacy, process, stage
from tests.databases import Databases
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from uuid import UUID

    from brokerjobs.broker.protocol import Delivery, Outgoing, Probe, PublishOutcome
    from tests.coordinator.stage import Stage
    from tests.databases import Database

BATCH = 200
PREFETCH = 200
ROUNDS = 10
# A look sends another probe each time, as looks ten minutes apart would.
LONG = replace(PERIODS, batch=BATCH, tick=timedelta(0), probe_timeout=timedelta(0))


class Counting:
    """A publisher that counts what it publishes."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.published = 0

    async def publish(self, messages: Sequence[Outgoing]) -> list[PublishOutcome]:
        """Publishes."""
        self.published += len(messages)
        return await self._publisher.publish(messages)

    async def close(self) -> None:
        """Closes."""
        await self._publisher.close()


@dataclass
class Backlog:
    """What stands, and what is done with it."""

    on: Stage
    publisher: Counting
    consumer: Consumer
    inbox: list[Delivery]
    probes: list[Probe]
    relay: relay.Relay = field(init=False)
    service: reconcile.Reconcile = field(init=False)
    identity: calls.ProcessIdentity = field(default_factory=lambda: process("worker"))
    slowest_look: float = 0.0

    def __post_init__(self) -> None:
        ledger = self.on.coordinator
        self.relay = relay.Relay(ledger, candidacy(relay.NAME, 3600), self.publisher, LONG)
        self.service = reconcile.Reconcile(ledger, candidacy(reconcile.NAME, 3600), self.publisher, LONG)

    async def fill(self, count: int) -> None:
        """Submits jobs, and has the relay publish their doorbells."""
        for start in range(0, count, BATCH):
            await self.on.submit(min(BATCH, count - start))
        await self.publish()

    async def lose(self, count: int) -> list[UUID]:
        """Submits jobs whose doorbells are lost after they were confirmed."""
        jobs = await self.on.submit(count)
        tickets = [row["ticket"] for row in await self.on.sql("select ticket from brokerjobs.outbox")]
        await self.on.coordinator.fetch(services.outbox_done(tickets))
        return jobs

    async def publish(self) -> None:
        """Runs the relay until nothing is left."""
        while await self.on.outbox():
            await self.relay.run_once()

    async def look(self) -> None:
        """Walks once through all that waits, and publishes what is rung again."""
        delay = timedelta(0)
        while delay != LONG.reconcile:
            began = monotonic()
            delay = await self.service.run_once()
            self.slowest_look = max(self.slowest_look, monotonic() - began)
        await self.publish()

    async def beat(self) -> None:
        """Sends the worker's heartbeat."""
        detail = {
            "reads": READS,
            "consuming": sorted(self.consumer.consuming),
            "oldest_unclaimed_seconds": monotonic() - self.inbox[0].received if self.inbox else None,
            "heartbeat_seconds": 60,
        }
        route, now = self.on.route(), datetime.now(UTC)
        beat = services.Heartbeat(self.identity, "worker", self.on.namespace, ["work"], [route], "online", now, detail)
        await self.on.worker.fetch(services.heartbeat(beat))

    async def work(self, count: int) -> None:
        """Claims and completes so many jobs, which must come; reports the probes that come with them."""
        while count > 0:
            await eventually(self._something_came, 30)
            await self.report()
            taken = self.inbox[: min(BATCH, count)]
            if taken:
                count -= await self._complete(taken)

    async def report(self) -> None:
        """Reports the probes that have come."""
        while self.probes:
            probe = self.probes.pop(0)
            await self.on.worker.fetch(calls.probe_returned("worker", probe.route, probe.ticket))
            assert self.consumer.ack([probe]) == []

    async def _something_came(self) -> bool:
        return bool(self.inbox or self.probes)

    async def _complete(self, taken: Sequence[Delivery]) -> int:
        requests = [
            calls.ClaimRequest(one.job_id, uuid7(), one.route, one.ticket, one.redelivered, one.received_at)
            for one in taken
        ]
        answers = await self.on.worker.fetch(calls.claim(self.identity, self.on.namespace, ["work"], requests))
        granted = [one for one in answers if one.verdict == "granted"]
        held = [calls.Holding(one.job_id, one.attempt_id, one.fencing_number) for one in granted]
        now = datetime.now(UTC)
        await self.on.worker.fetch(calls.complete([calls.Report(one, "{}", now, None) for one in held]))
        del self.inbox[: len(taken)]
        assert self.consumer.ack(taken) == []
        return len(held)


@asynccontextmanager
async def backlog(on: Stage) -> AsyncGenerator[Backlog]:
    """A route with a worker that consumes it, and nothing in it."""
    await on.declare()
    inbox: list[Delivery] = []
    probes: list[Probe] = []
    consumer = Consumer(on.broker_url, {on.route(): PREFETCH}, inbox.append, print, on_probe=probes.append)
    made = Backlog(on, Counting(Publisher(on.broker_url)), consumer, inbox, probes)

    async def consumes() -> bool:
        return bool(consumer.consuming)

    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.run())
        await eventually(consumes, 20)
        await made.beat()
        try:
            yield made
        finally:
            await consumer.close()
            await made.publisher.close()


@dataclass(frozen=True)
class Figures:
    """What looking for lost doorbells cost."""

    jobs: int
    lost: int
    published: int
    rung_again: int
    slowest_look_seconds: float

    @property
    def ratio(self) -> float:
        """Messages published a job."""
        return self.published / self.jobs


async def ten_rounds(on: Stage, jobs: int) -> Figures:
    """Ten looks while the whole backlog stands, ten more while it is worked off, and two when it is gone."""
    async with backlog(on) as made:
        lost = await made.lose(jobs // 500)
        await made.fill(jobs - len(lost))
        for _ in range(ROUNDS):
            await made.beat()
            await made.look()
        left = jobs - len(lost)
        for number in range(ROUNDS, 0, -1):
            await made.work(step := left // number)
            left -= step
            await made.beat()
            await made.look()
        await made.work(len(lost))
        return Figures(
            jobs=jobs,
            lost=len(lost),
            published=made.publisher.published,
            rung_again=int(await on.value("select count(*) from brokerjobs.event where kind = 'rung_again'")),
            slowest_look_seconds=made.slowest_look,
        )


def _at_length(jobs: int) -> Figures:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerjobs-backlog-")))
        folder.chmod(0o755)
        postgres = stack.enter_context(PrivatePostgres.start(folder / "postgres", {"shared_buffers": "256MB"}))
        rabbitmq = stack.enter_context(PrivateRabbitMQ.start(folder / "rabbitmq"))
        connection = stack.enter_context(psycopg.connect(postgres.url, autocommit=True))
        database = Databases(postgres.url, connection).with_ledger()
        return asyncio.run(_on_stage(database, rabbitmq.url, jobs))


async def _on_stage(database: Database, broker_url: str, jobs: int) -> Figures:
    async with stage(database, broker_url, f"t{secrets.token_hex(4)}") as on:
        return await ten_rounds(on, jobs)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    figures = _at_length(int(sys.argv[1]))
    sys.stdout.write(f"{figures}, {figures.ratio:.4f} messages a job\n")
