"""Every test here runs against RabbitMQ, against the broker in memory, and against that over its socket."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from brokerjobs.broker import names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.topology import Topology
from tests.broker.conformance.benches import KINDS, RabbitMQBench, memory_bench, socket_bench
from tests.broker.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from brokerjobs.broker.brokers import Broker
    from brokerjobs.broker.protocol import Publisher
    from tests.broker.conformance.benches import Bench
    from tests.nodes import RabbitMQNode


class InboxFactory(Protocol):
    """Starts a consumer; it is closed at the end of the test."""

    async def __call__(self, *routes: str, prefetch: int = 20) -> Inbox: ...


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def real_url(kind: str, request: pytest.FixtureRequest) -> str:
    """RabbitMQ, if the test is about that."""
    return cast("str", request.getfixturevalue("broker_url")) if kind == "rabbitmq" else ""


@pytest.fixture
def real_node(kind: str, request: pytest.FixtureRequest) -> RabbitMQNode | None:
    """A node that may be broken, if the test is about that."""
    return cast("RabbitMQNode", request.getfixturevalue("node")) if kind == "rabbitmq" else None


@pytest.fixture
async def broker(kind: str, real_url: str, socket_folder: Path) -> AsyncIterator[Broker]:
    """A broker that works."""
    async with AsyncExitStack() as stack:
        match kind:
            case "rabbitmq":
                yield broker_at(real_url)
            case "memory":
                yield (await stack.enter_async_context(memory_bench())).broker
            case _:
                yield (await stack.enter_async_context(socket_bench(socket_folder))).broker


@pytest.fixture
async def bench(kind: str, real_node: RabbitMQNode | None, socket_folder: Path) -> AsyncIterator[Bench]:
    """A broker that may be broken; a test leaves it as it was."""
    async with AsyncExitStack() as stack:
        if real_node is not None:
            yield RabbitMQBench(real_node)
        elif kind == "memory":
            yield await stack.enter_async_context(memory_bench())
        else:
            yield await stack.enter_async_context(socket_bench(socket_folder))


@pytest.fixture
async def route(broker: Broker, namespace: str) -> str:
    """A declared quorum route of `broker`."""
    name = names.route_name(namespace, "default")
    await broker.declare(Topology(routes=frozenset({name})))
    return name


@pytest.fixture
async def publisher(broker: Broker) -> AsyncIterator[Publisher]:
    made = broker.publisher()
    yield made
    await made.close()


@pytest.fixture
async def inbox(broker: Broker) -> AsyncIterator[InboxFactory]:
    """Starts consumers of `broker`."""
    async with AsyncExitStack() as started:

        async def start(*routes: str, prefetch: int = 20) -> Inbox:
            return await started.enter_async_context(Inbox(broker.url, dict.fromkeys(routes, prefetch)))

        yield start
