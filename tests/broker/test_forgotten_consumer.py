"""A consumer that RabbitMQ has forgotten without a word, as it asks again after having been idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiormq
import pytest

from brokerjobs.broker import connection, names, subscription, topology
from brokerjobs.broker.protocol import PublishOutcome
from tests.broker.inbox import ring
from tests.waiting import eventually

if TYPE_CHECKING:
    from brokerjobs.broker.publisher import Publisher
    from tests.broker.conftest import InboxFactory

IDLE_SECONDS = 0.3


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle is what has been silent for a moment."""
    monkeypatch.setattr(subscription, "_IDLE_SECONDS", IDLE_SECONDS)


async def test_queue__that_another_program_makes_anew_at_once_is_consumed_again(
    broker_url: str, namespace: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    """RabbitMQ 3.10 tells a consumer of a deleted quorum queue nothing if one of that name is there again by then."""
    route = names.route_name(namespace, "default")
    wanted = topology.Topology(routes=frozenset({route}))
    await topology.declare(broker_url, wanted)
    received = await inbox(route)
    await received.consumes(route)

    opened = await aiormq.connect(broker_url)
    channel = await opened.channel()
    await channel.queue_delete(route)
    await topology.declare(broker_url, wanted)
    await opened.close()

    assert await publisher.publish([ring(route)]) == [PublishOutcome.CONFIRMED]
    assert (await received.has(1))[0].route == route


def _say_nothing(_: subscription.Subscription, __: Exception) -> None:
    """In place of what hears that something broke."""


async def test_queue__that_is_gone_without_a_word_is_missed_and_consumed_again(
    broker_url: str, namespace: str, publisher: Publisher, inbox: InboxFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription.Subscription, "_break", _say_nothing)
    route = names.route_name(namespace, "default")
    wanted = topology.Topology(routes=frozenset({route}))
    await topology.declare(broker_url, wanted)
    received = await inbox(route)
    await received.consumes(route)

    opened = await aiormq.connect(broker_url)
    await (await opened.channel()).queue_delete(route)
    await opened.close()

    async def missed() -> bool:
        return received.consumer.missing == frozenset({route})

    await eventually(missed)
    await topology.declare(broker_url, wanted)
    await received.consumes(route)
    await publisher.publish([ring(route)])
    await received.has(1)


async def test_consumer__that_is_idle_and_asks_again_gets_each_message_once(
    route: str, publisher: Publisher, inbox: InboxFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that come in the moment in which it asks for no more."""
    monkeypatch.setattr(subscription, "_IDLE_SECONDS", 0.0)
    received = await inbox(route)
    for count in range(1, 41):
        await publisher.publish([ring(route)])
        await received.has(count)
        received.consumer.ack([received.deliveries[-1]])
    assert len({one.ticket for one in received.deliveries}) == 40
    assert len({one.generation for one in received.deliveries}) > 1


async def test_consumer__that_holds_something_keeps_its_channel(
    route: str, publisher: Publisher, inbox: InboxFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "_IDLE_SECONDS", 0.0)
    received = await inbox(route)
    await publisher.publish([ring(route)])
    (held,) = await received.has(1)
    await publisher.publish([ring(route)])

    await received.has(2)

    assert {one.generation for one in received.deliveries} == {held.generation}
    assert received.consumer.ack(received.deliveries) == []


async def test_link__uses_the_number_of_a_channel_again_that_was_given_back(broker_url: str) -> None:
    async with connection.linked(broker_url, "test") as link:
        first, second = await link.channel(), await link.channel()
        await link.give_back(first)
        third = await link.channel()
        assert (first.number, second.number, third.number) == (1, 2, 1)
        assert (await link.answer(third.basic_qos(prefetch_count=1))) is not None


async def test_consumer__that_asks_again_stops_all_the_same(
    route: str, publisher: Publisher, inbox: InboxFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "_IDLE_SECONDS", 0.0)
    received = await inbox(route)
    await received.consumes(route)

    await received.consumer.stop_consuming()
    await publisher.publish([ring(route)])

    other = await inbox(route)
    await other.has(1)
    assert received.deliveries == []
