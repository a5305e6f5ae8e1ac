"""Removing a queue that has to be made anew, since the arguments of a queue cannot be changed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiormq.exceptions import ChannelAccessRefused, ChannelClosed, ChannelLockedResource, ChannelNotFoundEntity

from brokerjobs.broker.connection import linked, place
from brokerjobs.errors import PermissionDenied

if TYPE_CHECKING:
    from brokerjobs.broker.topology import Topology

# RabbitMQ tells the consumers of a deleted quorum queue a moment after its answer, and only if it finds none of that
# name then: if it is declared again at once they stay, unserved for ever (3.10.8: 12 of 12; none of 4 after 20 ms).
_TOLD_SECONDS = 1.0


async def message_count(url: str, queue: str) -> int | None:
    """Return how many messages are ready in `queue`, None if there is no such queue.

    Raises PermissionDenied, BrokerUnavailable.
    """
    async with linked(url, "setup") as link:
        channel = await link.channel()
        try:
            declared = await link.answer(channel.queue_declare(queue, passive=True))
        except ChannelNotFoundEntity:
            return None
        except (ChannelAccessRefused, ChannelLockedResource) as error:
            raise _denied(url, queue, error) from error
        return declared.message_count


async def remove(url: str, queue: str) -> None:
    """Delete `queue` with what is in it, if it is there, and return once its consumers have had time to be told.

    Raises PermissionDenied, BrokerUnavailable.
    """
    async with linked(url, "setup") as link:
        channel = await link.channel()
        try:
            there = await link.answer(channel.queue_declare(queue, passive=True))
            await link.answer(channel.queue_delete(queue))
        except ChannelNotFoundEntity:
            return
        except (ChannelAccessRefused, ChannelLockedResource) as error:
            raise _denied(url, queue, error) from error
        if there.consumer_count:
            await asyncio.sleep(_TOLD_SECONDS)


async def remove_all(url: str, topology: Topology) -> None:
    """Delete everything that `topology` names, with what is in it.  Raises PermissionDenied, BrokerUnavailable."""
    async with linked(url, "setup") as link:
        channel = await link.channel()
        name = ""
        try:
            for queue in topology.queues():
                name = queue.name
                await link.answer(channel.queue_delete(name))
            for exchange in topology.exchanges():
                name = exchange.name
                await link.answer(channel.exchange_delete(name))
        except (ChannelAccessRefused, ChannelLockedResource) as error:
            raise _denied(url, name, error) from error


def _denied(url: str, queue: str, error: ChannelClosed) -> PermissionDenied:
    if isinstance(error, ChannelLockedResource):
        return PermissionDenied(f"{queue!r} belongs to another connection alone; it goes when that is closed ({error})")
    return PermissionDenied(f"{place(url)} may not delete {queue!r} ({error}); give it the right to configure it")
