"""Routes that come, go and change while they are consumed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker import names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.topology import Topology
from tests.broker.conformance.benches import NOWHERE
from tests.broker.conformance.looking import comes_to_hold
from tests.broker.inbox import ring, rings
from tests.waiting import eventually

if TYPE_CHECKING:
    from brokerjobs.broker.brokers import Broker
    from brokerjobs.broker.protocol import Delivery, Publisher
    from tests.broker.conformance.conftest import InboxFactory


@pytest.fixture
async def three(broker: Broker, namespace: str) -> list[str]:
    """Three declared routes, of several kinds."""
    routes = [
        names.route_name(namespace, "a"),
        names.route_name(namespace, "b", "0123456789ab", "high"),
        names.route_name(namespace, "c", lane="low"),
    ]
    await broker.declare(Topology(routes=frozenset(routes)))
    return routes


async def test_serve__adds_and_removes_routes_and_leaves_the_others_alone(
    three: list[str], broker: Broker, publisher: Publisher, inbox: InboxFactory
) -> None:
    kept, removed, added = three
    received = await inbox(kept, removed)
    await publisher.publish(rings(kept, 2) + rings(removed, 2))
    first = await received.has(4)

    await received.consumer.serve({kept: 20, added: 20})
    await received.consumes(kept, added)
    await publisher.publish([ring(removed), ring(added), ring(kept)])
    new = (await received.has(6))[4:]
    assert {one.route for one in new} == {kept, added}
    assert {one.generation for one in received.deliveries if one.route == kept} == {
        next(one.generation for one in first if one.route == kept)
    }
    await comes_to_hold(broker, removed, 1)

    assert received.consumer.ack(received.deliveries) == [], "what came before can still be settled"
    assert await received.consumer.flush()
    await received.consumer.close()
    again = await inbox(*three)
    (left,) = await again.has(1)
    assert (left.route, left.redelivered) == (removed, False)


async def test_serve__takes_a_removed_route_back_while_something_of_it_is_unsettled(
    three: list[str], publisher: Publisher, inbox: InboxFactory
) -> None:
    route, other, _ = three
    received = await inbox(route, other)
    await publisher.publish([ring(route)])
    (held,) = await received.has(1)

    await received.consumer.serve({other: 20})
    await received.consumer.serve({route: 20, other: 20})
    await received.consumes(route, other)
    await publisher.publish([ring(route)])

    new = (await received.has(2))[1]
    assert not new.redelivered
    assert received.consumer.ack([held, new]) == []
    assert await received.consumer.flush()
    await received.consumer.close()
    await publisher.publish([ring(route)])
    (last,) = await (await inbox(route)).has(1)
    assert last.ticket not in {held.ticket, new.ticket}


async def test_serve__rejects_what_came_by_a_removed_route(
    three: list[str], broker: Broker, publisher: Publisher, inbox: InboxFactory
) -> None:
    route, other, _ = three
    received = await inbox(route, other)
    await publisher.publish([ring(route)])
    (held,) = await received.has(1)

    await received.consumer.serve({other: 20})

    assert received.consumer.reject(held)
    await comes_to_hold(broker, names.quarantine_queue(names.namespace_of(route)), 1)


async def test_serve__changes_the_prefetch_of_a_route_that_is_consumed(
    three: list[str], broker: Broker, publisher: Publisher, inbox: InboxFactory
) -> None:
    route, other, _ = three
    received = await inbox(route, prefetch=2)
    await publisher.publish(rings(route, 2))
    first = await received.has(2)
    assert received.consumer.ack(first[:1]) == []

    await received.consumer.serve({route: 5, other: 1})
    await received.consumes(route, other)
    assert received.consumer.ack(first[1:]) == []
    assert await received.consumer.flush()
    await publisher.publish(rings(route, 10))
    more = (await received.has(7))[2:]
    await comes_to_hold(broker, route, 5)
    assert {one.generation for one in received.deliveries} == {first[0].generation}, "it kept its channel"
    assert received.consumer.ack(more) == []
    last = (await received.has(12))[7:]
    assert not any(one.redelivered for one in received.deliveries)

    await received.consumer.serve({route: 1})
    assert received.consumer.ack(last) == []
    assert await received.consumer.flush()
    await publisher.publish(rings(route, 3))
    (only,) = (await received.has(13))[12:]
    await comes_to_hold(broker, route, 2)
    received.consumer.ack([only])
    await received.has(14)


async def test_serve__loses_and_repeats_nothing_while_messages_flow(
    three: list[str], broker: Broker, publisher: Publisher
) -> None:
    """Prefetches and routes change with every tenth message; what comes is settled a moment later."""
    tickets: list[object] = []
    tenth = asyncio.Event()
    loop = asyncio.get_running_loop()

    def take(delivery: Delivery) -> None:
        tickets.append(delivery.ticket)
        loop.call_soon(lambda: consumer.ack([delivery]))
        if len(tickets) % 10 == 0:
            tenth.set()

    consumer = broker.consumer(dict.fromkeys(three, 5), take, print)
    messages = [one for _ in range(150) for route in three for one in rings(route, 1)]
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.run())
        publishing = group.create_task(publisher.publish(messages))
        rounds = 0
        while len(tickets) < len(messages):
            await tenth.wait()
            tenth.clear()
            rounds += 1
            served = {route: 1 + (rounds + place) % 7 for place, route in enumerate(three)}
            del served[three[rounds % 3]]
            await consumer.serve(served)
            await consumer.serve(dict.fromkeys(three, 1 + rounds % 5))
        await publishing
        assert await consumer.flush()
        await consumer.close()

    assert sorted(map(str, tickets)) == sorted(str(one.message_id) for one in messages)
    assert rounds > 3


async def test_serve__asks_at_once_for_a_route_that_was_not_there(
    three: list[str], broker: Broker, namespace: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    late = names.route_name(namespace, "late")
    received = await inbox(three[0])
    await received.consumes(three[0])
    await received.consumer.serve({three[0]: 20, late: 20})

    async def is_missing() -> bool:
        return received.consumer.missing == frozenset({late})

    await eventually(is_missing)
    await broker.declare(Topology(routes=frozenset({late})))
    await received.consumer.serve({three[0]: 20, late: 20})
    await received.consumes(three[0], late)
    await publisher.publish([ring(late)])
    await received.has(1)
    await received.consumer.serve({three[0]: 20})
    assert received.consumer.missing == frozenset()


async def test_serve__forgets_a_route_that_was_never_there(
    three: list[str], namespace: str, inbox: InboxFactory
) -> None:
    never = names.route_name(namespace, "never")
    received = await inbox(three[0], never)

    async def is_missing() -> bool:
        return received.consumer.missing == frozenset({never})

    await eventually(is_missing)
    await received.consumer.serve({three[0]: 20})

    assert received.consumer.missing == frozenset()
    assert received.consumer.consuming == {three[0]}


async def test_serve__counts_before_there_is_a_connection_and_after_it_was_lost(
    three: list[str], broker: Broker, publisher: Publisher
) -> None:
    deliveries: list[str] = []
    consumer = broker.consumer({three[0]: 1}, lambda one: deliveries.append(one.route), print)
    await consumer.serve({three[1]: 3})
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.run())
        await publisher.publish(rings(three[0], 1) + rings(three[1], 3))

        async def have_come() -> bool:
            return len(deliveries) == 3

        await eventually(have_come)
        assert deliveries == [three[1]] * 3
        await consumer.close()


async def test_serve__of_held_routes_waits_until_they_are_let_go(
    three: list[str], broker: Broker, publisher: Publisher, inbox: InboxFactory
) -> None:
    first, held, _ = three
    received = await inbox(first)
    await received.consumer.hold({held})
    await received.consumer.serve({first: 20, held: 20})
    await publisher.publish([ring(held), ring(first)])
    await received.has(1)
    await comes_to_hold(broker, held, 1)
    assert received.consumer.consuming == {first}

    await received.consumer.hold(())
    await received.consumes(first, held)
    await received.has(2)


async def test_serve__of_nothing_keeps_the_consumer_alive(
    three: list[str], publisher: Publisher, inbox: InboxFactory
) -> None:
    received = await inbox()
    await received.consumer.serve({three[0]: 1})
    await received.consumes(three[0])
    await received.consumer.serve({})
    await received.consumes()
    await publisher.publish([ring(three[0])])
    await received.consumer.serve({three[0]: 1})
    await received.has(1)


async def test_serve__after_stop_consuming_receives_nothing(
    three: list[str], broker: Broker, publisher: Publisher, inbox: InboxFactory
) -> None:
    received = await inbox(three[0])
    await received.consumes(three[0])
    await received.consumer.stop_consuming()
    await received.consumer.serve({three[1]: 20})
    await publisher.publish([ring(three[1])])
    await comes_to_hold(broker, three[1], 1)
    assert (received.deliveries, received.consumer.consuming) == ([], frozenset())


async def test_serve__refuses_what_it_cannot_consume_and_changes_nothing(kind: str) -> None:
    consumer = broker_at(NOWHERE[kind]).consumer({"payments.q.default": 1}, print, print)
    with pytest.raises(ValueError, match="is no route"):
        await consumer.serve({"payments.q.default": 1, "default": 1})
    with pytest.raises(ValueError, match="must be at least 1"):
        await consumer.serve({"payments.q.default": 0})
