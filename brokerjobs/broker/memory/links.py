"""How the two ends reach the broker in memory: what a link is, and the one within a process."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, Protocol

from brokerjobs.broker.memory.words import Done, Gone
from brokerjobs.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.broker.memory.store import MemoryBroker
    from brokerjobs.broker.memory.words import Answer, Event, Request, Settle

_ANSWER_SECONDS = 10.0


class Link(Protocol):
    """One open link; what is asked is done in order."""

    @property
    def alive(self) -> bool:
        """Whether nothing is known of its end."""
        ...

    def ask(self, request: Request) -> asyncio.Future[Answer]:
        """Send a request; its answer is `Gone` if the link ends before."""
        ...

    def settle(self, request: Settle) -> bool:
        """Send what has no answer; False if the link has ended."""
        ...

    def listen(self, number: int, hear: Callable[[Event], None]) -> None:
        """Have `hear` called on the event loop, in an empty context, with each event of a subscription."""
        ...

    async def writable(self) -> None:
        """Wait until what was sent has left this process."""
        ...

    async def lost(self) -> None:
        """Wait for the end and raise `BrokerUnavailable`."""
        ...

    async def close(self) -> None:
        """End it in order: what was sent is done first."""
        ...


async def answer(link: Link, request: Request) -> Answer:
    """Ask, and wait at most ten seconds for the answer; raises `BrokerUnavailable`."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            answered = await link.ask(request)
    except TimeoutError as error:
        raise BrokerUnavailable("the in-memory broker does not answer") from error
    if isinstance(answered, Gone):
        raise BrokerUnavailable(answered.reason)
    return answered


class LocalLink:
    """A link to a broker in this process; events take a turn of the event loop, as they do over a network."""

    def __init__(self, broker: MemoryBroker) -> None:
        """Begin a session; raises `BrokerUnavailable` if the broker is stopped."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._ears: dict[int, Callable[[Event], None]] = {}
        self._session = broker.session(self._heard, self._end)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.done()

    def ask(self, request: Request) -> asyncio.Future[Answer]:
        """Have it done at once; the answer comes in the next turn of the loop."""
        answered: asyncio.Future[Answer] = self._loop.create_future()
        known = self._session.handle(request) if self.alive else Gone(reason=self._ended.result())
        self._loop.call_soon(_settle, answered, known)
        return answered

    def settle(self, request: Settle) -> bool:
        """Have it done at once; False if the link has ended."""
        if self.alive:
            self._session.handle(request)
            return True
        return False

    def listen(self, number: int, hear: Callable[[Event], None]) -> None:
        """Have `hear` called with the events of a subscription."""
        self._ears[number] = hear

    async def writable(self) -> None:
        """Give others a turn."""
        await asyncio.sleep(0)

    async def lost(self) -> None:
        """Wait for the end and raise `BrokerUnavailable`."""
        raise BrokerUnavailable(await asyncio.shield(self._ended))

    async def close(self) -> None:
        """End the session."""
        self._end("the link is closed")
        self._session.close()

    def _heard(self, event: Event) -> None:
        self._loop.call_soon(self._tell, event, context=Context())

    def _tell(self, event: Event) -> None:
        if self.alive and (hear := self._ears.get(event.number)) is not None:
            hear(event)

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)


def _settle(answered: asyncio.Future[Answer], known: Answer | None) -> None:
    if not answered.done():
        answered.set_result(known or Done())
