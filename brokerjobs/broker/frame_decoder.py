"""A frame decoder that does not let one message kill the connection.

RabbitMQ relays message properties as they were sent, also those that `pamqp` cannot decode: a `timestamp` beyond year
9999, an unknown field type, invalid UTF-8, tables nested a thousand deep.  aiormq answers such a frame by dropping the
connection, the broker delivers the message again, and nothing else is ever handled (aiormq issue 186; without a
delivery limit: 1 212 connections in 8 s).

aiormq reads frames through one seam, the module function `pamqp.frame.unmarshal`.  It is wrapped once.  The original
decodes every frame; only if it raises, and only on a connection of ours, the frame is taken apart here and delivered as
`DamagedHeader`.  All other users of aiormq in the process see what they always saw.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import pamqp.frame
from pamqp import constants, decode
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from brokerjobs.broker.own_context import is_ours

if TYPE_CHECKING:
    from collections.abc import Generator

# The properties of a doorbell are 250 bytes.  `pamqp` needs time quadratic in the size of a table (2.8 s for a valid
# one of 120 kB, measured), so larger properties count as damaged without being decoded.
HEADER_LIMIT = 8 * 1024

Unmarshalled: TypeAlias = "tuple[int, int, pamqp.frame.FrameTypes]"

_HEADER_FIXED = struct.Struct(">HHQ")
_DELIVER = Basic.Deliver.index.to_bytes(4)
_original = pamqp.frame.unmarshal


class DamagedHeader(ContentHeader):
    """Stands for a content header whose properties could not all be decoded; those that could are set."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw
        self.damage = ""


@cache
def install() -> None:
    """Wrap the seam; once for the process."""
    pamqp.frame.unmarshal = _unmarshal


def _unmarshal(data_in: bytes) -> Unmarshalled:
    if len(data_in) > HEADER_LIMIT and data_in[0] == constants.FRAME_HEADER and is_ours():
        return _save_header(data_in)
    try:
        return _original(data_in)
    except Exception:
        saved = _save(data_in) if is_ours() else None
        if saved is None:
            raise
        return saved


def _save(data: bytes) -> Unmarshalled | None:
    """Return the frame that the original could not decode, None if it is one that nothing can stand for."""
    if len(data) < constants.FRAME_HEADER_SIZE or data[-1] != constants.FRAME_END:
        return None
    payload = data[constants.FRAME_HEADER_SIZE : -1]
    if data[0] == constants.FRAME_HEADER and len(payload) >= _HEADER_FIXED.size:
        return _save_header(data)
    if data[0] == constants.FRAME_METHOD and payload[:4] == _DELIVER:
        return _save_deliver(data)
    return None


def _save_header(data: bytes) -> Unmarshalled:
    payload = data[constants.FRAME_HEADER_SIZE : -1]
    header = DamagedHeader(payload)
    header.class_id, header.weight, header.body_size = _HEADER_FIXED.unpack_from(payload)
    damages = _set_properties(header.properties, payload[_HEADER_FIXED.size :])
    header.damage = "; ".join(damages)[:300] or f"they are {len(payload)} bytes"
    return len(data), _channel(data), header


def _set_properties(properties: Basic.Properties, data: bytes) -> Generator[str]:
    """Set each property that can be decoded and yield what is wrong with each other one."""
    try:
        (flags,), data = struct.unpack_from(">H", data), data[2:]
        for name in properties.attributes():
            if flags & properties.flags[name]:
                kind = properties.amqp_type(name)
                value, data = _split(kind, data)
                if len(value) > HEADER_LIMIT:
                    yield f"{name} ({len(value)} bytes, at most {HEADER_LIMIT} are decoded)"
                    continue
                try:
                    setattr(properties, name, decode.by_type(value, kind)[1])
                except Exception as error:  # noqa: BLE001  # whatever it is, this property is damaged and the next not
                    yield f"{name} ({type(error).__name__}: {error})"
    except (struct.error, IndexError):
        yield "their list is cut short"


def _split(kind: str, data: bytes) -> tuple[bytes, bytes]:
    """Return the bytes of one property and those after it, looking at lengths only."""
    match kind:
        case "shortstr":
            size = 1 + data[0]
        case "table":
            size = 4 + struct.unpack_from(">I", data)[0]
        case "timestamp":
            size = 8
        case _:
            size = 1
    if size > len(data):
        raise IndexError
    return data[:size], data[size:]


def _save_deliver(data: bytes) -> Unmarshalled:
    """Return a delivery whose exchange or routing key is no UTF-8: whatever they are, they are not ours."""
    payload = data[constants.FRAME_HEADER_SIZE + 4 : -1]
    frame = Basic.Deliver()
    tag, payload = _split("shortstr", payload)
    frame.consumer_tag = tag[1:].decode()
    frame.delivery_tag, frame.redelivered = struct.unpack_from(">Q?", payload)
    exchange, payload = _split("shortstr", payload[9:])
    frame.exchange = exchange[1:].decode(errors="backslashreplace")
    frame.routing_key = _split("shortstr", payload)[0][1:].decode(errors="backslashreplace")
    return len(data), _channel(data), frame


def _channel(data: bytes) -> int:
    return int.from_bytes(data[1:3])
