"""The gauges of the elected monitor, after situations in a real ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from brokerjobs.coordinator import monitor
from brokerjobs.coordinator.coordinator import Coordinator
from brokerjobs.coordinator.monitor import DELAY, NAME, Monitor
from brokerjobs.coordinator.routes import Queues
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import services
from brokerjobs.ledger.database import ConnectOptions
from brokerjobs.telemetry.catalogue import METRICS, Source
from brokerjobs.telemetry.instruments import measuring
from tests.coordinator.stage import PERIODS, candidacy, process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.broker.protocol import Publisher
    from tests.coordinator.stage import Stage

FAILED = {"class": "invalid", "type": "InvalidJob", "message": "no", "traceback": ""}


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    """Where this process's metrics can be read."""
    made = InMemoryMetricReader()
    provider = MeterProvider([made], shutdown_on_exit=False)
    measuring.use(provider)
    yield made
    measuring.use(None)
    provider.shutdown()


def read(reader: InMemoryMetricReader) -> dict[str, dict[tuple[str, ...], float]]:
    """The gauges of the monitor: by metric, then by the values of its attributes in the catalogue's order."""
    data = reader.get_metrics_data()
    known = {metric.name: metric for metric in METRICS if metric.source is Source.MONITOR}
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name not in known:
                    continue
                for point in metric.data.data_points:
                    assert isinstance(point, NumberDataPoint)
                    told = dict(point.attributes or {})
                    values = tuple(str(told.get(name, "")) for name in known[metric.name].attributes)
                    found.setdefault(metric.name.removeprefix("brokerjobs."), {})[values] = point.value
    return found


async def look(staged: Stage, reader: InMemoryMetricReader) -> dict[str, dict[tuple[str, ...], float]]:
    """What one look tells."""
    assert await Monitor(staged.coordinator, candidacy(NAME), PERIODS).run_once() == DELAY
    return read(reader)


async def test_monitor__of_an_idle_ledger_tells_of_nothing_that_waits(
    staged: Stage, reader: InMemoryMetricReader
) -> None:
    ns = staged.namespace
    await staged.coordinator.fetch(services.lead("relay", process(), 60))
    await staged.sql("update brokerjobs.service set ticked_at = ticked_at - interval '90 s'")

    told = await look(staged, reader)

    assert "job.count" not in told
    assert told["queue.oldest_job.age"] == {(ns, "default"): 0}
    assert told["queue.latency.objective"] == {(ns, "default"): 60}
    assert told["review.pending"] == told["dead_letter.count"] == told["attempt.overdue"] == {(ns,): 0}
    assert told["outbox.pending"] == told["outbox.oldest_age"] == {(): 0}
    assert told["worker.count"] == {(ns, state): 0 for state in ("online", "draining", "lost")}
    assert told["schema.version"] == {(): await staged.value("select schema_version from brokerjobs.meta")}
    assert told["service.last_success_age"] == {("relay",): pytest.approx(90, abs=20)}


async def test_monitor__counts_jobs_by_queue_state_and_wait(staged: Stage, reader: InMemoryMetricReader) -> None:
    ns = staged.namespace
    await staged.register("mail", queue="mail")
    running, overdue, failed, review, *_ = jobs = await staged.submit(7)
    await staged.submit(2, "mail")
    (later,) = await staged.submit(1)
    for job in (running, overdue, failed, review):
        claimed = await staged.claim(job)
        if job == failed:
            await staged.report(claimed, FAILED)
    await staged.sql(
        "update brokerjobs.job_state set lease_until = clock_timestamp() - interval '9 s' where job_id = %s", overdue
    )
    await staged.sql(
        "update brokerjobs.job_state set waiting = 'schedule', wait_until = clock_timestamp() + interval '1 h'"
        " where job_id = %s",
        later,
    )
    await staged.sql("update brokerjobs.job_state set state = 'review', lease_until = null where job_id = %s", review)
    await staged.sql(
        "insert into brokerjobs.review (id, job_id, cause, opened_at)"
        " values (gen_random_uuid(), %s, 'unknown', clock_timestamp() - interval '2 h')",
        review,
    )
    await staged.sql("update brokerjobs.dead set failed_at = clock_timestamp() - interval '3 h'")

    told = await look(staged, reader)

    assert told["job.count"] == {
        (ns, "default", "running", ""): 2,
        (ns, "default", "queued", "delivery"): 3,
        (ns, "default", "queued", "schedule"): 1,
        (ns, "default", "review", ""): 1,
        (ns, "mail", "queued", "delivery"): 2,
    }
    assert len(jobs) == 7
    assert told["attempt.overdue"] == {(ns,): 1}
    assert told["review.pending"] == told["dead_letter.count"] == {(ns,): 1}
    assert told["review.oldest_age"][(ns,)] == pytest.approx(7200, abs=20)
    assert told["dead_letter.oldest_age"][(ns,)] == pytest.approx(10_800, abs=20)
    assert told["outbox.pending"][()] == await staged.outbox() > 0


