"""Taking messages out of a queue for good: each is acknowledged only after whoever asked for it has it safe.

Nothing is given back: a message that is looked at and returned counts one more delivery, and at its queue's limit
(RabbitMQ 4.0 gives every quorum queue one, of 20) it would be dropped.  So messages are taken, or left alone.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource, ChannelNotFoundEntity

from brokerjobs.broker.connection import linked, place
from brokerjobs.errors import ConfigurationError, PermissionDenied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiormq.abc import DeliveredMessage

_MEMORY = "memory://"
_WORDS_LIMIT = 200  # characters of a name or value of a header
_PARTS_LIMIT = 4_000  # characters of a value that has parts
_DEEPEST = 8  # parts within parts; what lies deeper is text


@dataclass(frozen=True, slots=True)
class Taken:
    """A message as it lay in the queue; what is not text is base64."""

    exchange: str | None
    routing_key: str | None
    message_id: str | None
    type: str | None
    content_type: str | None
    headers: dict[str, str]
    redelivered: bool
    body: str | None
    """None if the body is not UTF-8: then `body_base64` has it."""
    body_base64: str | None


async def take(url: str, queue: str, keep: Callable[[Taken], None], limit: int) -> int | None:
    """Take up to `limit` messages out of `queue`, the oldest first; returns how many, None if there is no queue.

    `keep` must have a message safe when it returns; if it raises, that message and the rest stay.  A connection that
    is lost between `keep` and the acknowledgement makes that one message come again.
    Raises PermissionDenied, BrokerUnavailable, and ConfigurationError for the in-memory broker.
    """
    if url.startswith(_MEMORY):
        message = "the in-memory broker gives no messages out of a queue; it forgets them when it ends"
        raise ConfigurationError(message)
    taken = 0
    async with linked(url, "quarantine") as link:
        channel = await link.channel()
        try:
            while taken < limit:
                got = await link.answer(channel.basic_get(queue, no_ack=False))
                if got.delivery_tag is None:
                    break
                keep(_as_taken(got))
                await link.answer(channel.basic_ack(got.delivery_tag))
                taken += 1
            # Any synchronous method tells that the acknowledgements have been read.
            await link.answer(channel.basic_qos(prefetch_count=1))
        except ChannelNotFoundEntity:
            return taken or None
        except (ChannelAccessRefused, ChannelLockedResource) as error:
            raise PermissionDenied(f"{place(url)} may not read {queue!r} ({error}); give it the right") from error
    return taken


def _as_taken(message: DeliveredMessage) -> Taken:
    properties = message.header.properties
    try:
        body, encoded = message.body.decode(), None
    except UnicodeDecodeError:
        body, encoded = None, base64.b64encode(message.body).decode()
    return Taken(
        exchange=message.exchange,
        routing_key=message.routing_key,
        message_id=_text(properties.message_id),
        type=_text(properties.message_type),
        content_type=_text(properties.content_type),
        headers={_cut(key): _words(value) for key, value in (properties.headers or {}).items()},
        redelivered=bool(message.redelivered),
        body=body,
        body_base64=encoded,
    )


def _text(value: Any) -> str | None:
    return None if value is None else _cut(value)


def _words(value: Any) -> str:
    """A header's value; what has parts (`x-death`) as JSON."""
    if not isinstance(value, (dict, list)):
        return _cut(value)
    return json.dumps(_plain(value, _DEEPEST), ensure_ascii=False)[:_PARTS_LIMIT]


def _plain(value: Any, deep: int) -> Any:
    if deep and isinstance(value, dict):
        return {_cut(key): _plain(part, deep - 1) for key, part in cast("Mapping[Any, Any]", value).items()}
    if deep and isinstance(value, list):
        return [_plain(part, deep - 1) for part in cast("Sequence[Any]", value)]
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, float)) else _cut(value)


def _cut(value: Any) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value))[:_WORDS_LIMIT]
