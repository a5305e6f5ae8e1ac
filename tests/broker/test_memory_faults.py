"""Losing, repeating and reordering on command, as simulations and tests of the rest need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker import names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.memory import setup
from brokerjobs.broker.memory.address import named
from brokerjobs.broker.memory.faults import drawn
from brokerjobs.broker.memory.store import MemoryBroker
from brokerjobs.broker.memory.words import Fate
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from tests.broker.inbox import Inbox, rings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from uuid import UUID

ROUTE = names.route_name("payments", "default")


@pytest.fixture
async def memory() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
async def url(memory: MemoryBroker) -> AsyncIterator[str]:
    with named(memory) as made:
        await broker_at(made).declare(Topology(routes=frozenset({ROUTE})))
        yield made


async def tickets(url: str, sent: int, arriving: int) -> tuple[list[UUID], list[UUID]]:
    """Publishes, and waits for what arrives; both in order."""
    broker = broker_at(url)
    messages = rings(ROUTE, sent)
    publisher = broker.publisher()
    assert await publisher.publish(messages) == [PublishOutcome.CONFIRMED] * sent
    await publisher.close()
    async with Inbox(url, {ROUTE: 1000}) as received:
        deliveries = await received.has(arriving)
        received.consumer.ack(deliveries)
    return [message.message_id for message in messages], [delivery.ticket for delivery in deliveries]


async def test_drop__loses_what_was_confirmed(memory: MemoryBroker, url: str) -> None:
    memory.faults.drop(2)

    sent, arrived = await tickets(url, 5, 3)

    assert arrived == sent[2:]


async def test_repeat__delivers_each_twice(memory: MemoryBroker, url: str) -> None:
    memory.faults.repeat(2)

    sent, arrived = await tickets(url, 3, 5)

    assert arrived == [sent[0], sent[0], sent[1], sent[1], sent[2]]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("seed", range(5))
async def test_reorder__delivers_all_in_another_order(memory: MemoryBroker, url: str, seed: int, count: int) -> None:
    memory.faults.reorder(count, seed)

    sent, arrived = await tickets(url, 5, 5)

    assert sorted(arrived[:count]) == sorted(sent[:count])
    assert arrived[:count] != sent[:count]
    assert arrived[count:] == sent[count:]


async def test_reorder__holds_what_came_until_all_have_come_or_it_is_let_go(memory: MemoryBroker, url: str) -> None:
    memory.faults.reorder(3)
    assert (await tickets(url, 2, 0))[1] == []

    memory.faults.release()

    assert await broker_at(url).message_count(ROUTE) == 2


async def test_plan__is_met_in_the_order_of_arrival_and_the_same_for_the_same_seed(
    memory: MemoryBroker, url: str
) -> None:
    fates = drawn(7, 200, drop=0.1, repeat=0.1, hold=0.2)
    assert fates == drawn(7, 200, drop=0.1, repeat=0.1, hold=0.2)
    assert fates != drawn(8, 200, drop=0.1, repeat=0.1, hold=0.2)
    count: Callable[[Fate], int] = fates.count
    arriving = 200 - count(Fate.DROP) + count(Fate.REPEAT)
    orders: list[list[int]] = []
    for _ in range(2):
        await setup.misbehave(url, fates, seed=7)
        sent, arrived = await tickets(url, 200, arriving)
        orders.append([sent.index(ticket) for ticket in arrived])

    assert orders[0] == orders[1]
    assert min(count(fate) for fate in Fate) > 0
    held = [place for place, fate in enumerate(fates) if fate is Fate.HOLD]
    assert sorted(orders[0][-len(held) - 1 :])[-len(held) :] != held  # not in their order, at the end or before it


def test_drawn__refuses_what_are_no_chances() -> None:
    with pytest.raises(ValueError, match="at most 1"):
        drawn(1, 10, drop=0.6, repeat=0.6)
    with pytest.raises(ValueError, match="not negative"):
        drawn(1, 10, drop=-0.1)
