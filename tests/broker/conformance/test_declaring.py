"""Making queues, counting what is in them, and removing them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.broker import codec, names
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from brokerjobs.errors import TopologyMismatch
from tests.broker.conformance.looking import comes_to_hold
from tests.broker.inbox import ring, rings

if TYPE_CHECKING:
    from brokerjobs.broker.brokers import Broker
    from brokerjobs.broker.protocol import Publisher
    from brokerjobs.broker.topology import QueueType
    from tests.broker.conformance.conftest import InboxFactory

CONFIRMED, REFUSED, UNKNOWN = PublishOutcome.CONFIRMED, PublishOutcome.REFUSED, PublishOutcome.UNKNOWN


def one_route(namespace: str, queue: str = "default") -> Topology:
    return Topology(routes=frozenset({names.route_name(namespace, queue)}))


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_declare__makes_a_route_that_works(
    broker: Broker, namespace: str, publisher: Publisher, inbox: InboxFactory, queue_type: QueueType
) -> None:
    route = names.route_name(namespace, "default")

    await broker.declare(replace(one_route(namespace), queue_type=queue_type))

    assert await publisher.publish([ring(route)]) == [CONFIRMED]
    received = await inbox(route)
    (delivery,) = await received.has(1)
    assert received.consumer.reject(delivery)
    await comes_to_hold(broker, names.quarantine_queue(namespace), 1)


async def test_declare__may_be_repeated_and_leaves_what_is_there(
    broker: Broker, namespace: str, publisher: Publisher
) -> None:
    wanted = one_route(namespace)
    (route,) = wanted.routes
    await broker.declare(wanted)
    await publisher.publish(rings(route, 2))

    await broker.declare(wanted)

    await comes_to_hold(broker, route, 2)
    assert await publisher.publish([ring(route)]) == [CONFIRMED]
    await comes_to_hold(broker, route, 3)


async def test_declare__binds_each_route_to_its_own_name(broker: Broker, namespace: str, publisher: Publisher) -> None:
    await broker.declare(one_route(namespace, "a"))
    await broker.declare(one_route(namespace, "b"))

    assert await publisher.publish([ring(names.route_name(namespace, "b"))]) == [CONFIRMED]

    await comes_to_hold(broker, names.route_name(namespace, "b"), 1)
    assert await broker.message_count(names.route_name(namespace, "a")) == 0


async def test_declare__binds_the_dead_queue_to_every_job_type(
    broker: Broker, namespace: str, publisher: Publisher
) -> None:
    await broker.declare(Topology(namespaces=frozenset({namespace})))

    dead = codec.dead_letter(ticket=uuid4(), namespace=namespace, job_type="payment.charge", record="{}")
    assert await publisher.publish([dead, replace(dead, message_id=uuid4(), routing_key="x")]) == [CONFIRMED] * 2
    await comes_to_hold(broker, names.dead_queue(namespace), 2)


async def test_declare__names_what_differs(broker: Broker, namespace: str) -> None:
    route = names.route_name(namespace, "default")
    await broker.declare(one_route(namespace))

    with pytest.raises(TopologyMismatch, match=re.escape(f"{route!r} exists at the broker")) as raised:
        await broker.declare(replace(one_route(namespace), delivery_limit=5))

    error = raised.value
    assert (error.queue, error.argument, error.existing, error.wanted) == (route, "x-delivery-limit", 20, 5)
    assert f"brokerjobs setup module:app --recreate {route}" in str(error)


async def test_declare__declares_all_else_before_it_names_what_differs(
    broker: Broker, namespace: str, publisher: Publisher
) -> None:
    old, new = names.route_name(namespace, "a"), names.route_name(namespace, "b")
    await broker.declare(replace(one_route(namespace, "a"), queue_type="classic"))

    with pytest.raises(ExceptionGroup) as raised:
        await broker.declare(Topology(routes=frozenset({old, new})))

    # RabbitMQ names the first argument that it compares.
    errors = [error for error in raised.value.exceptions if isinstance(error, TopologyMismatch)]
    assert {error.queue for error in errors} == {old, names.dead_queue(namespace), names.quarantine_queue(namespace)}
    assert {error.wanted for error in errors} <= {"quorum", 20}
    assert await publisher.publish([ring(new)]) == [CONFIRMED]
    await comes_to_hold(broker, new, 1)


async def test_declare__refuses_what_is_no_route(broker: Broker) -> None:
    with pytest.raises(ValueError, match="is no route"):
        await broker.declare(Topology(routes=frozenset({"default"})))


async def test_message_count__is_none_without_the_queue(broker: Broker, route: str) -> None:
    assert await broker.message_count(f"{route}.missing") is None
    assert await broker.message_count(route) == 0


async def test_remove_queue__leaves_the_others(broker: Broker, route: str, publisher: Publisher) -> None:
    assert await publisher.publish(rings(route, 2)) == [CONFIRMED] * 2

    await broker.remove_queue(route)
    await broker.remove_queue(route)

    assert await broker.message_count(route) is None
    assert await broker.message_count(names.quarantine_queue(names.namespace_of(route))) == 0
    assert await publisher.publish([ring(route)]) == [REFUSED]
    await broker.declare(Topology(routes=frozenset({route})))
    assert await broker.message_count(route) == 0


async def test_remove__leaves_nothing(broker: Broker, route: str, publisher: Publisher) -> None:
    topology = Topology(routes=frozenset({route}))

    await broker.remove(topology)
    await broker.remove(topology)

    assert [await broker.message_count(queue.name) for queue in topology.queues()] == [None] * 3
    assert await publisher.publish([ring(route)]) == [UNKNOWN]


async def test_product__names_what_answers(broker: Broker, kind: str) -> None:
    assert re.fullmatch(r"RabbitMQ \d+\.\d+\S*" if kind == "rabbitmq" else "memory", await broker.product())
