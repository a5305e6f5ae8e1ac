"""What is measured of whole jobs, with real servers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from brokerjobs import App, RetryPolicy
from brokerjobs.client import Client, ClientOptions
from brokerjobs.ledger import calls, ticks
from brokerjobs.ledger.measured import operation
from brokerjobs.telemetry import catalogue as c
from brokerjobs.telemetry import metrics
from brokerjobs.telemetry.bounds import Bounded
from brokerjobs.telemetry.instruments import measuring
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.context import JobContext
    from brokerjobs.telemetry.catalogue import Metric
    from tests.databases import Database

QUICK = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))


class Measured:
    """What is collected of this process."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def of(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """Totals, readings or, of histograms, how many were recorded, by the values of the metric's attributes."""
        data = self._reader.get_metrics_data()
        found: dict[tuple[str, ...], float] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for one in scope.metrics:
                    for point in one.data.data_points if one.name == metric.name else ():
                        values = tuple(str((point.attributes or {}).get(name, "")) for name in metric.attributes)
                        counted: float = getattr(point, "count", 0) or getattr(point, "value", 0)
                        found[values] = counted
        return found


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    for bounded, limit in (("job_types", 200), ("queues", 200), ("_error_types", 50), ("_words", 200)):
        monkeypatch.setattr(
            metrics, bounded, Bounded(limit)
        )  # whatever other tests of this process have filled them with
    made = Measured()
    measuring.use(made.provider)
    yield made
    measuring.use(None)
    made.provider.shutdown()


async def test_jobs__are_counted_from_submission_to_acknowledgement(
    database: Database, namespace: str, broker_url: str, measured: Measured
) -> None:
    app = App(namespace)

    @app.job("pay", repeatable=True, retry=QUICK)
    async def pay(order: int, ctx: JobContext) -> None:
        if ctx.attempt.number == 1:
            raise ConnectionError

    @app.job("once", repeatable=False)
    async def once(order: int) -> None:
        raise RuntimeError

    async with flow(app, database, broker_url) as made, coordinating(made):
        options = ClientOptions(submitted_by="o", database_url=database.producer_url, broker_url=broker_url)
        async with made.working(made.worker(renewal=timedelta(milliseconds=50))), Client(options) as client:
            await (await client.submit(pay, 1, key="key")).result(timeout=timedelta(seconds=20))
            await client.submit(pay, 1, key="key")
            await made.reached((await client.submit(once, 1)).id, "review")

            async def settled() -> bool:
                return measured.of(c.SETTLEMENTS).get(("ack",), 0) >= 3

            await eventually(settled)
    route = f"{namespace}.q.default"
    assert measured.of(c.SUBMISSIONS) == {("pay", "created"): 1, ("pay", "existing"): 1, ("once", "created"): 1}
    assert measured.of(c.ATTEMPT_OUTCOMES) == {
        ("pay", "default", "retry"): 1,
        ("pay", "default", "accepted"): 1,
        ("once", "default", "review"): 1,
    }
    assert measured.of(c.RETRIES) == {("pay", "temporary", "ConnectionError"): 1}
    assert measured.of(c.REVIEW_OPENINGS) == {("once",): 1}
    assert measured.of(c.JOB_DURATION) == {("pay", "succeeded"): 1}
    assert measured.of(c.PROCESS_DURATION) == {
        ("rabbitmq", "process", "pay", "ConnectionError"): 1,
        ("rabbitmq", "process", "pay", ""): 1,
        ("rabbitmq", "process", "once", "RuntimeError"): 1,
    }
    assert measured.of(c.CONSUMED_MESSAGES)["rabbitmq", "process", route] >= 3
    assert measured.of(c.PUBLICATIONS)["confirmed",] >= 3
    assert measured.of(c.SLOT_LIMIT) == {("task",): 20}
    called = {operation for operation, _ in measured.of(c.LEDGER_DURATION)}
    assert called >= {"submit", "claim", "complete", "fail", "start", "acked", "expire"}


async def test_leases__are_counted_as_they_are_kept_and_a_cancel_ends_attempt_and_job(
    database: Database, namespace: str, broker_url: str, measured: Measured
) -> None:
    app = App(namespace)
    go = asyncio.Event()

    @app.job("pay", repeatable=True, retry=QUICK, lease=timedelta(seconds=1))
    async def pay(order: int, ctx: JobContext) -> None:
        if ctx.attempt.number == 1:
            await go.wait()

    async with flow(app, database, broker_url) as made:
        job = await made.submit(pay, 1)
        async with made.working(made.worker()):
            await made.ring(job.id)

            async def kept() -> bool:
                return measured.of(c.RENEWALS).get(("kept",), 0) >= 1

            await eventually(kept)
            assert measured.of(c.LEASE_MARGIN)["pay",] >= 1
            await made.cancel(job.id)
            await made.reached(job.id, "cancelled")
    assert measured.of(c.ATTEMPT_OUTCOMES) == {("pay", "default", "cancelled"): 1}
    assert measured.of(c.JOB_DURATION) == {("pay", "cancelled"): 1}


def test_calls__are_named_by_their_function() -> None:
    process = calls.ProcessIdentity(uuid4(), "worker-a", "host", 1)
    candidacy = ticks.Candidacy("reaper", process, 1.0)
    assert operation(calls.claim(process, "ns", [], []).sql) == "claim"
    assert operation(calls.complete([]).sql) == "complete"
    assert operation(calls.acked([]).sql) == "acked"
    assert operation(ticks.reap(candidacy, 1).sql) == "expire"
    assert operation("select 1") == "other"
