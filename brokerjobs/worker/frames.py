"""What worker and child process say to each other: JSON objects, each behind its length in four bytes."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    import socket

_LENGTH: Final = struct.Struct("!I")
_LONGEST: Final = 16 * 2**20  # of an answer: a result at its limit with every byte escaped, and a failure's texts


def encode(message: dict[str, Any]) -> bytes:
    """The message as it is sent."""
    body = json.dumps(message).encode()
    return _LENGTH.pack(len(body)) + body


async def read(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next message; raises IncompleteReadError or OSError once the other side is gone, ValueError for none."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _LONGEST:
        message = f"a frame of {length} bytes"
        raise ValueError(message)
    found: dict[str, Any] = json.loads(await reader.readexactly(length))
    return found


def receive(line: socket.socket) -> dict[str, Any] | None:
    """The next message, blocking; None once the other side is gone."""
    head = _exactly(line, _LENGTH.size)
    body = None if head is None else _exactly(line, _LENGTH.unpack(head)[0])
    if body is None:
        return None
    message: dict[str, Any] = json.loads(body)
    return message


def _exactly(line: socket.socket, size: int) -> bytes | None:
    got = bytearray()
    while len(got) < size:
        try:
            part = line.recv(size - len(got))
        except OSError:
            return None
        if not part:
            return None
        got += part
    return bytes(got)
