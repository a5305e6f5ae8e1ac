"""`make bench`: no-op jobs drained a second by one worker process, beside bare aio-pika consume and ack.

Both contestants take persistent messages from a quorum queue with prefetch 200, on the same servers in the same run, in
interleaved rounds; PostgreSQL runs with fsync and synchronous_commit on.  Writes build/bench.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aio_pika
import psycopg
from uuid_utils.compat import uuid7

from brokerjobs.broker.codec import doorbell
from brokerjobs.broker.names import route_name
from brokerjobs.broker.publisher import Publisher
from brokerjobs.broker.topology import Topology, declare
from brokerjobs.ledger import inquiries, schema, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.servers.postgres import PrivatePostgres
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
from tests.bench.noop import noop

if TYPE_CHECKING:
    from uuid import UUID

ROOT = Path(__file__).parents[2]
PREFETCH = 200


@dataclass(frozen=True)
class Shape:
    """How one of our contestants is set."""

    label: str
    concurrency: int
    prefetch: int


SHAPES = (Shape("tuned", 100, PREFETCH), Shape("default", 20, 40))


class Bench:
    """The servers of one run."""

    def __init__(self, database_url: str, broker_url: str) -> None:
        self.database_url = database_url
        self.broker_url = broker_url
        self.publisher = Publisher(broker_url)

    async def ours(self, shape: Shape, jobs: int) -> float:
        """Jobs a second, from the first claim to the last accepted result, by the ledger's clock."""
        namespace = f"b{uuid7().hex[-8:]}"
        ids = await self._submit(namespace, jobs)
        environment = os.environ | {
            "BROKERJOBS_DATABASE_URL": self.database_url,
            "BROKERJOBS_BROKER_URL": self.broker_url,
            "BROKERJOBS_TEST_NAMESPACE": namespace,
            "BROKERJOBS_WORKER__COORDINATOR": "false",
            "BROKERJOBS_WORKER__CONCURRENCY": str(shape.concurrency),
            "BROKERJOBS_WORKER__PREFETCH": str(shape.prefetch),
        }
        worker = subprocess.Popen([sys.executable, "-m", "tests.bench.noop"], cwd=ROOT, env=environment)
        try:
            await self._wait_until_done(ids)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)
        query = (
            "select extract(epoch from max(s.finished_at) - min(a.claimed_at)) from brokerjobs.job j"
            " join brokerjobs.job_state s on s.job_id = j.id join brokerjobs.attempt a on a.job_id = j.id"
            " where j.namespace = %s"
        )
        async with await psycopg.AsyncConnection.connect(self.database_url) as connection:
            row = await (await connection.execute(query, [namespace])).fetchone()
        return jobs / float((row or (0,))[0])

    async def _submit(self, namespace: str, jobs: int) -> list[UUID]:
        """Submits jobs and publishes their doorbells, as a client does."""
        route = route_name(namespace, "default")
        await declare(self.broker_url, Topology(frozenset({namespace}), frozenset({route})))
        ledger = AsyncLedgerConnection(ConnectOptions(self.database_url))
        await ledger.fetch(services.register_types(namespace, [noop.as_data()], change=True))
        ids: list[UUID] = []
        for first in range(0, jobs, 500):
            new = [
                inquiries.NewJob(uuid7(), str(n), None, {}, None, None, None)
                for n in range(first, min(first + 500, jobs))
            ]
            batch = inquiries.SubmitBatch(namespace, "noop", "bench", noop.fingerprint, datetime.now(UTC), True, new)
            submitted = await ledger.fetch(inquiries.submit(batch))
            tickets = {one.id: one.ticket for one in submitted if one.ticket is not None}
            rings = [
                doorbell(ticket=ticket, job_id=job_id, namespace=namespace, route=route)
                for job_id, ticket in tickets.items()
            ]
            await self.publisher.publish(rings)
            await ledger.fetch(services.outbox_done(list(tickets.values())))
            ids += tickets
        await ledger.close()
        return ids

    async def _wait_until_done(self, ids: list[UUID]) -> None:
        ledger = AsyncLedgerConnection(ConnectOptions(self.database_url))
        end = time.monotonic() + 300
        left = ids
        while left:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(left)} of {len(ids)} jobs are not done after 300 s")
            await asyncio.sleep(0.25)
            # The last ones first: asking for all would load the server that is measured.
            sample = left[-50:]
            done = {row.job_id for row in await ledger.fetch(inquiries.status(sample)) if row.state == "succeeded"}
            if len(done) == len(sample):
                states = await ledger.fetch(inquiries.status(left))
                left = [row.job_id for row in states if row.state != "succeeded"]
        await ledger.close()

    async def bare(self, messages: int) -> float:
        """Messages a second that a plain aio-pika consumer acknowledges, from the first to the last."""
        connection = await aio_pika.connect(self.broker_url)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=PREFETCH)
            name = f"bare-{uuid7().hex[-8:]}"
            queue = await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
            body = b'{"v":1,"job":"00000000-0000-0000-0000-000000000000"}'
            for first in range(0, messages, 500):
                sends = [
                    channel.default_exchange.publish(
                        aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), name
                    )
                    for _ in range(min(500, messages - first))
                ]
                await asyncio.gather(*sends)
            times: list[float] = []
            done = asyncio.Event()

            async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                await message.ack()
                times.append(time.perf_counter())
                if len(times) == messages:
                    done.set()

            await queue.consume(take)
            await asyncio.wait_for(done.wait(), 300)
            await queue.delete(if_unused=False, if_empty=False)
        return messages / (times[-1] - times[0])


