"""How a consumer reaches its broker: all in which consuming differs between the implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from brokerjobs.broker.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Collection

    from brokerjobs.broker.codec import Source
    from brokerjobs.broker.connection import Link
    from brokerjobs.broker.subscription import Receivers


class RouteSubscription(Protocol):
    """One route consumed over one road; errors as of `Subscription`, which is RabbitMQ's."""

    @property
    def source(self) -> Source:
        """What is consumed."""
        ...

    @property
    def consuming(self) -> bool:
        """Whether the broker may send messages."""
        ...

    @property
    def prefetch(self) -> int:
        """At most so many unsettled messages were asked for; 0 if none."""
        ...

    async def start(self, prefetch: int) -> None:
        """Ask for messages, at most `prefetch` unsettled ones; `ChannelNotFoundEntity` if there is no such queue."""
        ...

    async def held(self) -> None:
        """Wait until it breaks, or is closed in order: then it is to be made anew if the route is still wanted."""
        ...

    def leave(self) -> None:
        """Let `held` return once nothing is unsettled; it is stopped, and is not started again."""
        ...

    async def stop(self) -> None:
        """Ask for no more."""
        ...

    async def flush(self) -> None:
        """Return when the broker has read all that was sent before."""
        ...

    def ack(self, tags: Collection[int]) -> bool:
        """Acknowledge; False if the road is gone."""
        ...

    def reject(self, tag: int) -> bool:
        """Reject for good; False if the road is gone."""
        ...


class Road(Protocol):
    """One open connection to consume by."""

    async def subscription(self, source: Source, receivers: Receivers) -> RouteSubscription:
        """Prepare to consume a route; raises `BrokerUnavailable`."""
        ...

    async def lost(self) -> None:
        """Wait for the connection to end and raise `BrokerUnavailable`."""
        ...

    async def close(self) -> None:
        """End the connection; the broker delivers again what was not settled."""
        ...


@dataclass(frozen=True, slots=True)
class AmqpRoad:
    """A connection to RabbitMQ, on which each subscription has a channel of its own."""

    link: Link

    async def subscription(self, source: Source, receivers: Receivers) -> Subscription:
        """Open the subscription's channel; errors as of `Link.channel`."""
        return Subscription(self.link, await self.link.channel(), source, receivers)

    async def lost(self) -> None:
        """Wait for the connection to end and raise `BrokerUnavailable`."""
        await self.link.lost()

    async def close(self) -> None:
        """End the connection in order."""
        await self.link.close()
