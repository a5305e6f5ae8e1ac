"""What a message looks like to RabbitMQ, and what only RabbitMQ can answer; all else is in `conformance`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from brokerjobs.broker import codec, names, topology
from brokerjobs.broker.protocol import PublishOutcome
from tests.broker import raw
from tests.broker.inbox import TRACEPARENT, ring

if TYPE_CHECKING:
    from brokerjobs.broker.publisher import Publisher

CONFIRMED, REFUSED = PublishOutcome.CONFIRMED, PublishOutcome.REFUSED


async def test_publish__a_doorbell_as_documented(broker_url: str, route: str, publisher: Publisher) -> None:
    message = ring(route)

    assert await publisher.publish([message]) == [CONFIRMED]

    async with raw.channel(broker_url) as channel:
        got = await channel.basic_get(route)
    properties = got.header.properties
    assert got.body == message.body
    assert (got.exchange, got.routing_key) == (names.jobs_exchange(names.namespace_of(route)), route)
    assert (properties.message_id, properties.message_type) == (str(message.message_id), "brokerjobs.doorbell")
    assert properties.delivery_mode == 2
    assert properties.content_type == "application/json"
    # The count is the quorum queue's own; since 4.0 a first delivery has none.
    assert {"x-delivery-count": 0, **(properties.headers or {})} == {"traceparent": TRACEPARENT, "x-delivery-count": 0}


async def test_publish__is_refused_by_a_full_queue(broker_url: str, namespace: str, publisher: Publisher) -> None:
    """The broker answers with a negative acknowledgement, not with a return."""
    route = names.route_name(namespace, "full")
    async with raw.channel(broker_url) as channel:
        exchange = names.jobs_exchange(namespace)
        await channel.exchange_declare(exchange, exchange_type="direct", durable=True)
        await channel.queue_declare(route, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        await channel.queue_bind(route, exchange, route)

    assert await publisher.publish([ring(route)]) == [CONFIRMED]
    assert await publisher.publish([ring(route)]) == [REFUSED]


async def test_publish__a_body_of_many_frames(broker_url: str, namespace: str, publisher: Publisher) -> None:
    await topology.declare(broker_url, topology.Topology(namespaces=frozenset({namespace})))
    record = "é" * 600_000
    letter = codec.dead_letter(ticket=uuid4(), namespace=namespace, job_type="some.type", record=record)

    assert await publisher.publish([letter, replace(letter, message_id=uuid4(), body=b"")]) == [CONFIRMED] * 2

    async with raw.channel(broker_url) as channel:
        got = await channel.basic_get(names.dead_queue(namespace))
    assert got.body == record.encode()
    assert got.header.properties.message_type == "brokerjobs.dead"
