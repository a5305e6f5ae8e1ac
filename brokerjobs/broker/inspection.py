"""What is there at the broker, against what shall be: nothing is made, and nothing changed.

A queue's arguments cannot be read by AMQP.  But a broker refuses to declare a queue that exists with other arguments,
and says which one differs; so what is there is declared once more.  That needs the *configure* right, as `setup` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from aiormq.exceptions import ChannelAccessRefused, ChannelNotFoundEntity, ChannelPreconditionFailed

from brokerjobs.broker import topology
from brokerjobs.broker.connection import linked
from brokerjobs.broker.topology import Exchange, Queue

if TYPE_CHECKING:
    from aiormq import Channel

    from brokerjobs.broker.connection import Link
    from brokerjobs.broker.topology import Topology
    from brokerjobs.errors import TopologyMismatch


class Standing(Enum):
    """How something at the broker stands to what is wanted."""

    AS_WANTED = "as wanted"
    MISSING = "missing"
    DIFFERS = "differs"
    HIDDEN = "hidden"  # the login may not look


@dataclass(frozen=True, slots=True)
class Found:
    """One exchange or queue."""

    name: str
    standing: Standing
    mismatch: TopologyMismatch | None = None
    messages: int | None = None
    """Ready messages of a queue."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What answered, and everything that was looked for."""

    product: str
    found: tuple[Found, ...]


async def inspect(url: str, wanted: Topology) -> Inspection:
    """Look for everything that `wanted` names; errors as of `open_link`, and `ValueError` for what is no route."""
    things: list[Exchange | Queue] = [*wanted.exchanges(), *wanted.queues()]
    async with linked(url, "doctor") as link:
        looking = _Looking(link)
        return Inspection(link.product, tuple([await looking.at(thing) for thing in things]))


class _Looking:
    """A channel that is made anew after each refusal, with which the broker closes it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._open: Channel | None = None

    async def at(self, wanted: Exchange | Queue) -> Found:
        """Look at one thing."""
        messages: int | None = None
        try:
            messages = await self._passively(wanted)
            await self._again(wanted)
        except ChannelNotFoundEntity:
            return self._refused(Found(wanted.name, Standing.MISSING))
        except ChannelAccessRefused:
            return self._refused(Found(wanted.name, Standing.HIDDEN, messages=messages))
        except ChannelPreconditionFailed as error:
            mismatch = topology.mismatch(wanted.name, str(error))
            return self._refused(Found(wanted.name, Standing.DIFFERS, mismatch, messages))
        return Found(wanted.name, Standing.AS_WANTED, messages=messages)

    async def _passively(self, wanted: Exchange | Queue) -> int | None:
        channel = await self._channel()
        match wanted:
            case Exchange():
                await self._link.answer(channel.exchange_declare(wanted.name, passive=True))
                return None
            case Queue():
                declared = await self._link.answer(channel.queue_declare(wanted.name, passive=True))
                return declared.message_count

    async def _again(self, wanted: Exchange | Queue) -> None:
        """Declare what was there a moment ago; it is not bound, and nothing is made."""
        channel = await self._channel()
        match wanted:
            case Exchange():
                await self._link.answer(channel.exchange_declare(wanted.name, exchange_type=wanted.kind, durable=True))
            case Queue():
                again = channel.queue_declare(wanted.name, durable=True, arguments=dict(wanted.arguments))
                await self._link.answer(again)

    async def _channel(self) -> Channel:
        if self._open is None:
            self._open = await self._link.channel()
        return self._open

    def _refused(self, found: Found) -> Found:
        self._open = None
        return found
