"""Which implementation serves a broker URL: RabbitMQ, or the broker in the memory of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from brokerjobs.broker.connection import HEARTBEAT
from brokerjobs.broker.publisher import TIME_LIMIT
from brokerjobs.broker.rabbitmq import RabbitMQ

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from brokerjobs.broker.inspection import Inspection
    from brokerjobs.broker.protocol import Consumer, Delivery, Probe, Publisher, Unreadable
    from brokerjobs.broker.topology import Topology

_MEMORY = "memory://"


class Broker(Protocol):
    """A broker: its two ends, and what exists there.

    The methods that wait raise `BrokerUnavailable`, `PermissionDenied` and `ConfigurationError` (the URL).
    """

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    def publisher(self, *, time_limit: timedelta = TIME_LIMIT, heartbeat: timedelta = HEARTBEAT) -> Publisher:
        """Return an end that sends; it connects when it has something to send."""
        ...

    def consumer(
        self,
        routes: Mapping[str, int],
        on_delivery: Callable[[Delivery], None],
        on_unreadable: Callable[[Unreadable], None],
        *,
        on_probe: Callable[[Probe], None] | None = None,
        heartbeat: timedelta = HEARTBEAT,
    ) -> Consumer:
        """Return an end that receives, of each route at most so many unsettled messages as `routes` says."""
        ...

    async def declare(self, wanted: Topology) -> None:
        """Make what is missing, and change nothing that is there; raises as `topology.declare`."""
        ...

    async def remove(self, wanted: Topology) -> None:
        """Delete everything that `wanted` names, with what is in it."""
        ...

    async def remove_queue(self, queue: str) -> None:
        """Delete `queue` with what is in it, if it is there."""
        ...

    async def message_count(self, queue: str) -> int | None:
        """Return how many messages are ready in `queue`, None if there is no such queue."""
        ...

    async def inspect(self, wanted: Topology) -> Inspection:
        """Look for everything that `wanted` names, and make or change nothing."""
        ...

    async def product(self) -> str:
        """Log in, and return what answers: its name, and its version if it has one of its own."""
        ...


def broker_at(url: str) -> Broker:
    """Return the broker at `url`; nothing is connected, and a URL that is none is told of by what connects."""
    if not url.startswith(_MEMORY):
        return RabbitMQ(url)
    from brokerjobs.broker.memory.door import Memory  # noqa: PLC0415  # nobody who has RabbitMQ pays for it

    return Memory(url)
