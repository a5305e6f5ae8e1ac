"""The brokers under test, each with the ways in which it can be broken."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.memory.address import named
from brokerjobs.broker.memory.server import serving
from brokerjobs.broker.memory.store import MemoryBroker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from brokerjobs.broker.brokers import Broker
    from tests.nodes import RabbitMQNode

KINDS = ("rabbitmq", "memory", "memory over a socket")
# Where nobody listens, by kind.
NOWHERE = {
    "rabbitmq": "amqp://user:secret@127.0.0.1:1/",
    "memory": "memory:///nowhere/socket",
    "memory over a socket": "memory:///nowhere/socket",
}


class Bench(Protocol):
    """A broker that may be broken."""

    @property
    def broker(self) -> Broker: ...

    async def cut(self) -> None:
        """Ends all connections, as a network does."""
        ...

    async def stop(self) -> None:
        """Ends it; what it had may be lost."""
        ...

    async def start(self) -> None:
        """Starts it again at the same URL."""
        ...


@dataclass(frozen=True, slots=True)
class RabbitMQBench:
    """A node of the tests' own."""

    node: RabbitMQNode

    @property
    def broker(self) -> Broker:
        return broker_at(self.node.url)

    async def cut(self) -> None:
        await asyncio.to_thread(self.node.ctl, "close_all_connections", "enough")

    async def stop(self) -> None:
        await asyncio.to_thread(self.node.stop_app)

    async def start(self) -> None:
        await asyncio.to_thread(self.node.start_app)


@dataclass(frozen=True, slots=True)
class MemoryBench:
    """A broker of this process."""

    url: str
    memory: MemoryBroker

    @property
    def broker(self) -> Broker:
        return broker_at(self.url)

    async def cut(self) -> None:
        self.memory.end_sessions("enough")

    async def stop(self) -> None:
        self.memory.stop()

    async def start(self) -> None:
        self.memory.start()


@dataclass(slots=True)
class SocketBench:
    """A broker that is reached over its socket; with its end it is another one that is served there."""

    path: Path
    url: str = ""
    memory: MemoryBroker = field(default_factory=MemoryBroker)
    _served: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def broker(self) -> Broker:
        return broker_at(self.url)

    async def cut(self) -> None:
        self.memory.end_sessions("enough")

    async def stop(self) -> None:
        await self._served.aclose()

    async def start(self) -> None:
        self.memory = MemoryBroker()
        self.url = await self._served.enter_async_context(serving(self.memory, self.path))


@asynccontextmanager
async def memory_bench() -> AsyncGenerator[MemoryBench]:
    memory = MemoryBroker()
    with named(memory) as url:
        yield MemoryBench(url, memory)
        memory.stop()


@asynccontextmanager
async def socket_bench(folder: Path) -> AsyncGenerator[SocketBench]:
    bench = SocketBench(folder / "socket")
    await bench.start()
    yield bench
    await bench.stop()
