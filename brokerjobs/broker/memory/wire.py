"""Words over a socket: frames, heartbeats, and which user is at the other end."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextvars import Context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pydantic import BaseModel

_LENGTH = struct.Struct(">I")
# RabbitMQ 4 refuses messages of over 16 MiB; base64 makes a third more of them.
LONGEST_REQUEST = 32 * 1024 * 1024
# What is delivered is a little longer than what was published.
_LONGEST_FRAME = LONGEST_REQUEST + 1024
# Before the other end has said how often it speaks.
_FIRST_FRAME_SECONDS = 10.0
_CLOSE_SECONDS = 3.0
_PEER = struct.Struct("3i")


class TooLong(Exception):
    """What is to be sent is longer than the other end reads; nothing was written."""


class Wire:
    """One socket, used by both ends alike."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._patience_seconds: float | None = _FIRST_FRAME_SECONDS
        self._beating: asyncio.Task[None] | None = None

    def send(self, word: BaseModel, longest: int = _LONGEST_FRAME) -> None:
        """Write a frame; raises `TooLong`."""
        payload = word.model_dump_json().encode()
        if len(payload) > longest:
            raise TooLong(f"a message of {len(payload)} bytes is over the in-memory broker's limit of {longest}")
        self._writer.write(_LENGTH.pack(len(payload)) + payload)

    async def frames(self) -> AsyncGenerator[bytes]:
        """Yield the frames that come, until the other end has gone.

        Raises `TimeoutError` if it was silent for two heartbeats, `ValueError` for what is no frame, `OSError`.
        """
        while True:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                    if length > _LONGEST_FRAME:
                        raise ValueError(f"a frame of {length} bytes, over {_LONGEST_FRAME}")
                    payload = await self._reader.readexactly(length)
            except asyncio.IncompleteReadError:
                return
            if payload:
                yield payload

    def beat(self, heartbeat_seconds: float) -> None:
        """Say from now on so often that this end is there, and expect the same of the other; 0 for never."""
        self._patience_seconds = 2 * heartbeat_seconds or None
        if heartbeat_seconds:
            self._beating = asyncio.get_running_loop().create_task(self._beat(heartbeat_seconds / 2), context=Context())

    async def drain(self) -> None:
        """Wait until what was written has left, but for a little; raises `OSError`."""
        await self._writer.drain()

    def abort(self) -> None:
        """End it at once."""
        self._stop_beating()
        self._writer.transport.abort()

    async def close(self) -> None:
        """End it once everything has been written, after three seconds in any case."""
        self._stop_beating()
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.wait_closed()
        except OSError:  # TimeoutError too
            self._writer.transport.abort()

    def is_of_this_user(self) -> bool:
        """Whether the process at the other end is this user's, or root's, as the kernel says."""
        connected = self._writer.get_extra_info("socket")
        if not hasattr(socket, "SO_PEERCRED"):
            return True  # macOS: the folder's permissions alone
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        _, user, _ = _PEER.unpack(credentials)
        return user in {os.geteuid(), 0}

    async def _beat(self, every_seconds: float) -> None:
        while True:
            await asyncio.sleep(every_seconds)
            self._writer.write(_LENGTH.pack(0))

    def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