async def run(rounds: int, jobs: int) -> dict[str, Any]:
    """Runs the rounds and answers the figures."""
    with tempfile.TemporaryDirectory(prefix="brokerjobs-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres = PrivatePostgres.start(folder / "postgres", {"shared_buffers": "256MB"}, fsync=True)
        rabbitmq = PrivateRabbitMQ.start(folder / "rabbitmq")
        try:
            return await _measure(Bench(postgres.url, rabbitmq.url), rounds, jobs)
        finally:
            rabbitmq.stop()
            postgres.stop()


async def _measure(bench: Bench, rounds: int, jobs: int) -> dict[str, Any]:
    schema.apply(bench.database_url)
    with psycopg.connect(bench.database_url) as connection:
        settings = {
            name: connection.execute("select current_setting(%s)", [name]).fetchone()
            for name in ("fsync", "synchronous_commit", "server_version")
        }
    figures: dict[str, list[float]] = {"bare": [], **{shape.label: [] for shape in SHAPES}}
    for number in range(1, rounds + 1):
        figures["bare"].append(await bench.bare(jobs))
        for shape in SHAPES:
            figures[shape.label].append(await bench.ours(shape, jobs))
        line = ", ".join(f"{label} {rates[-1]:.0f}/s" for label, rates in figures.items())
        print(f"round {number} of {rounds}: {line}", file=sys.stderr, flush=True)
    await bench.publisher.close()
    medians = {label: statistics.median(rates) for label, rates in figures.items()}
    return {
        "drain_per_s": round(medians["tuned"]),
        "drain_default_per_s": round(medians["default"]),
        "bare_aio_pika_per_s": round(medians["bare"]),
        "drain_ratio": round(medians["tuned"] / medians["bare"], 3),
        "drain_default_ratio": round(medians["default"] / medians["bare"], 3),
        "jobs": jobs,
        "rounds": {label: [round(rate) for rate in rates] for label, rates in figures.items()},
        "shapes": {shape.label: {"concurrency": shape.concurrency, "prefetch": shape.prefetch} for shape in SHAPES},
        "bare_prefetch": PREFETCH,
        "settings": {name: (row or ("?",))[0] for name, row in settings.items()},
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
    }


def main() -> None:
    """Parses the arguments, runs, prints a table and writes build/bench.json."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=10_000)
    given = parser.parse_args()
    figures = asyncio.run(run(given.rounds, given.jobs))
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / "bench.json").write_text(json.dumps(figures, indent=2) + "\n")
    settings = ", ".join(f"{name} {value}" for name, value in figures["settings"].items())
    print(f"PostgreSQL: {settings}; {given.jobs} no-op jobs, medians of {given.rounds} interleaved rounds")
    rows = [("bare aio-pika consume + ack", f"prefetch {PREFETCH}", figures["bare_aio_pika_per_s"], 1.0)]
    for shape in SHAPES:
        key = "drain" if shape.label == "tuned" else "drain_default"
        how = f"concurrency {shape.concurrency}, prefetch {shape.prefetch}"
        rows.append((f"brokerjobs, {shape.label}", how, figures[f"{key}_per_s"], figures[f"{key}_ratio"]))
    for who, how, rate, ratio in rows:
        print(f"  {who:<30} {how:<34} {rate:>7}/s  {ratio:>6.3f}")


if __name__ == "__main__":
    main()
