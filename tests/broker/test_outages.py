"""What a broker can do to us that costs time and nothing else."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from brokerjobs.broker import names, topology
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.publisher import Publisher
from tests.broker import raw
from tests.broker.inbox import Inbox, ring, rings
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pytest

    from tests.broker.conftest import InboxFactory
    from tests.nodes import RabbitMQNode

CONFIRMED, UNKNOWN = PublishOutcome.CONFIRMED, PublishOutcome.UNKNOWN


async def ctl(node: RabbitMQNode, *arguments: str) -> str:
    return await asyncio.to_thread(node.ctl, *arguments)


async def confirmed(publisher: Publisher, route: str) -> None:
    """Publish until one is confirmed."""

    async def is_confirmed() -> bool:
        return await publisher.publish([ring(route)]) == [CONFIRMED]

    await eventually(is_confirmed, 20.0)


async def test_channel_numbers__that_are_used_up_cost_a_new_connection(node: RabbitMQNode, namespace: str) -> None:
    """Each publish to a missing exchange, and each look for a missing route, uses one."""
    route = names.route_name(namespace, "default")
    await ctl(node, "eval", "application:set_env(rabbit, channel_max, 3).")
    try:
        publisher = Publisher(node.url)
        async with Inbox(node.url, {route: 5}) as received:
            for _ in range(8):
                assert await publisher.publish([ring(route)]) == [UNKNOWN]

            await topology.declare(node.url, topology.Topology(routes=frozenset({route})))
            await confirmed(publisher, route)
            await received.has(1)
        await publisher.close()
    finally:
        await ctl(node, "eval", "application:set_env(rabbit, channel_max, 2047).")


async def test_channel__that_the_broker_closes_costs_a_redelivery(
    node: RabbitMQNode, node_route: str, node_publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    """A delivery that is not settled within the broker's consumer time-out."""
    await ctl(node, "eval", "[application:set_env(rabbit, K, 500) || K <- [consumer_timeout, channel_tick_interval]].")
    try:
        await node_publisher.publish([ring(node_route)])
        async with Inbox(node.url, {node_route: 5}) as received:
            (old,) = await received.has(1)
            new = (await received.has(2))[1]
            assert received.consumer.ack([old, new]) == [old]
            assert await received.consumer.flush()
    finally:
        await ctl(node, "eval", "application:set_env(rabbit, consumer_timeout, 1800000).")
        await ctl(node, "eval", "application:set_env(rabbit, channel_tick_interval, 60000).")
    assert "timed out" in caplog.text
    assert await raw.messages_in(node.url, node_route) == 0


@asynccontextmanager
async def memory_alarm(node: RabbitMQNode) -> AsyncGenerator[None]:
    await ctl(node, "set_vm_memory_high_watermark", "0")
    try:
        yield
    finally:
        await ctl(node, "set_vm_memory_high_watermark", "0.4")


async def test_publish__under_a_memory_alarm_is_unknown_within_its_time_limit(
    node: RabbitMQNode, node_route: str
) -> None:
    publisher = Publisher(node.url, time_limit=timedelta(seconds=1))
    assert await publisher.publish([ring(node_route)]) == [CONFIRMED]

    async with memory_alarm(node):
        for _ in range(3):
            started = time.monotonic()
            assert await publisher.publish(rings(node_route, 20)) == [UNKNOWN] * 20
            assert time.monotonic() - started < 3.0
        connections = await ctl(node, "list_connections", "client_properties")
        assert connections.count("brokerjobs publisher") == 1, "it waits on the connection that it has"

    await confirmed(publisher, node_route)
    # Only the first of the three was written to the blocked connection.
    await raw.comes_to_hold(node.url, node_route, 22)
    await publisher.close()


async def test_consumer__goes_on_under_a_memory_alarm(
    node: RabbitMQNode, node_route: str, node_publisher: Publisher, inbox: InboxFactory
) -> None:
    """An alarm blocks who publishes; so nothing is ever published on the connection that consumes."""
    await node_publisher.publish(rings(node_route, 5))
    received = await inbox(node_route, url=node.url, prefetch=1)

    async with memory_alarm(node):
        for count in range(1, 6):
            deliveries = await received.has(count)
            assert received.consumer.ack(deliveries[-1:]) == []
        assert await received.consumer.flush()
