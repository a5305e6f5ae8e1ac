"""Consuming from the broker in memory: the same consumer, over another road."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from brokerjobs.broker import codec, consumer
from brokerjobs.broker.memory.address import open_link
from brokerjobs.broker.memory.links import answer
from brokerjobs.broker.memory.words import Cancelled, Delivered, Flush, Missing, Settle, Subscribe, Unsubscribe
from brokerjobs.broker.subscription import ConsumerCancelled, look_at

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from aiormq.abc import AbstractChannel

    from brokerjobs.broker.memory.links import Link
    from brokerjobs.broker.memory.words import Event
    from brokerjobs.broker.subscription import Receivers

_PERSISTENT = 2


class MemoryConsumer(consumer.Consumer):
    """Receives as RabbitMQ's consumer does, with its generations, its patience and its back-off."""

    async def open_road(self, url: str, heartbeat: timedelta) -> MemoryRoad:
        """Link; errors as of `open_link`."""
        return MemoryRoad(await open_link(url, heartbeat))


@dataclass(frozen=True, slots=True)
class MemoryRoad:
    """A link to consume by."""

    link: Link

    async def subscription(self, source: codec.Source, receivers: Receivers) -> MemorySubscription:
        """Prepare to consume."""
        return MemorySubscription(self.link, source, receivers)

    async def lost(self) -> None:
        """Wait for the link to end and raise `BrokerUnavailable`."""
        await self.link.lost()

    async def close(self) -> None:
        """End the link in order."""
        await self.link.close()


class MemorySubscription:
    """A route consumed over a link; its number there is the generation."""

    def __init__(self, link: Link, source: codec.Source, receivers: Receivers) -> None:
        self.source = source
        self._link = link
        self._receivers = receivers
        self._unsettled: set[int] = set()
        self._subscribed = False
        self._prefetch = 0
        self._leaving = False
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._broken.add_done_callback(look_at)
        link.listen(source.generation, self._hear)

    @property
    def consuming(self) -> bool:
        """Whether the broker may send messages."""
        return self._subscribed and self._link.alive

    @property
    def prefetch(self) -> int:
        """At most so many unsettled messages were asked for; 0 if none."""
        return self._prefetch if self._subscribed else 0

    async def start(self, prefetch: int) -> None:
        """Ask for messages; raises `ChannelNotFoundEntity`, `BrokerUnavailable`."""
        wanted = Subscribe(number=self.source.generation, queue=self.source.route, prefetch=prefetch)
        match await answer(self._link, wanted):
            case Missing():
                error = ChannelNotFoundEntity(f"no queue {self.source.route!r}")
                self._break(error)  # RabbitMQ closes the channel
                raise error
            case _:
                self._subscribed, self._prefetch = True, prefetch

    async def held(self) -> None:
        """Wait until it breaks, or is left; errors as of `Subscription`."""
        await asyncio.wait({self._broken})
        self._broken.result()

    def leave(self) -> None:
        """Let `held` return once nothing is unsettled."""
        self._leaving = True
        self._end_if_settled()

    def _end_if_settled(self) -> None:
        if not (self._broken.done() or self._unsettled):
            self._broken.set_result(None)

    async def stop(self) -> None:
        """Ask for no more; raises `BrokerUnavailable`."""
        if self._subscribed:
            self._subscribed = False
            await answer(self._link, Unsubscribe(number=self.source.generation))

    async def flush(self) -> None:
        """Return when the broker has read all that was sent; raises `BrokerUnavailable`."""
        await answer(self._link, Flush())

    def ack(self, tags: Collection[int]) -> bool:
        """Acknowledge those that are not settled; False if the link is gone."""
        return self._link.settle(Settle(number=self.source.generation, acked=self._outstanding(tags)))

    def reject(self, tag: int) -> bool:
        """Reject unless it is settled; False if the link is gone."""
        return self._link.settle(Settle(number=self.source.generation, rejected=self._outstanding([tag])))

    def _outstanding(self, tags: Collection[int]) -> tuple[int, ...]:
        outstanding = self._unsettled.intersection(tags)
        self._unsettled -= outstanding
        if self._leaving:
            self._end_if_settled()
        return tuple(sorted(outstanding))

    def _hear(self, event: Event) -> None:
        match event:
            case Delivered():
                try:
                    self._unsettled.add(event.tag)
                    now, at = time.monotonic(), datetime.now(UTC)
                    self._receivers.take(codec.read(_as_amqp(event), self.source, received=now, received_at=at))
                except Exception as error:  # noqa: BLE001  # ends the consumer, as everywhere
                    self._break(error)
            case Cancelled():
                self._subscribed = False
                self._break(ConsumerCancelled(event.reason))

    def _break(self, error: Exception) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)


def _as_amqp(delivered: Delivered) -> DeliveredMessage:
    """Return the message as RabbitMQ would deliver it, so that it is read by the same code."""
    letter = delivered.letter
    properties = Basic.Properties(
        content_type="application/json",
        headers={"traceparent": letter.traceparent} if letter.traceparent else None,
        delivery_mode=_PERSISTENT,
        message_id=str(letter.message_id),
        message_type=letter.type,
    )
    return DeliveredMessage(
        delivery=Basic.Deliver(
            delivery_tag=delivered.tag,
            redelivered=delivered.redelivered,
            exchange=letter.exchange,
            routing_key=letter.routing_key,
        ),
        header=ContentHeader(body_size=len(letter.body), properties=properties),
        body=letter.body,
        channel=cast("AbstractChannel", None),  # reading a message needs none
    )
