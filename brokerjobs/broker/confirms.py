"""Publishing on one channel and keeping the broker's answers.

A batch goes out in a few writes, marshalled here.  aiormq's `basic_publish` takes a task, a lock, a queue and a system
call for every message: 260 against 100 µs of CPU each (two cores, batches of 200).  What aiormq needs to know of a
publish in order to hand back its answer is entered in the channel's public tables as that method does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

import pamqp.frame
from aiormq.exceptions import DeliveryError
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from brokerjobs.broker.protocol import PublishOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from aiormq import Channel

    from brokerjobs.broker.connection import Link
    from brokerjobs.broker.protocol import Outgoing

# What may wait in this process for a broker that reads slowly.
_WRITE_BYTES = 256 * 1024
# Properties, frame headers and routing key of a message, roughly.
_OVERHEAD_BYTES = 400
_PERSISTENT = 2


class _Tables(Protocol):
    """What aiormq's channel keeps about publishes without an answer."""

    delivery_tag: int
    confirmations: dict[int, asyncio.Future[object]]
    message_id_delivery_tag: dict[str, int]

    def create_future(self) -> asyncio.Future[object]: ...


class Confirms:
    """One batch on one channel; use it once."""

    def __init__(self, link: Link, channel: Channel) -> None:
        self._link = link
        self._channel = channel
        self._tables = cast("_Tables", channel)
        self._answers: dict[UUID, asyncio.Future[object]] = {}

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Write the messages as fast as the broker takes them; raises `BrokerUnavailable`."""
        for part in _parts(messages):
            await self._link.writable()
            # No await from here on: what is entered is written, and written in the order of its numbers.
            self._link.send(self._channel, b"".join([self._entered(message) for message in part]))

    async def answered(self) -> None:
        """Wait until each message has an answer, which the end of the channel is too."""
        if self._answers:
            await asyncio.wait(self._answers.values())

    def outcomes(self) -> dict[UUID, PublishOutcome]:
        """Return what is known of each message that was sent, and wait for no more answers."""
        for message_id, answer in self._answers.items():
            # A later return of the same ticket must not meet this one, nor a return find a cancelled answer.
            self._tables.message_id_delivery_tag.pop(str(message_id), None)
            answer.cancel()
        return {message_id: _outcome(answer) for message_id, answer in self._answers.items()}

    def trouble(self) -> str:
        """Return why the first message that the broker did not confirm was not, "" if all were."""
        errors = (answer.exception() for answer in self._answers.values() if answer.done() and not answer.cancelled())
        return next((_words(error) for error in errors if error is not None), "")

    def _entered(self, message: Outgoing) -> bytes:
        """Enter a message in the channel's tables and return its frames."""
        tables = self._tables
        tables.delivery_tag += 1
        answer = tables.create_future()
        tables.confirmations[tables.delivery_tag] = answer
        tables.message_id_delivery_tag[str(message.message_id)] = tables.delivery_tag
        self._answers[message.message_id] = answer
        return _marshalled(message, self._channel)


def _marshalled(message: Outgoing, channel: Channel) -> bytes:
    # Mandatory: without it RabbitMQ confirms a message that reached no queue.
    publish = Basic.Publish(exchange=message.exchange, routing_key=message.routing_key, mandatory=True)
    return pamqp.frame.marshal(publish, channel.number) + content_frames(
        message, channel.number, step=channel.max_content_size
    )


def content_frames(message: Outgoing, channel: int, *, step: int = 4096) -> bytes:
    """Return the frames of a message after the first, with at most `step` bytes of its body in each."""
    properties = Basic.Properties(
        content_type="application/json",
        headers={"traceparent": message.traceparent} if message.traceparent else None,
        delivery_mode=_PERSISTENT,
        message_id=str(message.message_id),
        message_type=message.type,
    )
    frames: list[pamqp.frame.FrameTypes] = [ContentHeader(properties=properties, body_size=len(message.body))]
    frames += [ContentBody(message.body[start : start + step]) for start in range(0, len(message.body), step)]
    return b"".join([pamqp.frame.marshal(frame, channel) for frame in frames])


def _outcome(answer: asyncio.Future[object]) -> PublishOutcome:
    if answer.cancelled():
        return PublishOutcome.UNKNOWN
    match answer.exception():
        case None:
            return PublishOutcome.CONFIRMED
        case DeliveryError():
            return PublishOutcome.REFUSED
        case _:
            return PublishOutcome.UNKNOWN


def _words(error: BaseException) -> str:
    match error:
        case DeliveryError(frame=Basic.Return(reply_text=reply, routing_key=key)):
            return f"unroutable ({reply}): no queue is bound to {key!r}; `brokerjobs setup module:app` declares it"
        case DeliveryError(frame=Basic.Nack()):
            return (
                "a queue took no more: it is full (x-max-length with reject-publish), or has no majority of its nodes"
            )
        case _:
            return str(error) or type(error).__name__


def _parts(messages: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
    """Split so that each part but the last is at least `_WRITE_BYTES` long, by no more than one message."""
    part: list[Outgoing] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.body) + _OVERHEAD_BYTES
        if size >= _WRITE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