async def test_monitor__tells_for_how_long_the_oldest_job_could_be_claimed(
    staged: Stage, reader: InMemoryMetricReader
) -> None:
    ns = staged.namespace
    await staged.register("mail", queue="mail")
    await staged.register("held", queue="held")
    (_, tried), (late,), _ = await staged.submit(2), await staged.submit(1, "mail"), await staged.submit(1, "held")
    claimed = await staged.claim(tried)
    await staged.report(claimed, {**FAILED, "class": "temporary"})
    await staged.sql("update brokerjobs.job_state set waiting = 'delivery', wait_until = null where job_id = %s", tried)
    await staged.sql("alter table brokerjobs.job disable trigger user")  # what is recorded is not changed else
    for table, column in (("job", "submitted_at"), ("outbox", "made_at")):
        await staged.sql(f"update brokerjobs.{table} set {column} = {column} - interval '100 s'")
    await staged.sql("update brokerjobs.job set not_before = submitted_at + interval '60 s' where id = %s", late)
    await staged.sql(
        "insert into brokerjobs.pause (id, namespace, type, paused_at, paused_by, login, reason)"
        " values (gen_random_uuid(), %s, 'held', clock_timestamp(), 'me', 'me', 'r')",
        ns,
    )

    told = await look(staged, reader)

    assert told["queue.oldest_job.age"][(ns, "default")] == pytest.approx(100, abs=20)
    assert told["queue.oldest_job.age"][(ns, "mail")] == pytest.approx(40, abs=20)
    assert told["queue.oldest_job.age"][(ns, "held")] == 0  # paused
    assert told["outbox.oldest_age"][()] == pytest.approx(100, abs=20)


async def test_monitor__counts_workers_and_jobs_that_none_can_run(staged: Stage, reader: InMemoryMetricReader) -> None:
    ns = staged.namespace
    await staged.submit(3)
    for state, ago in (
        ("online", 0),
        ("online", 0),
        ("draining", 0),
        ("online", 600),
        ("stopped", 0),
        ("online", 200_000),
    ):
        await staged.sql(
            "insert into brokerjobs.worker (id, namespace, name, role, host, pid, login, types, routes, started_at,"
            " heartbeat_at, observed_at, state) select gen_random_uuid(), %s, 'w', 'worker', 'h', 1, 'l', '{}', '{}',"
            " at, at, at, %s from (select clock_timestamp() - make_interval(secs => %s) as at) x",
            *(ns, state, ago),
        )
    await staged.sql(
        'update brokerjobs.route_type set report = \'{"because": "none"}\', unplaceable_since = clock_timestamp()'
    )

    told = await look(staged, reader)

    assert told["worker.count"] == {(ns, "online"): 2, (ns, "draining"): 1, (ns, "lost"): 1}
    assert told["job.unplaceable"] == {(ns, "default", "none"): 3}


async def test_monitor__tells_nothing_while_another_leads_and_ends_what_it_told(
    staged: Stage, reader: InMemoryMetricReader
) -> None:
    mine, other = process("mine"), process("another")
    service = Monitor(staged.coordinator, candidacy(NAME, by=mine), PERIODS)
    await service.run_once()
    assert read(reader) != {}
    await staged.coordinator.fetch(services.lead(NAME, mine, 0))
    await staged.coordinator.fetch(services.lead(NAME, other, 60))

    assert await service.run_once() == LED_ELSEWHERE
    assert read(reader) == {}

    await staged.coordinator.fetch(services.lead(NAME, other, 0))
    assert await service.run_once() == DELAY
    assert read(reader) != {}


async def test_monitor__counts_no_further_than_it_looks(
    staged: Stage, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "_LOOK", 3)
    await staged.register("mail", queue="mail")
    await staged.submit(5)
    await staged.submit(1, "mail")

    told = await look(staged, reader)

    assert told["job.count"] == {(staged.namespace, "default", "queued", "delivery"): 3}
    assert (staged.namespace, "mail") not in told["queue.oldest_job.age"]  # it was not looked at, and is not empty
    assert (staged.namespace, "mail") in told["queue.latency.objective"]


async def test_coordinator__stands_for_the_lead_only_where_somebody_takes_metrics(
    staged: Stage, publisher: Publisher, request: pytest.FixtureRequest
) -> None:
    def services_of() -> frozenset[str]:
        return Coordinator(
            ledger=ConnectOptions(staged.database.coordinator_url),
            publisher=publisher,
            queues=Queues(staged.broker_url),
            process=process(),
        ).services

    without = services_of()
    request.getfixturevalue("reader")
    assert services_of() - without == {NAME}
