"""What tests of the broker share: a node that may be broken, declared routes, and inboxes."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from brokerjobs.broker import names, topology
from brokerjobs.broker.publisher import Publisher
from tests.broker.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.nodes import RabbitMQNode
    from tests.sources import Source


class InboxFactory(Protocol):
    """Starts a consumer; it is closed at the end of the test."""

    async def __call__(self, *routes: str, url: str | None = None, prefetch: int = 20) -> Inbox: ...


@pytest.fixture(scope="session")
def node(source: Source) -> Iterator[RabbitMQNode]:
    """A node of these tests' own, which they may stop, block and give users; a test leaves it as it was."""
    with source.rabbitmq() as started:
        yield started


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder of this user alone, with a short name: that of a socket has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="brokerjobs-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def route(broker_url: str, namespace: str) -> str:
    """A declared quorum route of the session's broker."""
    name = names.route_name(namespace, "default")
    await topology.declare(broker_url, topology.Topology(routes=frozenset({name})))
    return name


@pytest.fixture
async def node_route(node: RabbitMQNode, namespace: str) -> str:
    """A declared quorum route of `node`."""
    name = names.route_name(namespace, "default")
    await topology.declare(node.url, topology.Topology(routes=frozenset({name})))
    return name


@pytest.fixture
async def publisher(broker_url: str) -> AsyncIterator[Publisher]:
    made = Publisher(broker_url)
    yield made
    await made.close()


@pytest.fixture
async def node_publisher(node: RabbitMQNode) -> AsyncIterator[Publisher]:
    made = Publisher(node.url)
    yield made
    await made.close()


@pytest.fixture
async def inbox(broker_url: str) -> AsyncIterator[InboxFactory]:
    """Starts consumers of the session's broker, or of another one's `url`."""
    async with AsyncExitStack() as started:

        async def start(*routes: str, url: str | None = None, prefetch: int = 20) -> Inbox:
            return await started.enter_async_context(Inbox(url or broker_url, dict.fromkeys(routes, prefetch)))

        yield start
