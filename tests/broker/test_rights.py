"""Producers and workers do with the least rights that RabbitMQ can give, and are told when one is missing."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from brokerjobs.broker import names, removal, topology
from brokerjobs.broker.consumer import Consumer
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.publisher import Publisher
from brokerjobs.errors import PermissionDenied
from tests.broker import raw
from tests.broker.inbox import ring, rings
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.broker.conftest import InboxFactory
    from tests.nodes import RabbitMQNode

NOTHING = "^$"


def login(node: RabbitMQNode, configure: str, write: str, read: str) -> str:
    """Return the URL of a new user who has exactly these rights."""
    user, password = f"user{secrets.token_hex(4)}", secrets.token_hex(8)
    node.ctl("add_user", user, password)
    node.ctl("set_permissions", "-p", "/", user, configure, write, read)
    return str(URL(node.url).with_user(user).with_password(password))


async def test_publisher__needs_only_write_on_the_exchange(node: RabbitMQNode, node_route: str) -> None:
    namespace = names.namespace_of(node_route)
    publisher = Publisher(login(node, NOTHING, rf"^{namespace}\.jobs$", NOTHING))

    assert await publisher.publish(rings(node_route, 3)) == [PublishOutcome.CONFIRMED] * 3
    await publisher.close()


async def test_publisher__without_the_right_is_told_so(
    node: RabbitMQNode, node_route: str, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = Publisher(login(node, NOTHING, NOTHING, NOTHING))

    assert await publisher.publish([ring(node_route)]) == [PublishOutcome.UNKNOWN]

    assert "ACCESS_REFUSED" in caplog.text
    assert names.jobs_exchange(names.namespace_of(node_route)) in caplog.text
    await publisher.close()


async def test_consumer__needs_only_read_on_the_route(
    node: RabbitMQNode, node_route: str, node_publisher: Publisher, inbox: InboxFactory
) -> None:
    """Also to settle, to flush, and to send to quarantine, which the broker does itself."""
    namespace = names.namespace_of(node_route)
    url = login(node, NOTHING, NOTHING, rf"^{namespace}\.q\.default$")
    await node_publisher.publish(rings(node_route, 2))

    received = await inbox(node_route, url=url)
    first, second = await received.has(2)
    assert received.consumer.ack([first]) == []
    assert received.consumer.reject(second)
    assert await received.consumer.flush()
    await received.consumer.stop_consuming()

    await raw.comes_to_hold(node.url, names.quarantine_queue(namespace), 1)


async def test_consumer__without_the_right_ends_at_once(node: RabbitMQNode, node_route: str) -> None:
    consumer = Consumer(login(node, NOTHING, NOTHING, NOTHING), {node_route: 1}, print, print)

    with pytest.raises(PermissionDenied, match=f"may not read '{node_route}'"):
        await consumer.run()


async def test_consumer__goes_on_without_a_route_that_came_later_and_may_not_be_read(
    node: RabbitMQNode,
    node_route: str,
    node_publisher: Publisher,
    inbox: InboxFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A new lane, for example, whose name the right of a worker does not have: that ends no worker."""
    lane = f"{node_route}:high"
    await topology.declare(node.url, topology.Topology(routes=frozenset({lane})))
    url = login(node, NOTHING, NOTHING, rf"^{node_route}$")
    received = await inbox(node_route, url=url)
    await received.consumes(node_route)

    await received.consumer.serve({node_route: 20, lane: 20})

    async def is_said() -> bool:
        return f"{lane}' cannot be consumed yet" in caplog.text

    await eventually(is_said)
    await node_publisher.publish([ring(node_route)])
    await received.has(1)
    assert received.consumer.missing == frozenset()
    node.ctl("set_permissions", "-p", "/", str(URL(url).user), NOTHING, NOTHING, rf"^{node_route}(:high)?$")
    await received.consumer.serve({node_route: 20, lane: 20})
    await received.consumes(node_route, lane)


async def test_consumer__that_may_not_read_any_more_does_not_say_that_the_route_is_missing(
    node: RabbitMQNode, node_route: str, inbox: InboxFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its coordinator would declare again what is there."""
    url = login(node, NOTHING, NOTHING, rf"^{node_route}$")
    received = await inbox(node_route, url=url)
    await received.consumes(node_route)
    node.ctl("set_permissions", "-p", "/", str(URL(url).user), NOTHING, NOTHING, NOTHING)
    await removal.remove(node.url, node_route)
    await topology.declare(node.url, topology.Topology(routes=frozenset({node_route})))

    async def is_refused() -> bool:
        return "ACCESS_REFUSED" in caplog.text

    await eventually(is_refused, 30)
    assert received.consumer.missing == frozenset()


async def test_declare__needs_rights_on_its_own_namespace_only(node: RabbitMQNode, namespace: str) -> None:
    ours = rf"^{namespace}\."
    route = names.route_name(namespace, "default")

    await topology.declare(login(node, ours, ours, ours), topology.Topology(routes=frozenset({route})))

    assert await raw.messages_in(node.url, route) == 0


async def test_declare__without_the_right_names_everything_it_could_not_declare(
    node: RabbitMQNode, namespace: str
) -> None:
    ours = rf"^{namespace}\."
    url = login(node, rf"^{namespace}\.(jobs|dead|quarantine)$", ours, ours)
    routes = [names.route_name(namespace, "a"), names.route_name(namespace, "b")]

    with pytest.raises(ExceptionGroup) as raised:
        await topology.declare(url, topology.Topology(routes=frozenset(routes)))

    told = [str(error) for error in raised.value.exceptions if isinstance(error, PermissionDenied)]
    assert len(told) == 2
    assert all(f"may not declare {route!r}" in text for route, text in zip(routes, told, strict=True))
    assert all(str(URL(url).password) not in text for text in told)
