"""Removing a queue that has to be made anew, since the arguments of a queue cannot be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiormq.exceptions import ChannelAccessRefused, ChannelClosed, ChannelLockedResource, ChannelNotFoundEntity

from brokerjobs.broker.connection import linked, place
from brokerjobs.errors import PermissionDenied

if TYPE_CHECKING:
    from brokerjobs.broker.connection import Link
    from brokerjobs.broker.topology import Topology


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
    """Delete `queue` with what is in it, if it is there.  Raises PermissionDenied, BrokerUnavailable."""
    async with linked(url, "setup") as link:
        try:
            await _delete(link, queue)
        except ChannelNotFoundEntity:
            return
        except (ChannelAccessRefused, ChannelLockedResource) as error:
            raise _denied(url, queue, error) from error


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


async def _delete(link: Link, queue: str) -> None:
    channel = await link.channel()
    await link.answer(channel.queue_delete(queue))


def _denied(url: str, queue: str, error: ChannelClosed) -> PermissionDenied:
    if isinstance(error, ChannelLockedResource):
        return PermissionDenied(f"{queue!r} belongs to another connection alone; it goes when that is closed ({error})")
    return PermissionDenied(f"{place(url)} may not delete {queue!r} ({error}); give it the right to configure it")
