from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.broker import codec, names, topology
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.publisher import Publisher
from tests.broker import raw
from tests.broker.inbox import TRACEPARENT, ring, rings

if TYPE_CHECKING:
    from tests.broker.conftest import InboxFactory

CONFIRMED, REFUSED, UNKNOWN = PublishOutcome.CONFIRMED, PublishOutcome.REFUSED, PublishOutcome.UNKNOWN


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


async def test_publish__nothing(publisher: Publisher) -> None:
    assert await publisher.publish([]) == []


async def test_publish__tells_each_outcome_in_order(route: str, publisher: Publisher) -> None:
    unroutable = replace(ring(route), routing_key=f"{route}.nobody")

    outcomes = await publisher.publish([ring(route), unroutable, ring(route)])

    assert outcomes == [CONFIRMED, REFUSED, CONFIRMED]


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


async def test_publish__without_its_exchange_harms_no_other(route: str, publisher: Publisher) -> None:
    missing = ring(names.route_name("never-set-up", "default"))

    assert await publisher.publish([ring(route), missing, ring(route)]) == [CONFIRMED, UNKNOWN, CONFIRMED]
    assert await publisher.publish([missing, ring(route)]) == [UNKNOWN, CONFIRMED]


async def test_publish__works_as_soon_as_the_exchange_is_there(
    broker_url: str, namespace: str, publisher: Publisher
) -> None:
    route = names.route_name(namespace, "default")
    assert await publisher.publish([ring(route)]) == [UNKNOWN]

    await topology.declare(broker_url, topology.Topology(routes=frozenset({route})))

    assert await publisher.publish([ring(route)]) == [CONFIRMED]


async def test_publish__a_thousand_arrive_once_and_in_order(
    route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    messages = rings(route, 1000)

    assert await publisher.publish(messages) == [CONFIRMED] * 1000

    received = await inbox(route, prefetch=1000)
    deliveries = await received.has(1000)
    assert [delivery.ticket for delivery in deliveries] == [message.message_id for message in messages]


async def test_publish__a_body_of_many_frames(broker_url: str, namespace: str, publisher: Publisher) -> None:
    await topology.declare(broker_url, topology.Topology(namespaces=frozenset({namespace})))
    record = "é" * 600_000
    letter = codec.dead_letter(ticket=uuid4(), namespace=namespace, job_type="some.type", record=record)

    assert await publisher.publish([letter, replace(letter, message_id=uuid4(), body=b"")]) == [CONFIRMED] * 2

    async with raw.channel(broker_url) as channel:
        got = await channel.basic_get(names.dead_queue(namespace))
    assert got.body == record.encode()
    assert got.header.properties.message_type == "brokerjobs.dead"


async def test_publish__refuses_one_ticket_for_two_messages(route: str, publisher: Publisher) -> None:
    message = ring(route)

    with pytest.raises(ValueError, match="same message_id"):
        await publisher.publish([message, message])


async def test_publish__is_unknown_where_nobody_listens() -> None:
    publisher = Publisher("amqp://user:secret@127.0.0.1:1/")

    assert await publisher.publish(rings("payments.q.default", 3)) == [UNKNOWN] * 3


async def test_publish__says_what_is_wrong_once_and_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    publisher = Publisher("amqp://user:secret@127.0.0.1:1/")

    for _ in range(3):
        await publisher.publish([ring("payments.q.default")])

    ours = [record.getMessage() for record in caplog.records if record.name.startswith("brokerjobs")]
    assert len(ours) == 1
    assert "amqp://user@127.0.0.1:1/ cannot be reached" in ours[0]
    assert "secret" not in caplog.text


async def test_publish__within_a_time_limit_that_is_used_up(broker_url: str, route: str) -> None:
    publisher = Publisher(broker_url, time_limit=timedelta(0))

    assert await publisher.publish([ring(route)]) == [UNKNOWN]
    await publisher.close()


async def test_close__makes_later_publishes_unknown(route: str, broker_url: str) -> None:
    publisher = Publisher(broker_url)
    assert await publisher.publish([ring(route)]) == [CONFIRMED]

    await publisher.close()
    await publisher.close()

    assert await publisher.publish([ring(route)]) == [UNKNOWN]
