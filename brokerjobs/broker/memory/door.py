"""The broker in memory, as a broker."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerjobs.broker.connection import HEARTBEAT
from brokerjobs.broker.memory import setup
from brokerjobs.broker.memory.consumer import MemoryConsumer
from brokerjobs.broker.memory.publisher import MemoryPublisher
from brokerjobs.broker.publisher import TIME_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from brokerjobs.broker.inspection import Inspection
    from brokerjobs.broker.protocol import Delivery, Probe, Unreadable
    from brokerjobs.broker.topology import Topology

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Memory:
    """The broker at a URL of `address`, which has no secret: who may open the socket may connect."""

    url: str

    def publisher(self, *, time_limit: timedelta = TIME_LIMIT, heartbeat: timedelta = HEARTBEAT) -> MemoryPublisher:
        """Return a publisher over a link of its own."""
        _warn(self.url)
        return MemoryPublisher(self.url, time_limit=time_limit, heartbeat=heartbeat)

    def consumer(
        self,
        routes: Mapping[str, int],
        on_delivery: Callable[[Delivery], None],
        on_unreadable: Callable[[Unreadable], None],
        *,
        on_probe: Callable[[Probe], None] | None = None,
        heartbeat: timedelta = HEARTBEAT,
    ) -> MemoryConsumer:
        """Return a consumer over a link of its own; raises as RabbitMQ's."""
        _warn(self.url)
        return MemoryConsumer(self.url, routes, on_delivery, on_unreadable, on_probe=on_probe, heartbeat=heartbeat)

    async def declare(self, wanted: Topology) -> None:
        """Make what is missing."""
        await setup.declare(self.url, wanted)

    async def remove(self, wanted: Topology) -> None:
        """Delete everything that it names."""
        await setup.remove(self.url, wanted)

    async def remove_queue(self, queue: str) -> None:
        """Delete one queue."""
        await setup.remove_queue(self.url, queue)

    async def message_count(self, queue: str) -> int | None:
        """Return how many messages are ready."""
        return await setup.message_count(self.url, queue)

    async def inspect(self, wanted: Topology) -> Inspection:
        """Look for the queues that it names."""
        return await setup.inspect(self.url, wanted)

    async def product(self) -> str:
        """Link, and say what it is."""
        await setup.check(self.url)
        return "memory"


@functools.cache
def _warn(url: str) -> None:
    """Say once in each process that sends or receives what this broker is for."""
    _log.warning(
        "the broker %s is for demo, tests and simulation: its messages live in one process's memory and die with it "
        "(no job is lost by that, the ledger rings again)",
        url,
    )
