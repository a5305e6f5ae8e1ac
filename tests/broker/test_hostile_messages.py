"""Messages that would kill a connection of aiormq do not: they are handed out, and their neighbours stay unharmed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from brokerjobs.broker import codec, names
from tests.broker import raw
from tests.broker.inbox import ring

if TYPE_CHECKING:
    from brokerjobs.broker.publisher import Publisher
    from tests.broker.conftest import InboxFactory

FAR_FUTURE = struct.pack(">Q", 2**63)

HOSTILE = {
    "timestamp": {raw.TIMESTAMP: FAR_FUTURE},
    "headers, a date": {raw.HEADERS: raw.table(b"\x01aT" + FAR_FUTURE)},
    "headers, a key": {raw.HEADERS: raw.table(b"\x02\xff\xfet\x01")},
    "headers, nested": {raw.HEADERS: raw.nested_tables(1100)},
    "headers, large": {raw.HEADERS: raw.table(b"\x01aA" + raw.table(b"V" * 120_000))},
    "content_type": {raw.CONTENT_TYPE: raw.short(b"\xff\xfe")},
    "message_type": {raw.TYPE: raw.short(b"\xc3\x28")},
}


def hostile(route: str, properties: dict[int, bytes], ticket: UUID, job_id: UUID) -> raw.RawMessage:
    """Return a doorbell, but for these properties."""
    ours = {
        raw.DELIVERY_MODE: raw.PERSISTENT,
        raw.MESSAGE_ID: raw.short(str(ticket).encode()),
        raw.TYPE: raw.short(names.DOORBELL_TYPE.encode()),
    }
    exchange = names.jobs_exchange(names.namespace_of(route))
    return raw.RawMessage(exchange, route.encode(), ours | properties, codec.encode_doorbell(job_id))


@pytest.mark.parametrize("damage", HOSTILE)
async def test_message__that_cannot_be_decoded_is_unreadable(
    broker_url: str, route: str, publisher: Publisher, inbox: InboxFactory, damage: str
) -> None:
    await publisher.publish([ring(route)])
    await raw.publish(broker_url, hostile(route, HOSTILE[damage], ticket := uuid4(), job_id := uuid4()))
    await publisher.publish([ring(route)])

    received = await inbox(route)
    before, after = await received.has(2)
    (unreadable,) = await received.refuses(1)

    assert f"cannot be decoded: {damage.split(',', maxsplit=1)[0]}" in unreadable.reason
    assert (unreadable.ticket, unreadable.job_id) == (ticket, job_id)
    assert before.generation == after.generation == unreadable.generation, "the connection lives"
    assert (before.tag, unreadable.tag, after.tag) == (1, 2, 3)
    assert not before.redelivered
    assert not after.redelivered

    assert received.consumer.reject(unreadable)
    assert received.consumer.ack([before, after]) == []
    assert await received.consumer.flush()
    await raw.comes_to_hold(broker_url, names.quarantine_queue(names.namespace_of(route)), 1)
    await received.consumer.close()
    assert await raw.messages_in(broker_url, route) == 0


async def test_message__by_a_key_that_is_no_text_is_unreadable(
    broker_url: str, route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    foreign = f"{names.namespace_of(route)}-foreign"
    async with raw.channel(broker_url) as channel:
        await channel.exchange_declare(foreign, exchange_type="fanout", durable=True)
        await channel.queue_bind(route, foreign)
    await raw.publish(broker_url, raw.RawMessage(foreign, b"\xff\xfe", {}, b""))
    await publisher.publish([ring(route)])

    received = await inbox(route)
    (delivery,) = await received.has(1)
    (unreadable,) = await received.refuses(1)

    assert f"came by exchange {foreign!r}" in unreadable.reason
    assert (unreadable.generation, unreadable.tag) == (delivery.generation, 1)


async def test_messages__a_crowd_of_hostile_ones_takes_no_neighbour_along(
    broker_url: str, route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    for properties in HOSTILE.values():
        await publisher.publish([ring(route)])
        await raw.publish(broker_url, hostile(route, properties, uuid4(), uuid4()))

    received = await inbox(route, prefetch=2)
    for settled in range(1, len(HOSTILE) + 1):
        deliveries = await received.has(settled)
        unreadables = await received.refuses(settled)
        assert received.consumer.ack(deliveries[-1:]) == []
        assert received.consumer.reject(unreadables[-1])

    assert {delivery.generation for delivery in received.deliveries} == {received.deliveries[0].generation}
