"""A coordinator as a process of its own, with short periods: `python -m tests.coordinator.coordinator_process`.

The environment says which (BJ_DATABASE, BJ_BROKER, BJ_NAME), and which signal the process sends itself between
publishing a batch and marking it (BJ_SIGNAL).
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from brokerjobs.broker.publisher import Publisher
from brokerjobs.coordinator.process import BrokerOptions, Options, run
from brokerjobs.ledger.database import ConnectOptions
from tests.coordinator.stage import PERIODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.broker.protocol import Outgoing, PublishOutcome

HEARTBEAT = timedelta(milliseconds=500)


def main() -> int:
    number = int(os.environ.get("BJ_SIGNAL", "0"))
    if number:
        _signal_after_publishing(number)
    options = Options(
        ledger=ConnectOptions(os.environ["BJ_DATABASE"], application="test coordinator process"),
        broker=BrokerOptions(url=os.environ["BJ_BROKER"]),
        name=os.environ["BJ_NAME"],
        heartbeat=HEARTBEAT,
        periods=PERIODS,
    )
    return run(options)


def _signal_after_publishing(number: int) -> None:
    publish = Publisher.publish

    async def publish_then_signal(self: Publisher, messages: Sequence[Outgoing]) -> list[PublishOutcome]:
        outcomes = await publish(self, messages)
        os.kill(os.getpid(), number)
        return outcomes

    Publisher.publish = publish_then_signal  # type: ignore[method-assign]  # this process is made to break there


if __name__ == "__main__":
    sys.exit(main())
