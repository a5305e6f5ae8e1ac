"""The catalogue of metrics: dashboards, alerts, the reference page and the instruments are made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from brokerjobs.telemetry import attributes as a

OPERATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Of calls to servers, in seconds: those of the semantic conventions."""
DURATION_BUCKETS: Final = (
    *(0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
)
"""Of waiting and of handlers, in seconds."""
MARGIN_BUCKETS: Final = (0.0, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Of what was left of a lease, in seconds; what had run out is in the first."""


class Instrument(StrEnum):
    """Kinds of instruments."""

    COUNTER = "counter"
    UP_DOWN_COUNTER = "updowncounter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Source(StrEnum):
    """Which processes export a metric."""

    WORKER = "worker"
    CLIENT = "client"
    RING = "client, relay"  # whoever publishes
    LEDGER = "client, worker, coordinator"  # whoever asks the ledger
    CLOSER = "worker, coordinator"  # whoever ends an attempt
    MONITOR = "monitor"  # the one process that is elected: take the maximum, never the sum


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; buckets are seconds, and floats, since `le="30.0"` and `le="30"` are two series in Prometheus."""

    name: str
    instrument: Instrument
    unit: str
    description: str
    source: Source
    attributes: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """Its name in Prometheus; of a histogram without `_bucket`, `_sum` and `_count`."""
        name = re.sub(r"[^a-zA-Z0-9_]", "_", self.name)
        if self.unit == "s":
            name += "_seconds"
        return name + "_total" if self.instrument is Instrument.COUNTER else name

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series in Prometheus."""
        endings = ("_bucket", "_sum", "_count") if self.instrument is Instrument.HISTOGRAM else ("",)
        return tuple(self.prometheus + ending for ending in endings)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its attributes in Prometheus."""
        return tuple(re.sub(r"[^a-zA-Z0-9_]", "_", name) for name in self.attributes)


_COUNTER, _HISTOGRAM, _GAUGE = Instrument.COUNTER, Instrument.HISTOGRAM, Instrument.GAUGE
_UP_DOWN: Final = Instrument.UP_DOWN_COUNTER
_MESSAGING: Final = (a.SYSTEM, a.OPERATION_NAME, a.DESTINATION_NAME, a.ERROR_TYPE)

SENT_MESSAGES: Final = Metric(
    "messaging.client.sent.messages", _COUNTER, "{message}", "Messages that were published.", Source.RING, _MESSAGING
)
CONSUMED_MESSAGES: Final = Metric(
    "messaging.client.consumed.messages",
    _COUNTER,
    "{message}",
    "Deliveries that arrived.",
    Source.WORKER,
    _MESSAGING[:3],
)
CLIENT_OPERATION_DURATION: Final = Metric(
    "messaging.client.operation.duration",
    _HISTOGRAM,
    "s",
    "Publishing a batch until it was confirmed.",
    Source.RING,
    (*_MESSAGING[:2], a.ERROR_TYPE),
    OPERATION_BUCKETS,
)
PROCESS_DURATION: Final = Metric(
    "messaging.process.duration",
    _HISTOGRAM,
    "s",
    "Running a handler.",
    Source.WORKER,
    (*_MESSAGING[:2], a.DESTINATION_TEMPLATE, a.ERROR_TYPE),
    DURATION_BUCKETS,
)
SUBMISSIONS: Final = Metric(
    "brokerjobs.job.submissions",
    _COUNTER,
    "{job}",
    "Submissions by the ledger's answer.",
    Source.CLIENT,
    (a.JOB_TYPE, a.VERDICT),
)
QUEUE_WAIT: Final = Metric(
    "brokerjobs.job.queue.duration",
    _HISTOGRAM,
    "s",
    "From when a job could be claimed to its claim.",
    Source.WORKER,
    (a.QUEUE_NAME, a.JOB_TYPE, a.ATTEMPT_KIND),
    DURATION_BUCKETS,
)
JOB_DURATION: Final = Metric(
    "brokerjobs.job.duration",
    _HISTOGRAM,
    "s",
    "From submission to the end of the job.",
    Source.WORKER,
    (a.JOB_TYPE, a.OUTCOME),
    DURATION_BUCKETS,
)
ATTEMPT_DURATION: Final = Metric(
    "brokerjobs.attempt.duration",
    _HISTOGRAM,
    "s",
    "From an attempt's claim to its end.",
    Source.CLOSER,
    (a.JOB_TYPE, a.OUTCOME),
    DURATION_BUCKETS,
)
ATTEMPT_OUTCOMES: Final = Metric(
    "brokerjobs.attempt.outcomes",
    _COUNTER,
    "{attempt}",
    "Attempts by how they ended; one that was given up and reports later counts for both.",
    Source.CLOSER,
    (a.JOB_TYPE, a.QUEUE_NAME, a.OUTCOME),
)
RETRIES: Final = Metric(
    "brokerjobs.attempt.retries",
    _COUNTER,
    "{retry}",
    "Failures after which the job is tried again.",
    Source.CLOSER,
    (a.JOB_TYPE, a.FAILURE_CLASS, a.ERROR_TYPE),
)
REJECTIONS: Final = Metric(
    "brokerjobs.result.rejections",
    _COUNTER,
    "{result}",
    "Reports that were rejected.",
    Source.WORKER,
    (a.JOB_TYPE, a.REASON),
)
REVIEW_OPENINGS: Final = Metric(
    "brokerjobs.review.openings", _COUNTER, "{review}", "Reviews that were opened.", Source.CLOSER, (a.JOB_TYPE,)
)
RENEWALS: Final = Metric(
    "brokerjobs.lease.renewals",
    _COUNTER,
    "{renewal}",
    "Renewals: kept, late (kept after it had run out), lost, or failed (no answer).",
    Source.WORKER,
    (a.RESULT,),
)
LEASE_MARGIN: Final = Metric(
    "brokerjobs.lease.margin",
    _HISTOGRAM,
    "s",
    "What was left of a lease when its renewal was answered.",
    Source.WORKER,
    (a.JOB_TYPE,),
    MARGIN_BUCKETS,
)
LEDGER_DURATION: Final = Metric(
    "brokerjobs.ledger.operation.duration",
    _HISTOGRAM,
    "s",
    "One call of the ledger, which may carry a batch.",
    Source.LEDGER,
    (a.OPERATION, a.ERROR_TYPE),
    OPERATION_BUCKETS,
)
SETTLEMENTS: Final = Metric(
    "brokerjobs.delivery.settlements",
    _COUNTER,
    "{message}",
    "Deliveries that were settled, or lost with their channel.",
    Source.WORKER,
    (a.SETTLEMENT,),
)
OLDEST_UNSETTLED: Final = Metric(
    "brokerjobs.delivery.unsettled.oldest_age",
    _GAUGE,
    "s",
    "Age of the oldest unsettled delivery; the broker's consumer_timeout bounds it.",
    Source.WORKER,
    (a.QUEUE_NAME,),
)
SLOT_LIMIT: Final = Metric(
    "brokerjobs.worker.slot.limit", _UP_DOWN, "{slot}", "Places for handlers.", Source.WORKER, (a.POOL,)
)
SLOT_USAGE: Final = Metric(
    "brokerjobs.worker.slot.usage", _UP_DOWN, "{slot}", "Places that are taken.", Source.WORKER, (a.POOL,)
)
LOOP_LAG: Final = Metric(
    "brokerjobs.worker.event_loop.lag", _GAUGE, "s", "How long the event loop last took to answer.", Source.WORKER
)
CLOCK_OFFSET: Final = Metric(
    "brokerjobs.worker.clock.offset", _GAUGE, "s", "The ledger's clock less the worker's.", Source.WORKER
)
PUBLICATIONS: Final = Metric(
    "brokerjobs.outbox.publications",
    _COUNTER,
    "{message}",
    "Published messages: confirmed, refused, or unknown.",
    Source.RING,
    (a.RESULT,),
)
OUTBOX_PENDING: Final = Metric(
    "brokerjobs.outbox.pending", _GAUGE, "{message}", "Messages that the ledger owes to the broker.", Source.MONITOR
)
OUTBOX_OLDEST: Final = Metric(
    "brokerjobs.outbox.oldest_age", _GAUGE, "s", "Age of the oldest message that is owed.", Source.MONITOR
)
JOB_COUNT: Final = Metric(
    "brokerjobs.job.count",
    _GAUGE,
    "{job}",
    "Unfinished jobs.",
    Source.MONITOR,
    (a.NAMESPACE, a.QUEUE_NAME, a.JOB_STATE, a.JOB_WAITING),
)
OLDEST_JOB: Final = Metric(
    "brokerjobs.queue.oldest_job.age",
    _GAUGE,
    "s",
    "How long the oldest job has waited that could be claimed.",
    Source.MONITOR,
    (a.NAMESPACE, a.QUEUE_NAME),
)
LATENCY_OBJECTIVE: Final = Metric(
    "brokerjobs.queue.latency.objective",
    _GAUGE,
    "s",
    "How long a job may wait in this queue, as configured.",
    Source.MONITOR,
    (a.NAMESPACE, a.QUEUE_NAME),
)
UNPLACEABLE: Final = Metric(
    "brokerjobs.job.unplaceable",
    _GAUGE,
    "{job}",
    "Jobs that no worker can run now.",
    Source.MONITOR,
    (a.NAMESPACE, a.QUEUE_NAME, a.REASON),
)
REVIEWS_PENDING: Final = Metric(
    "brokerjobs.review.pending", _GAUGE, "{review}", "Reviews that wait for a decision.", Source.MONITOR, (a.NAMESPACE,)
)
REVIEWS_OLDEST: Final = Metric(
    "brokerjobs.review.oldest_age", _GAUGE, "s", "Age of the oldest review that waits.", Source.MONITOR, (a.NAMESPACE,)
)
DEAD_COUNT: Final = Metric(
    "brokerjobs.dead_letter.count",
    _GAUGE,
    "{job}",
    "Failed jobs that nobody has replayed or discarded.",
    Source.MONITOR,
    (a.NAMESPACE,),
)
DEAD_OLDEST: Final = Metric(
    "brokerjobs.dead_letter.oldest_age",
    _GAUGE,
    "s",
    "How long ago the oldest of these jobs failed.",
    Source.MONITOR,
    (a.NAMESPACE,),
)
OVERDUE: Final = Metric(
    "brokerjobs.attempt.overdue",
    _GAUGE,
    "{attempt}",
    "Attempts whose lease has run out and that nobody has given up yet.",
    Source.MONITOR,
    (a.NAMESPACE,),
)
WORKER_COUNT: Final = Metric(
    "brokerjobs.worker.count",
    _GAUGE,
    "{worker}",
    "Workers.",
    Source.MONITOR,
    (a.NAMESPACE, a.WORKER_STATE),
)
SERVICE_AGE: Final = Metric(
    "brokerjobs.service.last_success_age",
    _GAUGE,
    "s",
    "How long ago a service of the coordinator last did its work.",
    Source.MONITOR,
    (a.SERVICE,),
)
SCHEMA_VERSION: Final = Metric(
    "brokerjobs.schema.version", _GAUGE, "{version}", "The version of the ledger's schema.", Source.MONITOR
)

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them, in the order above."""
