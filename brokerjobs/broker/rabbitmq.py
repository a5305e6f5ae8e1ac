"""RabbitMQ, as a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerjobs.broker import consumer, inspection, publisher, removal, topology
from brokerjobs.broker.connection import HEARTBEAT, linked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from brokerjobs.broker.protocol import Delivery, Probe, Unreadable


@dataclass(frozen=True, slots=True)
class RabbitMQ:
    """The broker at an AMQP URL."""

    url: str = field(repr=False)

    def publisher(
        self, *, time_limit: timedelta = publisher.TIME_LIMIT, heartbeat: timedelta = HEARTBEAT
    ) -> publisher.Publisher:
        """Return a publisher over a connection of its own."""
        return publisher.Publisher(self.url, time_limit=time_limit, heartbeat=heartbeat)

    def consumer(
        self,
        routes: Mapping[str, int],
        on_delivery: Callable[[Delivery], None],
        on_unreadable: Callable[[Unreadable], None],
        *,
        on_probe: Callable[[Probe], None] | None = None,
        heartbeat: timedelta = HEARTBEAT,
    ) -> consumer.Consumer:
        """Return a consumer over a connection of its own; raises as it does."""
        return consumer.Consumer(self.url, routes, on_delivery, on_unreadable, on_probe=on_probe, heartbeat=heartbeat)

    async def declare(self, wanted: topology.Topology) -> None:
        """Make what is missing."""
        await topology.declare(self.url, wanted)

    async def remove(self, wanted: topology.Topology) -> None:
        """Delete everything that it names."""
        await removal.remove_all(self.url, wanted)

    async def remove_queue(self, queue: str) -> None:
        """Delete one queue."""
        await removal.remove(self.url, queue)

    async def message_count(self, queue: str) -> int | None:
        """Return how many messages are ready."""
        return await removal.message_count(self.url, queue)

    async def inspect(self, wanted: topology.Topology) -> inspection.Inspection:
        """Look for everything that it names."""
        return await inspection.inspect(self.url, wanted)

    async def product(self) -> str:
        """Log in, and return the server's name and version."""
        async with linked(self.url, "setup") as link:
            return link.product
