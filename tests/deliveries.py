"""Deliveries for tests that need no broker."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from uuid import uuid4

from brokerjobs.broker.protocol import Delivery


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
