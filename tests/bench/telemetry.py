"""What telemetry costs a worker: jobs drained a second, of which none, one in a hundred, or all are traced.

Spans and metrics go by OTLP to a receiver in this process that reads and drops them, as an agent beside a worker would
take them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench import draining
from tests.bench.stage import TUNED
from tests.telemetry.receiving import Receiver

if TYPE_CHECKING:
    from tests.bench.stage import Shape, Stage

OFF: Final = "telemetry off"
PARTS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    OFF: (0, {}),
    "metrics alone": (0, {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRIC_EXPORT_INTERVAL": "1000"}),
    "1 % of jobs traced": (100, {"OTEL_METRICS_EXPORTER": "none"}),
    "all jobs traced": (1, {"OTEL_METRICS_EXPORTER": "none"}),
}
"""One in how many jobs is sampled, and the worker's variables."""


class Drain(Receiver):
    """Drops what it receives."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def take(self, path: str, body: bytes) -> None:  # noqa: ARG002  # of both kinds
        self.bytes += len(body)


async def drained(stage: Stage, label: str, jobs: int, shape: Shape = TUNED) -> float:
    """Jobs a second with so much telemetry; raises RuntimeError if nothing of it has arrived."""
    one_in, variables = PARTS[label]
    if label == OFF:
        return await draining.ours(stage, shape, jobs)
    with Drain() as receiver:
        rate = await draining.ours(
            stage,
            shape,
            jobs,
            sampled_one_in=one_in or None,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            **variables,
        )
    if not receiver.bytes:
        raise RuntimeError(f"{label}: the receiver has received nothing")
    return rate
