"""Sending, and what is known of it."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.broker import codec, names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from tests.broker.conformance.benches import NOWHERE
from tests.broker.conformance.looking import comes_to_hold
from tests.broker.inbox import ring, rings

if TYPE_CHECKING:
    from brokerjobs.broker.brokers import Broker
    from brokerjobs.broker.protocol import Publisher
    from tests.broker.conformance.conftest import InboxFactory

CONFIRMED, REFUSED, UNKNOWN = PublishOutcome.CONFIRMED, PublishOutcome.REFUSED, PublishOutcome.UNKNOWN


async def test_publish__nothing(publisher: Publisher) -> None:
    assert await publisher.publish([]) == []


async def test_publish__tells_each_outcome_in_order(route: str, publisher: Publisher) -> None:
    unroutable = replace(ring(route), routing_key=f"{route}.nobody")

    outcomes = await publisher.publish([ring(route), unroutable, ring(route)])

    assert outcomes == [CONFIRMED, REFUSED, CONFIRMED]


async def test_publish__without_its_exchange_harms_no_other(route: str, publisher: Publisher) -> None:
    missing = ring(names.route_name("never-set-up", "default"))

    assert await publisher.publish([ring(route), missing, ring(route)]) == [CONFIRMED, UNKNOWN, CONFIRMED]
    assert await publisher.publish([missing, ring(route)]) == [UNKNOWN, CONFIRMED]


async def test_publish__works_as_soon_as_the_exchange_is_there(
    broker: Broker, namespace: str, publisher: Publisher
) -> None:
    route = names.route_name(namespace, "default")
    assert await publisher.publish([ring(route)]) == [UNKNOWN]

    await broker.declare(Topology(routes=frozenset({route})))

    assert await publisher.publish([ring(route)]) == [CONFIRMED]


async def test_publish__a_thousand_arrive_once_and_in_order(
    route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    messages = rings(route, 1000)

    assert await publisher.publish(messages) == [CONFIRMED] * 1000

    received = await inbox(route, prefetch=1000)
    deliveries = await received.has(1000)
    assert [delivery.ticket for delivery in deliveries] == [message.message_id for message in messages]


async def test_publish__a_body_of_any_size(
    broker: Broker, route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    letter = codec.dead_letter(
        ticket=uuid4(), namespace=names.namespace_of(route), job_type="some.type", record="é" * 600_000
    )
    assert await publisher.publish([letter, replace(letter, message_id=uuid4(), body=b"")]) == [CONFIRMED] * 2
    await comes_to_hold(broker, names.dead_queue(names.namespace_of(route)), 2)

    # No text, so that it is told apart from what only looks the same when it is shown.
    body = bytes(range(256)) * 4096
    assert await publisher.publish([replace(ring(route), body=body)]) == [CONFIRMED]
    received = await inbox(route)
    (unreadable,) = await received.refuses(1)
    assert unreadable.body_digest == hashlib.sha256(body).hexdigest()


async def test_publish__refuses_one_ticket_for_two_messages(route: str, publisher: Publisher) -> None:
    message = ring(route)

    with pytest.raises(ValueError, match="same message_id"):
        await publisher.publish([message, message])


async def test_publish__is_unknown_where_nobody_listens(kind: str) -> None:
    publisher = broker_at(NOWHERE[kind]).publisher()

    assert await publisher.publish(rings("payments.q.default", 3)) == [UNKNOWN] * 3


async def test_publish__says_what_is_wrong_once_and_without_a_password(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = broker_at(NOWHERE[kind]).publisher()

    for _ in range(3):
        await publisher.publish([ring("payments.q.default")])

    ours = [record.getMessage() for record in caplog.records if record.name == "brokerjobs.broker.publisher"]
    assert len(ours) == 1
    assert f"{NOWHERE[kind].replace(':secret', '')} cannot be reached" in ours[0]
    assert "secret" not in caplog.text


async def test_publish__within_a_time_limit_that_is_used_up(broker: Broker, route: str) -> None:
    publisher = broker.publisher(time_limit=timedelta(0))

    assert await publisher.publish([ring(route)]) == [UNKNOWN]
    await publisher.close()


async def test_publisher__that_is_cancelled_leaves_a_working_connection(route: str, publisher: Publisher) -> None:
    for _ in range(20):
        publishing = asyncio.create_task(publisher.publish(rings(route, 50)))
        await asyncio.sleep(0)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing

    assert await publisher.publish([ring(route)]) == [CONFIRMED]


async def test_close__makes_later_publishes_unknown(broker: Broker, route: str) -> None:
    publisher = broker.publisher()
    assert await publisher.publish([ring(route)]) == [CONFIRMED]

    await publisher.close()
    await publisher.close()

    assert await publisher.publish([ring(route)]) == [UNKNOWN]
