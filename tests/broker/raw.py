"""Sending messages that no client library would send, byte by byte, and looking at queues."""

from __future__ import annotations

import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiormq
from aiormq.abc import ChannelFrame
from pamqp import commands, constants

from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# Bits of the property flags (AMQP 0-9-1, basic class).
CONTENT_TYPE, HEADERS, DELIVERY_MODE = 1 << 15, 1 << 13, 1 << 12
MESSAGE_ID, TIMESTAMP, TYPE = 1 << 7, 1 << 6, 1 << 5

PERSISTENT = b"\x02"


@dataclass(frozen=True, slots=True)
class RawMessage:
    """A message whose properties are bytes; `properties` maps a flag to its encoded value."""

    exchange: str
    routing_key: bytes
    properties: dict[int, bytes]
    body: bytes

    def frames(self, channel: int) -> bytes:
        flags = sum(self.properties)
        # The values stand in the order of their flags, from the highest bit.
        values = b"".join(value for _, value in sorted(self.properties.items(), reverse=True))
        publish = struct.pack(">IH", commands.Basic.Publish.index, 0) + short(self.exchange.encode())
        publish += short(self.routing_key) + b"\x00"
        header = struct.pack(">HHQH", 60, 0, len(self.body), flags) + values
        parts = [(constants.FRAME_METHOD, publish), (constants.FRAME_HEADER, header)]
        if self.body:
            parts.append((constants.FRAME_BODY, self.body))
        return b"".join(frame(kind, channel, payload) for kind, payload in parts)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + constants.FRAME_END_CHAR


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def table(fields: bytes) -> bytes:
    return struct.pack(">I", len(fields)) + fields


def nested_tables(depth: int) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = b"\x01aF" + table(inner)
    return table(inner)


@asynccontextmanager
async def channel(url: str) -> AsyncGenerator[aiormq.Channel]:
    async with aiormq.connect(url) as connection:
        opened = await connection.channel()
        assert isinstance(opened, aiormq.Channel)
        yield opened


async def publish(url: str, *messages: RawMessage) -> None:
    """Send, and wait until the broker has read them."""
    async with channel(url) as opened:
        for message in messages:
            frames = ChannelFrame(message.frames(opened.number), should_close=False)
            await opened.write_queue.put(frames)  # pyright: ignore[reportUnknownMemberType]  # untyped in aiormq
        await opened.basic_qos(prefetch_count=1)


async def messages_in(url: str, queue: str) -> int:
    async with channel(url) as opened:
        declared = await opened.queue_declare(queue, passive=True)
        return declared.message_count or 0


async def comes_to_hold(url: str, queue: str, count: int) -> None:
    """Wait until the queue has so many messages that are with no consumer."""

    async def does() -> bool:
        return await messages_in(url, queue) == count

    await eventually(does, 15.0)


async def delete(url: str, queue: str) -> None:
    async with channel(url) as opened:
        await opened.queue_delete(queue)
