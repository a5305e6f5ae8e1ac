"""Tells telemetry of a batch that was published: once, whoever sends it, client or relay."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.telemetry import metrics, spans
from brokerjobs.telemetry.instruments import measuring
from brokerjobs.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing


class Telling:
    """Made when publishing begins."""

    __slots__ = ("_at", "_began")

    def __init__(self) -> None:
        tracing.look()
        measuring.look()
        self._began = tracing.now()
        self._at = time.monotonic()

    def published(self, exchange: str, batch: Sequence[Outgoing], outcomes: Mapping[UUID, PublishOutcome]) -> None:
        """What became of the messages to one exchange."""
        if tracing.tracer is None and measuring.instruments is None:
            return
        seconds = time.monotonic() - self._at
        counts = Counter(outcomes[message.message_id] for message in batch)
        sent = spans.Sent(*(counts[outcome] for outcome in PublishOutcome))
        spans.sent(self._began, exchange, [message.traceparent for message in batch], sent)
        metrics.sent(exchange, seconds, **sent._asdict())
