"""What telemetry costs a worker: jobs drained a second, of which none, one in a hundred, or all are traced.

Spans and metrics go by OTLP to a receiver in this process that reads and drops them, as an agent beside a worker would
take them; metrics are on wherever traces are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench import draining
from tests.bench.stage import TUNED
from tests.telemetry.receiving import Receiver

if TYPE_CHECKING:
    from tests.bench.stage import Shape, Stage

OFF: Final = "telemetry off"
SOME: Final = "1 % of jobs traced"
ALL: Final = "all jobs traced"
SAMPLED: Final = {OFF: None, SOME: 100, ALL: 1}
"""One in how many jobs is sampled."""


class Drain(Receiver):
    """Drops what it receives."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def take(self, path: str, body: bytes) -> None:  # noqa: ARG002  # of both kinds
        self.bytes += len(body)


async def drained(stage: Stage, label: str, jobs: int, shape: Shape = TUNED) -> float:
    """Jobs a second with so much telemetry; raises RuntimeError if nothing of it has arrived."""
    one_in = SAMPLED[label]
    if one_in is None:
        return await draining.ours(stage, shape, jobs)
    with Drain() as receiver:
        rate = await draining.ours(
            stage,
            shape,
            jobs,
            sampled_one_in=one_in,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_METRIC_EXPORT_INTERVAL="5000",
        )
    if not receiver.bytes:
        raise RuntimeError(f"{label}: the receiver has received nothing")
    return rate
