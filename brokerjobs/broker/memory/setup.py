"""Making and removing what exists at the broker in memory, and telling it to misbehave."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from brokerjobs.broker.connection import HEARTBEAT
from brokerjobs.broker.inspection import Found, Inspection, Standing
from brokerjobs.broker.memory import words
from brokerjobs.broker.memory.address import open_link
from brokerjobs.broker.memory.links import answer
from brokerjobs.broker.topology import together
from brokerjobs.errors import TopologyMismatch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from brokerjobs.broker.memory.links import Link
    from brokerjobs.broker.topology import Topology


@asynccontextmanager
async def linked(url: str) -> AsyncGenerator[Link]:
    """Hold a link; errors as of `open_link`."""
    link = await open_link(url, HEARTBEAT)
    try:
        yield link
    finally:
        await link.close()


async def declare(url: str, topology: Topology) -> None:
    """Make what is missing, and change nothing that is there; errors as of `topology.declare`."""
    wanted: list[words.Request] = [words.DeclareExchange(exchange=one) for one in topology.exchanges()]
    wanted += [words.DeclareQueue(queue=one) for one in topology.queues()]
    errors: list[TopologyMismatch] = []
    async with linked(url) as link:
        for request in wanted:
            match await answer(link, request):
                case words.Differs(name=name, argument=argument, existing=existing, wanted=asked):
                    errors.append(TopologyMismatch(queue=name, argument=argument, existing=existing, wanted=asked))
                case _:
                    pass
    together(errors)


async def remove(url: str, topology: Topology) -> None:
    """Delete everything that `topology` names, with what is in it; errors as of `open_link`."""
    async with linked(url) as link:
        for queue in topology.queues():
            await answer(link, words.Delete(kind="queue", name=queue.name))
        for exchange in topology.exchanges():
            await answer(link, words.Delete(kind="exchange", name=exchange.name))


async def remove_queue(url: str, queue: str) -> None:
    """Delete `queue` with what is in it, if it is there; errors as of `open_link`."""
    async with linked(url) as link:
        await answer(link, words.Delete(kind="queue", name=queue))


async def message_count(url: str, queue: str) -> int | None:
    """Return how many messages are ready in `queue`, None if there is no such queue; errors as of `open_link`."""
    async with linked(url) as link:
        answered = await answer(link, words.Count(queue=queue))
    return answered.count if isinstance(answered, words.Counted) else None


async def inspect(url: str, topology: Topology) -> Inspection:
    """Look for the queues of `topology`: exchanges come with them.  Errors as of `open_link`."""
    found: list[Found] = []
    async with linked(url) as link:
        for queue in topology.queues():
            counted = await answer(link, words.Count(queue=queue.name))
            count = counted.count if isinstance(counted, words.Counted) else None
            if count is None:
                found.append(Found(queue.name, Standing.MISSING))
                continue
            match await answer(link, words.DeclareQueue(queue=queue)):
                case words.Differs(name=name, argument=argument, existing=existing, wanted=asked):
                    mismatch = TopologyMismatch(queue=name, argument=argument, existing=existing, wanted=asked)
                    found.append(Found(queue.name, Standing.DIFFERS, mismatch, count))
                case _:
                    found.append(Found(queue.name, Standing.AS_WANTED, messages=count))
    return Inspection("memory", tuple(found))


async def check(url: str) -> None:
    """Find out whether it answers; errors as of `open_link`."""
    async with linked(url) as link:
        await answer(link, words.Flush())


async def misbehave(url: str, fates: Sequence[words.Fate], seed: int = 0) -> None:
    """Have the next messages meet these fates; errors as of `open_link`."""
    async with linked(url) as link:
        await answer(link, words.Misbehave(fates=tuple(fates), seed=seed))
