"""Every name that telemetry uses, in one place: spans, attributes, events, outcomes and metrics.

The reference page docs/reference/telemetry.md is made of these, and so are the dashboards and alerts in config/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from brokerjobs.telemetry.attributes import ATTRIBUTES, Attribute
from brokerjobs.telemetry.catalogue import METRICS, Instrument, Metric, Source
from brokerjobs.telemetry.events import LOCAL, Event
from brokerjobs.telemetry.outcomes import ERRORS, MEANINGS, Outcome

__all__ = [
    "ATTRIBUTES",
    "CONVENTIONS",
    "ERRORS",
    "LOCAL",
    "MEANINGS",
    "METRICS",
    "SCHEMA_URL",
    "SCOPE",
    "SPANS",
    "Attribute",
    "Event",
    "Instrument",
    "Metric",
    "Outcome",
    "Source",
    "SpanName",
]

CONVENTIONS: Final = "1.44.0"
"""The version of the semantic conventions whose names are used; their part on messaging is not stable yet."""
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
SCOPE: Final = "brokerjobs"
"""The instrumentation scope of all spans and metrics."""

CREATE: Final = "create"
SEND: Final = "send"
PROCESS: Final = "process"
COMPLETE: Final = "complete"
FAIL: Final = "fail"
RELEASE: Final = "release"
ACK: Final = "ack"
EXPIRE: Final = "expire"


@dataclass(frozen=True, slots=True)
class SpanName:
    """One kind of span: the first word of its name, what follows it, its kind, and when it is there."""

    operation: str
    target: str
    kind: str
    made_by: str
    meaning: str


SPANS: Final = (
    SpanName(CREATE, "{job type}", "PRODUCER", "client", "a submission; the ledger keeps its context with the job"),
    SpanName(SEND, "{exchange}", "CLIENT", "client, relay", "one batch of messages until the broker has confirmed it"),
    SpanName(PROCESS, "{job type}", "CONSUMER", "worker", "an attempt, from its claim to its acknowledgement"),
    SpanName(COMPLETE, "{job type}", "INTERNAL", "worker", "a result until the ledger has answered"),
    SpanName(FAIL, "{job type}", "INTERNAL", "worker", "a failure until the ledger has answered"),
    SpanName(
        RELEASE, "{job type}", "INTERNAL", "worker", "an attempt that is given back, until the ledger has answered"
    ),
    SpanName(ACK, "{queue}", "CLIENT", "worker", "the acknowledgement: sent, which is not arrived"),
    SpanName(
        EXPIRE,
        "{job type}",
        "INTERNAL",
        "coordinator, worker",
        "an attempt whose lease ran out, from its claim to when that was found, whether or not its worker lives",
    ),
)
