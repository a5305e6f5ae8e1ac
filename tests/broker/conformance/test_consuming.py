"""Receiving and settling."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.broker import codec, names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from tests.broker.conformance.benches import NOWHERE
from tests.broker.conformance.looking import comes_to_hold
from tests.broker.inbox import ring, rings
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from brokerjobs.broker.brokers import Broker
    from brokerjobs.broker.protocol import Consumer, Delivery, Probe, Publisher
    from brokerjobs.broker.topology import QueueType
    from tests.broker.conformance.conftest import InboxFactory


async def test_delivery__says_what_arrived_by_which_road_and_when(
    route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    sent, before, before_at = ring(route, job_id := uuid4()), time.monotonic(), datetime.now(UTC)
    received = await inbox(route)
    await publisher.publish([sent])

    (delivery,) = await received.has(1)

    assert (delivery.ticket, delivery.job_id) == (sent.message_id, job_id)
    assert (delivery.namespace, delivery.route) == (names.namespace_of(route), route)
    assert (delivery.redelivered, delivery.tag) == (False, 1)
    assert before <= delivery.received <= time.monotonic()
    assert before_at <= delivery.received_at <= datetime.now(UTC)


async def test_prefetch__holds_for_each_route(
    broker: Broker, namespace: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    routes = [names.route_name(namespace, "a"), names.route_name(namespace, "b")]
    await broker.declare(Topology(routes=frozenset(routes)))
    await publisher.publish(rings(routes[0], 10) + rings(routes[1], 10))

    received = await inbox(*routes, prefetch=3)
    first = await received.has(6)
    for name in routes:
        await comes_to_hold(broker, name, 7)
    assert len(received.deliveries) == 6

    assert received.consumer.ack(first) == []
    await received.has(12)


async def test_consumers__of_one_route_share_what_comes(route: str, publisher: Publisher, inbox: InboxFactory) -> None:
    both = [await inbox(route), await inbox(route)]
    for one in both:
        await one.consumes(route)
    messages = rings(route, 10)
    await publisher.publish(messages)

    async def all_have_come() -> bool:
        return sum(len(one.deliveries) for one in both) == 10

    await eventually(all_have_come)
    assert [len(one.deliveries) for one in both] == [5, 5]
    assert {delivery.ticket for one in both for delivery in one.deliveries} == {one.message_id for one in messages}


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_ack__with_holes_settles_only_what_it_is_given(
    broker: Broker, namespace: str, publisher: Publisher, inbox: InboxFactory, queue_type: QueueType
) -> None:
    route = names.route_name(namespace, "default")
    await broker.declare(Topology(routes=frozenset({route}), queue_type=queue_type))
    await publisher.publish(rings(route, 12))
    received = await inbox(route)
    deliveries = await received.has(12)
    kept = [deliveries[index] for index in (2, 5, 11)]

    # Out of order, twice, and in two parts: first around the holes, then one of the holes.
    acked = [delivery for delivery in deliveries if delivery not in kept]
    assert received.consumer.ack([*reversed(acked), *acked[:3]]) == []
    assert received.consumer.ack([kept.pop(0), acked[0]]) == []
    assert await received.consumer.flush()
    await received.consumer.close()

    again = await inbox(route)
    redelivered = await again.has(2)
    assert {delivery.ticket for delivery in redelivered} == {delivery.ticket for delivery in kept}
    assert all(delivery.redelivered for delivery in redelivered)


async def test_reject__sends_to_quarantine_and_never_back(
    broker: Broker, route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    await publisher.publish(rings(route, 3))
    received = await inbox(route)
    deliveries = await received.has(3)

    assert received.consumer.reject(deliveries[1])
    assert received.consumer.reject(deliveries[1]), "a second time it does nothing"
    await comes_to_hold(broker, names.quarantine_queue(names.namespace_of(route)), 1)

    assert received.consumer.ack(deliveries) == []
    assert await received.consumer.flush()
    await received.consumer.close()
    assert await broker.message_count(route) == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": "someone.elses"}, "its type is 'someone.elses'"),
        ({"body": b"garbage"}, "the body is not JSON"),
    ],
)
async def test_message__that_is_no_doorbell_is_handed_out_as_unreadable(
    route: str, publisher: Publisher, inbox: InboxFactory, changes: dict[str, bytes], reason: str
) -> None:
    foreign = replace(ring(route), **changes)  # type: ignore[arg-type]  # fields of it
    await publisher.publish([ring(route), foreign, ring(route)])

    received = await inbox(route)
    deliveries = await received.has(2)
    (unreadable,) = await received.refuses(1)

    assert reason in unreadable.reason
    assert unreadable.ticket == foreign.message_id
    assert [delivery.tag for delivery in deliveries] == [1, 3]
    assert unreadable.tag == 2


async def test_probe__is_handed_out_apart_from_deliveries_and_settled_like_them(
    broker: Broker, namespace: str, route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    probe = codec.probe(ticket=uuid4(), namespace=namespace, route=route)
    deliveries: list[Delivery] = []
    probes: asyncio.Queue[Probe] = asyncio.Queue()
    consumer = broker.consumer({route: 1}, deliveries.append, print, on_probe=probes.put_nowait)
    async with running(consumer):
        await publisher.publish([probe, ring(route)])
        returned = await probes.get()
        assert (returned.ticket, returned.route, deliveries) == (probe.message_id, route, [])
        assert consumer.ack([returned]) == []

        async def is_delivered() -> bool:
            return bool(deliveries)

        await eventually(is_delivered)
    (again,) = await (await inbox(route)).has(1)
    assert again.redelivered, "the probe did not come again"


async def test_message__by_another_road_is_unreadable(
    broker: Broker, route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    """Whoever may write to the default exchange can put anything into any queue."""
    await publisher.publish([replace(ring(route), exchange="")])

    received = await inbox(route)
    (unreadable,) = await received.refuses(1)

    assert "came by exchange ''" in unreadable.reason
    assert received.consumer.reject(unreadable)
    await comes_to_hold(broker, names.quarantine_queue(names.namespace_of(route)), 1)


async def test_route__that_is_not_there_yet_is_waited_for(
    broker: Broker,
    namespace: str,
    publisher: Publisher,
    inbox: InboxFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "brokerjobs")
    there, missing = names.route_name(namespace, "there"), names.route_name(namespace, "missing")
    await broker.declare(Topology(routes=frozenset({there})))
    received = await inbox(there, missing)
    await received.consumes(there)
    await publisher.publish([ring(there)])
    (first,) = await received.has(1)

    async def is_said() -> bool:
        return missing in caplog.text

    await eventually(is_said)
    assert received.consumer.missing == {missing}
    await broker.declare(Topology(routes=frozenset({missing})))
    await received.consumes(there, missing)
    assert received.consumer.missing == frozenset()
    await publisher.publish([ring(missing)])
    await received.has(2)

    assert received.consumer.ack([first]) == [], "the other route kept its channel"
    said = [record.getMessage() for record in caplog.records if missing in record.getMessage() and "yet" in record.msg]
    assert len(said) == 1


async def test_route__that_is_deleted_costs_the_others_nothing_and_is_consumed_again_once_it_is_declared(
    broker: Broker, namespace: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    deleted, other = names.route_name(namespace, "deleted"), names.route_name(namespace, "other")
    wanted = Topology(routes=frozenset({deleted, other}))
    await broker.declare(wanted)
    received = await inbox(deleted, other)
    await received.consumes(deleted, other)
    await publisher.publish([ring(other)])
    (old,) = await received.has(1)

    await broker.remove_queue(deleted)
    await received.consumes(other)
    await publisher.publish([ring(other)])
    new = (await received.has(2))[1]
    assert (new.redelivered, new.generation) == (False, old.generation)
    assert received.consumer.ack([old, new]) == []

    await broker.declare(wanted)
    await received.consumes(deleted, other)
    await publisher.publish([ring(deleted)])
    assert (await received.has(3))[2].route == deleted


async def test_route__that_is_made_anew_at_once_is_consumed_again(
    broker: Broker, namespace: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    """As `brokerjobs setup --recreate` does, while its workers run."""
    route = names.route_name(namespace, "default")
    wanted = Topology(routes=frozenset({route}))
    await broker.declare(wanted)
    received = await inbox(route)
    await received.consumes(route)

    await broker.remove_queue(route)
    await broker.declare(wanted)

    assert await publisher.publish([ring(route)]) == [PublishOutcome.CONFIRMED]
    assert (await received.has(1))[0].route == route


async def test_stop_consuming__receives_nothing_more_and_settles_what_came(
    broker: Broker, route: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    received = await inbox(route)
    await publisher.publish(rings(route, 2))
    deliveries = await received.has(2)

    await received.consumer.stop_consuming()
    assert received.consumer.consuming == frozenset()
    await publisher.publish([ring(route)])
    await comes_to_hold(broker, route, 1)

    assert received.consumer.ack(deliveries) == []
    assert await received.consumer.flush()
    assert len(received.deliveries) == 2
    await received.consumer.close()
    assert await broker.message_count(route) == 1


async def test_flush__is_false_without_a_connection(kind: str) -> None:
    consumer = broker_at(NOWHERE[kind]).consumer({"payments.q.default": 1}, print, print)

    assert not await consumer.flush()
    await consumer.stop_consuming()
    await consumer.close()


async def test_close__gives_back_what_is_not_settled(route: str, publisher: Publisher, inbox: InboxFactory) -> None:
    await publisher.publish(rings(route, 4))
    first = await inbox(route)
    deliveries = await first.has(4)
    first.consumer.ack(deliveries[:1])

    await first.consumer.close()

    second = await inbox(route)
    assert {d.ticket for d in await second.has(3)} == {d.ticket for d in deliveries[1:]}


async def test_run__ends_when_it_is_cancelled(broker: Broker, route: str) -> None:
    consumer = broker.consumer({route: 1}, print, print)
    running = asyncio.create_task(consumer.run())

    async def consumes() -> bool:
        return route in consumer.consuming

    await eventually(consumes)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert consumer.consuming == frozenset()


async def test_run__ends_with_the_error_of_a_receiver(broker: Broker, route: str, publisher: Publisher) -> None:
    def broken(delivery: Delivery) -> None:
        raise ZeroDivisionError(delivery.route)

    consumer = broker.consumer({route: 1}, broken, print)
    await publisher.publish([ring(route)])

    with pytest.raises(ZeroDivisionError, match=route):
        await consumer.run()


async def test_receiver__runs_in_a_context_without_anybody_elses_variables(
    broker: Broker, route: str, publisher: Publisher
) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("of whoever started the consumer")
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    consumer = broker.consumer({route: 1}, lambda _: seen.set_result(variable.get()), print)
    async with running(consumer):
        await publisher.publish([ring(route)])
        assert await seen == "unset"


@asynccontextmanager
async def running(consumer: Consumer) -> AsyncGenerator[None]:
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.run())
        yield
        await consumer.close()


@pytest.mark.parametrize(("routes", "words"), [({"default": 1}, "is no route"), ({"p.q.x": 0}, "must be at least 1")])
def test_consumer__refuses_what_it_cannot_consume(kind: str, routes: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        broker_at(NOWHERE[kind]).consumer(routes, print, print)


async def test_deliveries__flow_for_more_than_one_prefetch(broker: Broker, route: str, publisher: Publisher) -> None:
    """A thousand through a prefetch of twenty, acknowledged as they come."""
    tickets: list[object] = []
    done = asyncio.Event()

    def settle(delivery: Delivery) -> None:
        tickets.append(delivery.ticket)
        assert consumer.ack([delivery]) == []
        if len(tickets) == 1000:
            done.set()

    consumer = broker.consumer({route: 20}, settle, print)
    messages = rings(route, 1000)
    assert set(await publisher.publish(messages)) == {PublishOutcome.CONFIRMED}
    async with running(consumer):
        await done.wait()
        assert await consumer.flush()

    assert tickets == [message.message_id for message in messages]
    assert await broker.message_count(route) == 0


async def test_hold__leaves_what_comes_at_the_broker_until_it_is_let_go(
    broker: Broker, namespace: str, publisher: Publisher, inbox: InboxFactory
) -> None:
    held, other = names.route_name(namespace, "held"), names.route_name(namespace, "other")
    await broker.declare(Topology(routes=frozenset({held, other})))
    received = await inbox(held, other)
    await publisher.publish(rings(held, 2))
    first = await received.has(2)

    await received.consumer.hold({held})
    assert received.consumer.consuming == {other}
    await publisher.publish(rings(held, 3) + rings(other, 1))
    await received.has(3)
    await comes_to_hold(broker, held, 3)
    assert received.consumer.ack(first) == []  # what came before can still be settled

    await received.consumer.hold(set())
    await received.has(6)
    assert received.consumer.consuming == {held, other}
    assert await received.consumer.flush()
