"""A link to the broker of another process, over its socket."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING

from brokerjobs.broker.memory.links import answer
from brokerjobs.broker.memory.wire import LONGEST_REQUEST, TooLong, Wire
from brokerjobs.broker.memory.words import REPLIES, VERSION, Cancelled, Delivered, Gone, Hello
from brokerjobs.errors import BrokerUnavailable, PermissionDenied

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from pathlib import Path

    from brokerjobs.broker.memory.words import Answer, Event, Request, Settle

_CONNECT_SECONDS = 10.0


class SocketLink:
    """One connection; answers come in the order of the requests, so they need no numbers."""

    def __init__(self, wire: Wire, where: str) -> None:
        self._wire = wire
        self._where = where
        self._asked: deque[asyncio.Future[Answer]] = deque()
        self._ears: dict[int, Callable[[Event], None]] = {}
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.get_running_loop().create_task(self._read(), context=Context())

    @classmethod
    async def open(cls, path: Path, where: str, heartbeat: timedelta) -> SocketLink:
        """Connect within ten seconds; raises `BrokerUnavailable`, `PermissionDenied` for another user's socket."""
        wire = Wire(*await _connected(path, where))
        if not wire.is_of_this_user():
            wire.abort()
            raise PermissionDenied(f"{where} is served by another user's process")
        try:
            link = cls(wire, where)
            wire.beat(heartbeat.total_seconds())
            await answer(link, Hello(version=VERSION, heartbeat=heartbeat.total_seconds()))
        except BaseException:
            wire.abort()
            raise
        return link

    @property
    def alive(self) -> bool:
        """Whether nothing is known of its end."""
        return not self._ended.done()

    def ask(self, request: Request) -> asyncio.Future[Answer]:
        """Send a request; its answer is `Gone` if the link ends before, or if it is too long to be sent."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self.alive:
            answered.set_result(Gone(reason=self._ended.result()))
            return answered
        try:
            self._wire.send(request, LONGEST_REQUEST)
        except TooLong as error:
            answered.set_result(Gone(reason=str(error)))
        else:
            self._asked.append(answered)
        return answered

    def settle(self, request: Settle) -> bool:
        """Send what has no answer; False if the link has ended."""
        if self.alive:
            self._wire.send(request)
        return self.alive

    def listen(self, number: int, hear: Callable[[Event], None]) -> None:
        """Have `hear` called with the events of a subscription."""
        self._ears[number] = hear

    async def writable(self) -> None:
        """Wait until what was sent has left this process; raises `BrokerUnavailable`."""
        try:
            await self._wire.drain()
        except OSError as error:
            raise BrokerUnavailable(f"{self._where} has closed the connection") from error

    async def lost(self) -> None:
        """Wait for the end and raise `BrokerUnavailable`."""
        raise BrokerUnavailable(await asyncio.shield(self._ended))

    async def close(self) -> None:
        """Send what was to be sent, and end the connection."""
        self._reading.cancel()
        self._end(f"{self._where}: the link is closed")
        await self._wire.close()

    async def _read(self) -> None:
        reason = "has closed the connection"
        try:
            async for frame in self._wire.frames():
                self._heard(REPLIES.validate_json(frame))
        except TimeoutError:
            reason = "has been silent for two heartbeats"
        except (OSError, ValueError) as error:
            reason = f"has closed the connection ({error})"
        # Not after a cancellation: `close` still writes.
        self._end(f"{self._where} {reason}")
        self._wire.abort()

    def _heard(self, reply: Answer | Event) -> None:
        match reply:
            case Delivered() | Cancelled():
                if (hear := self._ears.get(reply.number)) is not None:
                    hear(reply)
            case _:
                answered = self._asked.popleft()
                if not answered.done():
                    answered.set_result(reply)

    def _end(self, reason: str) -> None:
        if self._ended.done():
            return
        self._ended.set_result(reason)
        for answered in self._asked:
            if not answered.done():
                answered.set_result(Gone(reason=reason))
        self._asked.clear()


async def _connected(path: Path, where: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await asyncio.open_unix_connection(path)
    except PermissionError as error:
        raise PermissionDenied(f"{where} belongs to another user ({error.strerror})") from error
    except OSError as error:
        words = error.strerror or type(error).__name__
        raise BrokerUnavailable(f"{where} cannot be reached ({words}); does anybody serve it?") from error
