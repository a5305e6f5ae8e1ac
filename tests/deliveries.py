"""Deliveries for tests that need no broker."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from uuid import uuid4

from brokerjobs.broker.protocol import Delivery
from brokerjobs.rules.capabilities import Capabilities
from brokerjobs.rules.line import Line
from brokerjobs.rules.stock import Stock
from brokerjobs.worker.inbox import Inbox


def delivery(age: float = 0.0) -> Delivery:
    """One that came so many seconds ago."""
    return Delivery(
        ticket=uuid4(),
        job_id=uuid4(),
        namespace="n",
        route="n.q.default",
        redelivered=False,
        generation=1,
        tag=1,
        received=time.monotonic() - age,
        received_at=datetime.now(UTC),
    )


def inbox() -> Inbox:
    """That of a worker without capabilities."""
    return Inbox(Line(Stock(Capabilities()), early=1e9))
