"""The instruments: what is counted arrives, in buckets that are seconds, in series that are few."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from brokerjobs.telemetry import catalogue, metrics
from brokerjobs.telemetry.attaching import entered
from brokerjobs.telemetry.bounds import Bounded
from brokerjobs.telemetry.catalogue import METRICS, Instrument, Source
from brokerjobs.telemetry.instruments import STALE_SECONDS, Instruments, measuring
from brokerjobs.telemetry.names import SCOPE
from brokerjobs.telemetry.outcomes import Outcome
from tests.telemetry import subjects
from tests.telemetry.receiving import attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import TracerProvider

    from tests.telemetry.receiving import Receiver


@pytest.fixture
def meters(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[MeterProvider]:
    """Sends every metric to the receiver at `force_flush`."""
    monkeypatch.setattr(metrics, "job_types", Bounded(200))
    monkeypatch.setattr(metrics, "queues", Bounded(200))
    exporter = OTLPMetricExporter(f"{receiver.url}/v1/metrics", timeout=5)
    made = MeterProvider([PeriodicExportingMetricReader(exporter, float("inf"))], shutdown_on_exit=False)
    measuring.use(made)
    yield made
    measuring.use(None)
    made.shutdown()


def points(receiver: Receiver, name: str) -> list[tuple[dict[str, Any], Any]]:
    """Attributes and value of each series; of a histogram the counts of its buckets."""
    metric = receiver.latest_metrics()[name]
    kind = metric.WhichOneof("data")
    if kind == "histogram":
        return [(attributes(p.attributes), list(p.bucket_counts)) for p in metric.histogram.data_points]
    numbers = metric.sum.data_points if kind == "sum" else metric.gauge.data_points
    return [(attributes(p.attributes), getattr(p, p.WhichOneof("value") or "as_int")) for p in numbers]


def everything() -> None:
    """One of each."""
    metrics.submitted("payment.charge", "created")
    metrics.sent("payments.jobs", 0.02, confirmed=3, refused=1, unknown=1)
    metrics.arrived("payments.q.default", 3)
    metrics.claimed("payment.charge", "default", 2, 0.5)
    metrics.handled("payment.charge", 3.0, "ConnectError")
    metrics.attempt_ended("payment.charge", "default", Outcome.RETRY, 3.2)
    metrics.retried("payment.charge", "temporary", "ConnectError")
    metrics.rejected("payment.charge", "newer_attempt")
    metrics.job_ended("payment.charge", "succeeded", 52.0)
    metrics.review_opened("payment.charge")
    metrics.renewed("payment.charge", 20.0)
    metrics.renewed("payment.charge", -0.5)
    metrics.not_renewed("lost")
    metrics.ledger_called("claim", 0.004)
    metrics.ledger_called("claim", 1.0, TimeoutError())
    metrics.settled("ack", 3)
    metrics.slots({"task": (20, 3), "thread": (8, 0)})
    metrics.worker_seen(loop_lag=0.01, clock_offset=-0.2, oldest_unsettled={"payments.q.default": 4.0})
    metrics.monitored(
        {
            metric: [(tuple(f"a {name}" for name in metric.attributes), 7.0)]
            for metric in METRICS
            if metric.source is Source.MONITOR
        }
    )


def test_catalogue__is_what_arrives(meters: MeterProvider, receiver: Receiver) -> None:
    everything()
    assert meters.force_flush()

    got = receiver.latest_metrics()
    assert set(got) == {metric.name for metric in METRICS}
    for metric in METRICS:
        sent = got[metric.name]
        assert (sent.unit, sent.description) == (metric.unit, metric.description)
        found = {name for attributes_of_series, _ in points(receiver, metric.name) for name in attributes_of_series}
        assert found <= set(metric.attributes), metric.name
        match metric.instrument:
            case Instrument.HISTOGRAM:
                bounds = {tuple(point.explicit_bounds) for point in sent.histogram.data_points}
                assert bounds == {metric.buckets}, metric.name
            case Instrument.COUNTER | Instrument.UP_DOWN_COUNTER:
                assert sent.sum.is_monotonic is (metric.instrument is Instrument.COUNTER)
            case Instrument.GAUGE:
                assert sent.gauge.data_points


def test_values__are_those_that_were_said(meters: MeterProvider, receiver: Receiver) -> None:
    everything()
    everything()
    meters.force_flush()

    labels = {"brokerjobs.job.type": "payment.charge", "brokerjobs.outcome": "retry"}
    assert points(receiver, "brokerjobs.attempt.outcomes") == [({**labels, "brokerjobs.queue.name": "default"}, 2)]
    [(found, counts)] = points(receiver, "brokerjobs.attempt.duration")
    assert found == labels
    assert counts[catalogue.DURATION_BUCKETS.index(5.0)] == 2
    renewals = points(receiver, "brokerjobs.lease.renewals")
    assert {found["brokerjobs.result"]: count for found, count in renewals} == {"kept": 2, "late": 2, "lost": 2}
    [(_, margins)] = points(receiver, "brokerjobs.lease.margin")
    assert margins[0] == 2
    assert ({"brokerjobs.pool": "task"}, 3) in points(receiver, "brokerjobs.worker.slot.usage")
    ledger = points(receiver, "brokerjobs.ledger.operation.duration")
    assert [found.get("error.type") for found, _ in ledger] == [None, "TimeoutError"]
    sent = points(receiver, "messaging.client.sent.messages")
    assert [(found.get("error.type"), count) for found, count in sent] == [(None, 6), ("refused", 2), ("unknown", 2)]


def test_a_hostile_crowd_of_names__is_other(meters: MeterProvider, receiver: Receiver) -> None:
    for number in range(1_000):
        metrics.attempt_ended(f"type {number}", f"queue {number}", Outcome.ACCEPTED, 0.1)
    for number in range(1_000):
        metrics.retried("payment.charge", "temporary", f"Error{number}")
    meters.force_flush()

    kept = points(receiver, "brokerjobs.attempt.outcomes")
    assert len(kept) == 201
    assert sum(count for _, count in kept) == 1_000
    other = {"brokerjobs.job.type": "other", "brokerjobs.queue.name": "other", "brokerjobs.outcome": "accepted"}
    assert (other, 800) in kept
    assert len(points(receiver, "brokerjobs.attempt.duration")) == 201
    assert len(points(receiver, "brokerjobs.attempt.retries")) <= 60


def test_types_that_a_worker_does_not_know__are_other(meters: MeterProvider, receiver: Receiver) -> None:
    metrics.job_types.only(["payment.charge"])
    metrics.review_opened("payment.charge")
    metrics.review_opened("of.somebody.else")
    meters.force_flush()

    assert [found for found, _ in points(receiver, "brokerjobs.review.openings")] == [
        {"brokerjobs.job.type": "payment.charge"},
        {"brokerjobs.job.type": "other"},
    ]


def test_a_monitor__that_resigns_exports_its_gauges_no_more(meters: MeterProvider, receiver: Receiver) -> None:
    everything()
    metrics.monitored({catalogue.OUTBOX_PENDING: [((), 3.0)]})
    meters.force_flush()
    assert points(receiver, "brokerjobs.outbox.pending") == [({}, 3.0)]
    assert "brokerjobs.job.count" not in receiver.latest_metrics()

    metrics.resigned()
    receiver.metrics.clear()
    meters.force_flush()

    monitors = {metric.name for metric in METRICS if metric.source is Source.MONITOR}
    assert not monitors & set(receiver.latest_metrics())
    assert "brokerjobs.worker.event_loop.lag" in receiver.latest_metrics()


def test_a_monitor__that_looks_no_more_exports_its_gauges_no_more(meters: MeterProvider, receiver: Receiver) -> None:
    now = 1_000.0
    made = Instruments(meters.get_meter("of its own"), lambda: now)
    made.monitored({catalogue.OVERDUE: {("payments",): 2.0}})
    now += STALE_SECONDS
    meters.force_flush()
    assert points(receiver, "brokerjobs.attempt.overdue") == [({"brokerjobs.namespace": "payments"}, 2.0)]

    now += 0.1
    receiver.metrics.clear()
    meters.force_flush()

    assert "brokerjobs.attempt.overdue" not in receiver.latest_metrics()


def test_a_duration_in_an_attempt__has_an_exemplar_that_leads_to_its_trace(
    meters: MeterProvider, provider: TracerProvider, receiver: Receiver
) -> None:
    claimed = subjects.claim(1, subjects.traceparent(0xABC))
    span = subjects.worker().process(claimed, subjects.delivery(), None)
    context = entered(contextvars.copy_context(), claimed, span.context)
    context.run(metrics.handled, "payment.charge", 1.0)
    trace_id = context.run(trace.get_current_span).get_span_context().trace_id
    meters.force_flush()

    [point] = receiver.latest_metrics()["messaging.process.duration"].histogram.data_points
    assert [int.from_bytes(exemplar.trace_id) for exemplar in point.exemplars] == [trace_id]


def test_without_a_provider__nothing_is_kept() -> None:
    measuring.use(None)
    everything()

    assert measuring.instruments is None


def test_measuring__finds_nobody_where_nobody_is() -> None:
    assert measuring.look() is None


def test_scope__is_ours(meters: MeterProvider, receiver: Receiver) -> None:
    metrics.review_opened("x")
    meters.force_flush()

    scopes = [s for request in receiver.metrics for r in request.resource_metrics for s in r.scope_metrics]
    assert [(scope.scope.name, scope.schema_url) for scope in scopes] == [
        (SCOPE, "https://opentelemetry.io/schemas/1.44.0")
    ]
