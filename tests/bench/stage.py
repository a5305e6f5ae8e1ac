"""Servers, namespaces and worker processes that every part of the benchmark works with."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from uuid_utils.compat import uuid7

from brokerjobs.broker.codec import doorbell
from brokerjobs.broker.names import route_name
from brokerjobs.broker.publisher import Publisher
from brokerjobs.broker.topology import Topology, declare
from brokerjobs.ledger import inquiries, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from tests.bench.noop import noop, stamp

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from uuid import UUID

ROOT = Path(__file__).parents[2]
PREFETCH = 200
_BATCH = 500
_PATIENCE_SECONDS = 900


@dataclass(frozen=True)
class Shape:
    """How a worker process is set."""

    label: str
    concurrency: int
    prefetch: int
    handler: str = "direct"
    """Where the handler runs; see `noop`."""

    def __str__(self) -> str:
        return f"concurrency {self.concurrency}, prefetch {self.prefetch}"


TUNED = Shape("tuned", 100, PREFETCH)
DEFAULT = Shape("default", 20, 40)


class Stage:
    """The servers of one run."""

    def __init__(self, database_url: str, broker_url: str) -> None:
        self.database_url = database_url
        self.broker_url = broker_url
        self.publisher = Publisher(broker_url)

    async def namespace(self) -> str:
        """A new namespace, set up: its route is declared, its types are registered."""
        name = f"b{uuid7().hex[-8:]}"
        await declare(self.broker_url, Topology(frozenset({name}), frozenset({route_name(name, "default")})))
        ledger = AsyncLedgerConnection(ConnectOptions(self.database_url))
        await ledger.fetch(services.register_types(name, [noop.as_data(), stamp.as_data()], change=True))
        await ledger.close()
        return name

    async def fill(self, namespace: str, jobs: int, *, sampled_one_in: int | None = None) -> list[UUID]:
        """Submits no-op jobs and publishes their doorbells, as a client does; traced ones if some are sampled."""
        ledger = AsyncLedgerConnection(ConnectOptions(self.database_url))
        route = route_name(namespace, "default")
        ids: list[UUID] = []
        for first in range(0, jobs, _BATCH):
            new = [
                inquiries.NewJob(uuid7(), str(n), None, {}, None, None, _traceparent(n, sampled_one_in))
                for n in range(first, min(first + _BATCH, jobs))
            ]
            batch = inquiries.SubmitBatch(namespace, "noop", "bench", noop.fingerprint, datetime.now(UTC), True, new)
            submitted = await ledger.fetch(inquiries.submit(batch))
            tickets = {one.id: one.ticket for one in submitted if one.ticket is not None}
            await self.publisher.publish(
                [
                    doorbell(ticket=ticket, job_id=job_id, namespace=namespace, route=route)
                    for job_id, ticket in tickets.items()
                ]
            )
            await ledger.fetch(services.outbox_done(list(tickets.values())))
            ids += tickets
        await ledger.close()
        return ids

    @contextmanager
    def worker(
        self, namespace: str, shape: Shape, *, coordinator: bool = False, variables: Mapping[str, str] | None = None
    ) -> Generator[subprocess.Popen[bytes]]:
        """Runs one worker process, with variables of its own; it drains at the end."""
        environment = os.environ | {
            "BROKERJOBS_DATABASE_URL": self.database_url,
            "BROKERJOBS_BROKER_URL": self.broker_url,
            "BROKERJOBS_TEST_NAMESPACE": namespace,
            "BROKERJOBS_TEST_HANDLER": shape.handler,
            "BROKERJOBS_WORKER__COORDINATOR": str(coordinator).lower(),
            "BROKERJOBS_WORKER__CONCURRENCY": str(shape.concurrency),
            "BROKERJOBS_WORKER__PREFETCH": str(shape.prefetch),
            **(variables or {}),
        }
        process = subprocess.Popen([sys.executable, "-m", "tests.bench.noop"], cwd=ROOT, env=environment)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    async def done(self, ids: Sequence[UUID], worker: subprocess.Popen[bytes]) -> None:
        """Waits until all have succeeded; asks for few of them, since asking would load what is measured."""
        ledger = AsyncLedgerConnection(ConnectOptions(self.database_url))
        end = time.monotonic() + _PATIENCE_SECONDS
        left: list[UUID] = list(ids)
        while left:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(left)} of {len(ids)} jobs are not done after {_PATIENCE_SECONDS} s")
            if worker.poll() is not None:
                raise ChildProcessError(f"the worker has ended with {worker.returncode}")
            await asyncio.sleep(0.25)
            last = left[-50:]
            if await self._succeeded(ledger, last) == set(last):
                gone: set[UUID] = set()
                for first in range(0, len(left), _BATCH):
                    gone |= await self._succeeded(ledger, left[first : first + _BATCH])
                left = [job for job in left if job not in gone]
        await ledger.close()

    @staticmethod
    async def _succeeded(ledger: AsyncLedgerConnection, ids: Sequence[UUID]) -> set[UUID]:
        return {row.job_id for row in await ledger.fetch(inquiries.status(ids)) if row.state == "succeeded"}


def _traceparent(number: int, sampled_one_in: int | None) -> str | None:
    if sampled_one_in is None:
        return None
    flags = "01" if number % sampled_one_in == 0 else "00"
    return f"00-{uuid4().hex}-{number + 1:016x}-{flags}"
