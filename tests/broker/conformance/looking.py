"""Looking at queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.waiting import eventually

if TYPE_CHECKING:
    from brokerjobs.broker.brokers import Broker


async def comes_to_hold(broker: Broker, queue: str, count: int) -> None:
    """Wait until the queue has so many messages that are with no consumer."""

    async def does() -> bool:
        return await broker.message_count(queue) == count

    await eventually(does, 15.0)
