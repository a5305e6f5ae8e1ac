"""One route consumed over one channel, and what arrived by it and is not settled."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pamqp.frame
from aiormq.exceptions import ChannelClosed
from pamqp.commands import Basic

from brokerjobs.broker import codec
from brokerjobs.broker.doorbells import Doorbells, consumer_tag
from brokerjobs.broker.intake import Messages
from brokerjobs.broker.outstanding import Outstanding
from brokerjobs.broker.protocol import Delivery, Probe, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from aiormq import Channel
    from aiormq.abc import DeliveredMessage

    from brokerjobs.broker.connection import Link

# RabbitMQ may forget a consumer and say nothing: if a quorum queue is deleted and at once declared again, for example
# (3.10.8: 12 of 12 stayed unserved for ever; asking again on the same channel leaves with the old consumer what it was
# meant to get).  A new channel costs an idle route four short commands a minute.
_IDLE_SECONDS: Final = 60.0


class ConsumerCancelled(Exception):
    """The broker sends no more of one route: its queue was deleted, or this process took too long (RabbitMQ 4.3)."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """Plain functions that take what arrives, on the event loop: they must not block; an error ends the consumer."""

    on_delivery: Callable[[Delivery], None]
    on_unreadable: Callable[[Unreadable], None]
    on_probe: Callable[[Probe], None]

    def take(self, read: Delivery | Probe | Unreadable) -> None:
        """Hand over what was read."""
        match read:
            case Delivery():
                self.on_delivery(read)
            case Probe():
                self.on_probe(read)
            case Unreadable():
                self.on_unreadable(read)


class Subscription:
    """A consumer of `source.route` on `channel`, which serves nothing else."""

    def __init__(self, link: Link, channel: Channel, source: codec.Source, receivers: Receivers) -> None:
        self.source = source
        self._link = link
        self._channel = channel
        self._receivers = receivers
        self._outstanding = Outstanding()
        self._numbers = itertools.count(1)
        self._consumer_tag: str | None = None
        self._prefetch = 0
        self._leaving = False
        self._refused: ChannelClosed | None = None
        self._heard = time.monotonic()
        self._changing = asyncio.Lock()
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._broken.add_done_callback(look_at)
        link.take(channel, Messages(channel, Doorbells(source, channel.number), self._take, self._receive))
        link.when_ended(channel, self._break)
        channel.on_consumer_cancel_callbacks.add(self._cancelled_by_broker)

    @property
    def consuming(self) -> bool:
        """Whether the broker may send messages."""
        return self._consumer_tag is not None and not self._channel.is_closed

    @property
    def prefetch(self) -> int:
        """At most so many unsettled messages were asked for; 0 if none."""
        return self._prefetch if self._consumer_tag is not None else 0

    async def start(self, prefetch: int) -> None:
        """Ask for messages, at most `prefetch` unsettled ones; errors as of `Link.answer`."""
        async with self._changing:
            self._prefetch = prefetch
            await self.flush()
            try:
                self._consumer_tag = await self._consume()
            except ChannelClosed as error:
                self._refused = error
                raise

    async def held(self) -> None:
        """Wait until it breaks: `BrokerUnavailable`, the error of a receiver, or why this route alone is over.

        That is `ConsumerCancelled`, or what `start` raised.  Returns when it is closed in order: after `leave`, or when
        nothing has come for a minute and nothing is unsettled; then it is to be made anew.
        """
        while not self._broken.done():
            await asyncio.wait({self._broken}, timeout=self._patience_seconds())
            if not self._broken.done() and self._patience_seconds() == 0 and await self._give_up():
                return
        async with self._changing:  # if it broke because of what `start` asks for, that has its answer by now
            if self._refused is not None:
                raise self._refused
        try:
            self._broken.result()
        except ConsumerCancelled:
            await self._link.give_back(self._channel)
            raise
        await self.flush()  # RabbitMQ may ignore acknowledgements that it reads together with a channel's end
        await self._link.give_back(self._channel)

    def leave(self) -> None:
        """Let `held` return once nothing is unsettled; it is stopped, and is not started again."""
        self._leaving = True
        self._end_if_settled()

    async def stop(self) -> None:
        """Ask for no more; errors as of `Link.answer`."""
        async with self._changing:
            tag, self._consumer_tag = self._consumer_tag, None
            if tag is not None:
                await self._link.answer(self._channel.basic_cancel(tag))

    async def flush(self) -> None:
        """Return when the broker has read all that was sent on this channel; errors as of `Link.answer`."""
        # Any synchronous method does.  This one needs no right, and a repetition changes nothing.
        await self._link.answer(self._channel.basic_qos(prefetch_count=self._prefetch))

    def ack(self, tags: Collection[int]) -> bool:
        """Acknowledge, in one write; False if the channel is gone."""
        through, single = self._outstanding.settle(tags)
        if self._leaving:
            self._end_if_settled()
        frames = [Basic.Ack(through, multiple=True)] if through else []
        frames += [Basic.Ack(tag) for tag in single]
        return self._send(*frames)

    def reject(self, tag: int) -> bool:
        """Reject for good; False if the channel is gone."""
        is_outstanding = any(self._outstanding.settle([tag]))
        if self._leaving:
            self._end_if_settled()
        return self._send(*([Basic.Reject(tag, requeue=False)] if is_outstanding else []))

    async def _consume(self) -> str | None:
        tag = consumer_tag(next(self._numbers))
        answer = await self._link.answer(self._channel.basic_consume(self.source.route, _untaken, consumer_tag=tag))
        return answer.consumer_tag

    def _patience_seconds(self) -> float:
        return max(0.0, self._heard + _IDLE_SECONDS - time.monotonic())

    async def _give_up(self) -> bool:
        """Close the channel, and return whether that was right: not if it is stopped, or something is unsettled."""
        async with self._changing:
            self._heard = time.monotonic()
            if self._consumer_tag is None or len(self._outstanding):
                return False
            await self._link.answer(self._channel.basic_cancel(self._consumer_tag))
            if len(self._outstanding):  # it came while the broker was asked for no more
                self._consumer_tag = await self._consume()
                return False
            self._consumer_tag = None
            await self._link.give_back(self._channel)
            return True

    def _send(self, *frames: Basic.Ack | Basic.Reject) -> bool:
        marshalled = b"".join(pamqp.frame.marshal(frame, self._channel.number) for frame in frames)
        return self._link.send(self._channel, marshalled)

    def _receive(self, message: DeliveredMessage) -> None:
        try:
            read = codec.read(message, self.source, received=time.monotonic(), received_at=datetime.now(UTC))
        except Exception as error:  # noqa: BLE001  # it would end the connection, and be told as its end
            self._break(error)
        else:
            self._take(read)

    def _take(self, read: Delivery | Probe | Unreadable) -> None:
        self._heard = time.monotonic()
        try:
            self._outstanding.add(read.tag)
            self._receivers.take(read)
        except Exception as error:  # noqa: BLE001  # as above: the receiver's own error is told
            self._break(error)

    def _cancelled_by_broker(self, _: Basic.Cancel) -> None:
        self._break(ConsumerCancelled(f"the broker cancelled the consumer of {self.source.route!r}"))

    def _end_if_settled(self) -> None:
        if not (self._broken.done() or len(self._outstanding)):
            self._broken.set_result(None)

    def _break(self, error: Exception) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)


async def _untaken(_: DeliveredMessage) -> None:
    """What aiormq is given to call; all messages are taken before it sees them."""
    raise AssertionError


def look_at(broken: asyncio.Future[None]) -> None:
    """Keep asyncio from reporting an error that nobody waited for: that of a subscription which never started."""
    broken.exception()
