"""What doorbells, probes and dead letters look like on the wire, and how an arrived message is read.

Reading never raises: whatever is not exactly a doorbell or a probe of this namespace on this route is `Unreadable`,
with a reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from uuid import UUID

from brokerjobs.broker import names
from brokerjobs.broker.frame_decoder import DamagedHeader
from brokerjobs.broker.protocol import Delivery, Outgoing, Probe, Unreadable

if TYPE_CHECKING:
    from datetime import datetime

    from aiormq.abc import DeliveredMessage

VERSION = 1
READS = (f"doorbell/{VERSION}", f"probe/{VERSION}")
"""What this code takes from a route, as workers tell the ledger: nobody is sent what one of them cannot read."""
# The body is 52 bytes; the rest is room for later versions, which this code refuses by their number.
BODY_LIMIT = 1024
_PROBE_BODY = b'{"v":%d}' % VERSION
_DIGESTED = 1024 * 1024
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a message is read from: the route, what a doorbell on it must say, and the channel's generation."""

    route: str
    namespace: str
    exchange: str
    generation: int

    @classmethod
    def of(cls, route: str, generation: int) -> Source:
        """Return the source for `route`; raises `ValueError` if it is no route."""
        namespace = names.namespace_of(route)
        return cls(route=route, namespace=namespace, exchange=names.jobs_exchange(namespace), generation=generation)


@dataclass(frozen=True, slots=True)
class Malformed:
    """Why something could not be read, in words for a person."""

    reason: str


def doorbell(*, ticket: UUID, job_id: UUID, namespace: str, route: str, traceparent: str | None = None) -> Outgoing:
    """Return the message that says "job `job_id` can be claimed"."""
    return Outgoing(
        exchange=names.jobs_exchange(namespace),
        routing_key=route,
        message_id=ticket,
        type=names.DOORBELL_TYPE,
        body=encode_doorbell(job_id),
        traceparent=_traceparent(traceparent),
    )


def probe(*, ticket: UUID, namespace: str, route: str) -> Outgoing:
    """Return the message that goes through the queue of a route to say that what stood before it has left."""
    return Outgoing(
        exchange=names.jobs_exchange(namespace),
        routing_key=route,
        message_id=ticket,
        type=names.PROBE_TYPE,
        body=_PROBE_BODY,
    )


def dead_letter(
    *, ticket: UUID, namespace: str, job_type: str, record: str, traceparent: str | None = None
) -> Outgoing:
    """Return the message about a job that ended failed; `record` is its record as JSON without payload and result."""
    return Outgoing(
        exchange=names.dead_exchange(namespace),
        routing_key=job_type,
        message_id=ticket,
        type=names.DEAD_TYPE,
        body=record.encode(),
        traceparent=_traceparent(traceparent),
    )


def review_opened(
    *, ticket: UUID, namespace: str, job_type: str, record: str, traceparent: str | None = None
) -> Outgoing:
    """Return the message about a job that went into review; `record` as in `dead_letter`.

    It has a routing key of its own, so that whoever bound a queue by job type still gets nothing but dead letters.
    """
    return Outgoing(
        exchange=names.dead_exchange(namespace),
        routing_key=f"review.{job_type}",
        message_id=ticket,
        type=names.REVIEW_TYPE,
        body=record.encode(),
        traceparent=_traceparent(traceparent),
    )


def encode_doorbell(job_id: UUID) -> bytes:
    """Return the body of a doorbell."""
    return b'{"v":%d,"job":"%s"}' % (VERSION, str(job_id).encode())


def decode_doorbell(body: bytes) -> UUID | Malformed:
    """Return the job that a doorbell's body names, or what is wrong with the body."""
    if len(body) > BODY_LIMIT:
        return Malformed(f"the body is {len(body)} bytes, a doorbell has at most {BODY_LIMIT}")
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        return Malformed(f"the body is not JSON ({type(error).__name__})")
    content = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    match content:
        case {"v": bool()}:  # which Python takes for an integer
            return Malformed("the body's version is not a number")
        case {"v": int(version)} if version != VERSION:
            return Malformed(f"the body is of version {version}, this code reads {VERSION}")
        case {"v": int(), "job": str(job)} if len(content) == 2:
            return read_uuid(job) or Malformed("the body's job is not a UUID in its usual form")
        case _:
            return Malformed('the body is not {"v": 1, "job": "…"}')


def read_uuid(text: object) -> UUID | None:
    """Return the UUID that `text` is in the one usual form (36 characters, lower case), else None."""
    if not isinstance(text, str):
        return None
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text else None


def read(
    message: DeliveredMessage, source: Source, *, received: float, received_at: datetime
) -> Delivery | Probe | Unreadable:
    """Return the delivery or probe that an arrived message is, or why it is neither; times as in `Delivery`."""
    tag = message.delivery_tag or 0
    ticket = read_uuid(message.header.properties.message_id)
    job_id = decode_doorbell(message.body)
    reason = _foreign(message, source)
    if reason is None and message.header.properties.message_type == names.PROBE_TYPE:
        if ticket is not None and message.body == _PROBE_BODY:
            return Probe(ticket=ticket, route=source.route, generation=source.generation, tag=tag)
        reason = f"it is no probe of version {VERSION}"
    reason = reason or _unusable(ticket, job_id)
    if reason is None and ticket is not None and isinstance(job_id, UUID):
        return Delivery(
            ticket=ticket,
            job_id=job_id,
            namespace=source.namespace,
            route=source.route,
            redelivered=bool(message.redelivered),
            generation=source.generation,
            tag=tag,
            received=received,
            received_at=received_at,
        )
    return Unreadable(
        route=source.route,
        reason=reason or "",
        ticket=ticket,
        job_id=job_id if isinstance(job_id, UUID) else None,
        headers_digest=_properties_digest(message),
        body_digest=hashlib.sha256(message.body[:_DIGESTED]).hexdigest(),
        generation=source.generation,
        tag=tag,
    )


def _foreign(message: DeliveredMessage, source: Source) -> str | None:
    """Return why a message was not sent as one of ours to this route, whatever it says."""
    if isinstance(message.header, DamagedHeader):
        return f"its properties cannot be decoded: {message.header.damage}"
    if message.exchange != source.exchange:
        return f"it came by exchange {_short(message.exchange)} instead of {source.exchange!r}"
    if message.routing_key != source.route:
        return f"it came by routing key {_short(message.routing_key)} instead of {source.route!r}"
    if message.header.properties.message_type not in {names.DOORBELL_TYPE, names.PROBE_TYPE}:
        return f"its type is {_short(message.header.properties.message_type)} instead of {names.DOORBELL_TYPE!r}"
    return None


def _unusable(ticket: UUID | None, job_id: UUID | Malformed) -> str | None:
    if isinstance(job_id, Malformed):
        return job_id.reason
    return "its message_id is not a UUID in its usual form" if ticket is None else None


def _properties_digest(message: DeliveredMessage) -> str:
    header = message.header
    if isinstance(header, DamagedHeader):
        return hashlib.sha256(header.raw).hexdigest()
    # Encoding them again could fail, or differ; their repr is as good an evidence of what was decoded.
    decoded = repr([(name, value) for name, value in header.properties if value is not None])
    return hashlib.sha256(decoded.encode("utf-8", "surrogatepass")).hexdigest()


def _traceparent(text: str | None) -> str | None:
    """Return a W3C trace context header, or None for anything else: nobody's free text goes into a header."""
    return text if text is not None and _TRACEPARENT.fullmatch(text) else None


def _short(text: object) -> str:
    return repr(text)[:80]
