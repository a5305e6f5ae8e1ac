"""A running consumer and what it received."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self
from uuid import UUID, uuid4

from brokerjobs.broker import codec, names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.connection import HEARTBEAT
from tests.waiting import eventually

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from brokerjobs.broker.protocol import Delivery, Outgoing, Unreadable

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Inbox:
    """A consumer that runs inside the context, and keeps all that arrives."""

    def __init__(self, url: str, routes: dict[str, int], *, heartbeat: timedelta = HEARTBEAT) -> None:
        self.deliveries: list[Delivery] = []
        self.unreadable: list[Unreadable] = []
        self.consumer = broker_at(url).consumer(
            routes, self.deliveries.append, self.unreadable.append, heartbeat=heartbeat
        )
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.consumer.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.consumer.close()
        if self._running is not None and kind is None:
            await self._running

    async def consumes(self, *routes: str, within_seconds: float = 20.0) -> None:
        """Wait until exactly these routes are consumed."""

        async def does() -> bool:
            return self.consumer.consuming == frozenset(routes)

        await eventually(does, within_seconds)

    async def has(self, count: int, within_seconds: float = 20.0) -> list[Delivery]:
        """Wait for so many deliveries in all, and return them."""

        async def does() -> bool:
            return len(self.deliveries) >= count

        await eventually(does, within_seconds)
        assert len(self.deliveries) == count
        return list(self.deliveries)

    async def refuses(self, count: int) -> list[Unreadable]:
        """Wait for so many unreadable messages in all, and return them."""

        async def does() -> bool:
            return len(self.unreadable) >= count

        await eventually(does)
        assert len(self.unreadable) == count
        return list(self.unreadable)


def ring(route: str, job_id: UUID | None = None) -> Outgoing:
    """Return a doorbell with a new ticket."""
    return codec.doorbell(
        ticket=uuid4(),
        job_id=job_id or uuid4(),
        namespace=names.namespace_of(route),
        route=route,
        traceparent=TRACEPARENT,
    )


def rings(route: str, count: int) -> list[Outgoing]:
    """Return doorbells for jobs of their own."""
    return [ring(route) for _ in range(count)]
