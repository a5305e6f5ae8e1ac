"""What an ordinary doorbell looks like when it arrives, as one pattern over its frames.

Doorbells of a route differ in four places alone: delivery tag, redelivered, ticket and job.  All else is compared
byte by byte with what our own publisher sends, so what the pattern takes, `codec.read` would take, and read the same.
What it does not take, such as a message with other properties, goes that longer way.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import pamqp.frame
from pamqp.commands import Basic

from brokerjobs.broker import codec
from brokerjobs.broker.confirms import content_frames
from brokerjobs.broker.protocol import Delivery

_CONSUMER: Final = "c0ffee00"
_TAG: Final = 0x7FFE_FDFC_FBFA_F9F8
_TICKET: Final = UUID(int=2**128 - 1)
_JOB: Final = UUID(int=2**128 - 2)
_TRACEPARENT: Final = f"00-{'f' * 32}-{'f' * 16}-ff"
_UUID: Final = b"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
# What stands for the places in the doorbell that the pattern is made of, and what may be there.
_HOLES: Final = {
    _CONSUMER.encode(): b"[0-9a-f]{8}",
    _TAG.to_bytes(8) + b"\x00": rb"([\x00-\x7f].{7})([\x00\x01])",  # the tag as pamqp reads it: signed; redelivered
    str(_TICKET).encode(): _UUID,  # the usual form, as of `codec.read_uuid`
    str(_JOB).encode(): _UUID,
    _TRACEPARENT.encode(): b"[0-9a-f-]{%d}" % len(_TRACEPARENT),
}


def consumer_tag(number: int) -> str:
    """Return the name of the consumer of that number; a quorum queue takes one whose name it knows for the same."""
    return f"{number:08x}"


class Doorbells:
    """Finds and reads the ordinary doorbells that come from `source` by a channel, to a consumer of any number."""

    def __init__(self, source: codec.Source, channel: int) -> None:
        self._source = source
        start = Basic.Deliver(_CONSUMER, _TAG, exchange=source.exchange, routing_key=source.route)
        parts = (
            pamqp.frame.marshal(start, channel),
            self._content(channel, None),
            self._content(channel, _TRACEPARENT),
        )
        self.find = re.compile(b"%b(?:%b|%b)" % tuple(map(_with_holes, parts)), re.DOTALL).match
        """Finds the one that begins at a place, if it is whole."""

    def _content(self, channel: int, traceparent: str | None) -> bytes:
        route, namespace = self._source.route, self._source.namespace
        message = codec.doorbell(ticket=_TICKET, job_id=_JOB, namespace=namespace, route=route, traceparent=traceparent)
        return content_frames(message, channel)

    def read(self, found: re.Match[bytes]) -> Delivery:
        """Return the delivery that was found."""
        tag, redelivered, ticket, job_id, ticket_traced, job_id_traced = found.groups()
        source = self._source
        return Delivery(
            ticket=UUID((ticket or ticket_traced).decode()),
            job_id=UUID((job_id or job_id_traced).decode()),
            namespace=source.namespace,
            route=source.route,
            redelivered=redelivered == b"\x01",
            generation=source.generation,
            tag=int.from_bytes(tag),
            received=time.monotonic(),
            received_at=datetime.now(UTC),
        )


def _with_holes(data: bytes) -> bytes:
    """Return the pattern of what differs from `data` in the holes alone."""
    pattern = re.escape(data)
    for place, hole in _HOLES.items():
        pattern = pattern.replace(re.escape(place), hole)
    return pattern
