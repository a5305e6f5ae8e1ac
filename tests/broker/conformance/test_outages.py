"""What a broker can do to us that costs time and nothing else."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from brokerjobs.broker import names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from brokerjobs.servers.memory import PrivateMemoryBroker
from tests.broker.conformance.looking import comes_to_hold
from tests.broker.inbox import Inbox, ring, rings
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator

    from brokerjobs.broker.brokers import Broker
    from brokerjobs.broker.protocol import Publisher
    from tests.broker.conformance.benches import Bench
    from tests.nodes import RabbitMQNode

CONFIRMED, UNKNOWN = PublishOutcome.CONFIRMED, PublishOutcome.UNKNOWN
BETWEEN_PROCESSES = ("rabbitmq", "memory over a socket")
ROOT = Path(__file__).parents[3]
# Takes one delivery and settles nothing.
HOLDER = """
import asyncio, sys
from datetime import timedelta
from brokerjobs.broker.brokers import broker_at

url, route, heartbeat = sys.argv[1:]
consumer = broker_at(url).consumer(
    {route: 1}, lambda one: print(one.ticket, flush=True), print, heartbeat=timedelta(seconds=int(heartbeat))
)
asyncio.run(consumer.run())
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a delivery."""

    process: subprocess.Popen[str]

    async def ticket(self) -> UUID:
        """Waits for the delivery."""
        assert self.process.stdout is not None
        # The broker may be served by this very event loop.
        line = await asyncio.to_thread(self.process.stdout.readline)
        return UUID(line.strip())

    def stand_still(self) -> None:
        self.process.send_signal(signal.SIGSTOP)


@contextmanager
def holding(url: str, route: str, heartbeat_seconds: int = 15) -> Generator[Holder]:
    """Starts such a process, and kills it at the end."""
    command = [sys.executable, "-c", HOLDER, url, route, str(heartbeat_seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Holder(process)
        finally:
            process.kill()


@pytest.fixture
async def bench_route(bench: Bench, namespace: str) -> str:
    """A declared quorum route of `bench`, with a small delivery limit."""
    name = names.route_name(namespace, "default")
    await declare(bench.broker, name)
    return name


@pytest.fixture
async def bench_publisher(bench: Bench) -> AsyncIterator[Publisher]:
    async with publishing(bench.broker.publisher()) as made:
        yield made


@asynccontextmanager
async def publishing(publisher: Publisher) -> AsyncGenerator[Publisher]:
    try:
        yield publisher
    finally:
        await publisher.close()


async def declare(broker: Broker, route: str) -> None:
    await broker.declare(Topology(routes=frozenset({route}), delivery_limit=2))


async def confirmed(publisher: Publisher, route: str) -> None:
    """Publish until one is confirmed."""

    async def is_confirmed() -> bool:
        return await publisher.publish([ring(route)]) == [CONFIRMED]

    await eventually(is_confirmed, 20.0)


async def test_connections__that_are_cut_are_made_anew(
    bench: Bench, bench_route: str, bench_publisher: Publisher
) -> None:
    await bench_publisher.publish(rings(bench_route, 3))
    async with Inbox(bench.broker.url, {bench_route: 20}) as received:
        old = await received.has(3)

        await bench.cut()

        new = (await received.has(6))[3:]
        assert [delivery.ticket for delivery in new] == [delivery.ticket for delivery in old]
        assert all(delivery.redelivered for delivery in new)
        await confirmed(bench_publisher, bench_route)


async def test_ack__is_never_sent_on_another_connection(
    bench: Bench, bench_route: str, bench_publisher: Publisher
) -> None:
    await bench_publisher.publish(rings(bench_route, 3))
    async with Inbox(bench.broker.url, {bench_route: 20}) as received:
        old = await received.has(3)
        await bench.cut()
        new = (await received.has(6))[3:]
        assert [delivery.tag for delivery in new] == [delivery.tag for delivery in old], "only the generation differs"

        assert received.consumer.ack([*old, new[0]]) == old
        assert not received.consumer.reject(old[2])
        assert await received.consumer.flush()

    await comes_to_hold(bench.broker, bench_route, 2)


async def test_broker__that_stops_and_starts_is_used_again(
    bench: Bench, bench_route: str, bench_publisher: Publisher
) -> None:
    async with Inbox(bench.broker.url, {bench_route: 20}) as received:
        await received.consumes(bench_route)
        assert await bench_publisher.publish([ring(bench_route)]) == [CONFIRMED]
        (old,) = await received.has(1)

        await bench.stop()
        try:
            assert await bench_publisher.publish(rings(bench_route, 2)) == [UNKNOWN, UNKNOWN]
            assert received.consumer.consuming == frozenset()
            assert received.consumer.ack(received.deliveries) == received.deliveries
            assert not await received.consumer.flush()
        finally:
            await bench.start()

        # What a broker forgets is declared again by `setup`, and rung again by the ledger.
        await declare(bench.broker, bench_route)
        await received.consumes(bench_route, within_seconds=30.0)
        again = ring(bench_route)
        assert await bench_publisher.publish([again]) == [CONFIRMED]

        async def has_come() -> bool:
            return any(delivery.ticket == again.message_id for delivery in received.deliveries)

        await eventually(has_come)
        assert received.consumer.ack([old]) == [old]


async def test_delivery_limit__sends_what_comes_again_and_again_to_quarantine(
    bench: Bench, bench_route: str, bench_publisher: Publisher
) -> None:
    """A limit of two lets it come three times."""
    await bench_publisher.publish([ring(bench_route)])
    for time in range(3):
        async with Inbox(bench.broker.url, {bench_route: 20}) as received:
            (delivery,) = await received.has(1)
            assert delivery.redelivered == (time > 0)

    await comes_to_hold(bench.broker, names.quarantine_queue(names.namespace_of(bench_route)), 1)
    assert await bench.broker.message_count(bench_route) == 0


async def test_classic_queue__delivers_without_limit(bench: Bench, namespace: str, bench_publisher: Publisher) -> None:
    route = names.route_name(namespace, "classic")
    await bench.broker.declare(Topology(routes=frozenset({route}), delivery_limit=2, queue_type="classic"))
    await bench_publisher.publish([ring(route)])
    for _ in range(5):
        async with Inbox(bench.broker.url, {route: 20}) as received:
            await received.has(1)

    await comes_to_hold(bench.broker, route, 1)


async def test_connection__that_is_cut_gives_back_in_order(
    bench: Bench, bench_route: str, bench_publisher: Publisher
) -> None:
    """Before what came after it: an old job does not wait behind all newer ones."""
    messages = rings(bench_route, 6)
    await bench_publisher.publish(messages)
    async with Inbox(bench.broker.url, {bench_route: 3}) as received:
        await received.has(3)
    async with Inbox(bench.broker.url, {bench_route: 6}) as received:
        tickets = [delivery.ticket for delivery in await received.has(6)]

    assert tickets == [message.message_id for message in messages]


@pytest.mark.parametrize("kind", BETWEEN_PROCESSES, indirect=True)
async def test_consumer__that_is_killed_gives_back_what_it_had(
    bench: Bench, bench_route: str, bench_publisher: Publisher
) -> None:
    messages = rings(bench_route, 2)
    await bench_publisher.publish(messages)
    with holding(bench.broker.url, bench_route) as holder:
        held = await holder.ticket()

    assert held == messages[0].message_id
    async with Inbox(bench.broker.url, {bench_route: 20}) as received:
        by_ticket = {delivery.ticket: delivery.redelivered for delivery in await received.has(2)}

    assert by_ticket == {messages[0].message_id: True, messages[1].message_id: False}


@pytest.fixture
def process(
    kind: str, real_node: RabbitMQNode | None, socket_folder: Path
) -> Iterator[RabbitMQNode | PrivateMemoryBroker]:
    """A broker in a process of its own."""
    if real_node is not None:
        yield real_node
        return
    with PrivateMemoryBroker.start(socket_folder / "own") as started:
        yield started


@pytest.mark.parametrize("kind", BETWEEN_PROCESSES, indirect=True)
async def test_broker__that_stands_still_is_noticed_by_its_heartbeat(
    process: RabbitMQNode | PrivateMemoryBroker, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers nothing and closes nothing."""
    second = timedelta(seconds=1)
    broker, route = broker_at(process.url), names.route_name(namespace, "default")
    await broker.declare(Topology(routes=frozenset({route})))
    # Short periods, which a busy machine may miss without the broker standing still: more may come again than has to.
    async with publishing(broker.publisher(time_limit=3 * second, heartbeat=second)) as publisher:
        await confirmed(publisher, route)
        async with Inbox(process.url, {route: 5}, heartbeat=second) as received:

            async def has_come() -> bool:
                return bool(received.deliveries)

            await eventually(has_come)
            # The broker's answer may come after what it delivers.
            await received.consumes(route)
            process.freeze()
            try:
                await received.consumes()
                assert await publisher.publish([ring(route)]) == [UNKNOWN]
            finally:
                process.thaw()

            first = received.deliveries[0].ticket

            async def has_come_again() -> bool:
                return any(one.redelivered and one.ticket == first for one in received.deliveries)

            await eventually(has_come_again, 20.0)
        assert "connecting again" in caplog.text
        await confirmed(publisher, route)


@pytest.mark.parametrize("kind", BETWEEN_PROCESSES, indirect=True)
async def test_consumer__that_stands_still_loses_what_it_had(
    process: RabbitMQNode | PrivateMemoryBroker, namespace: str
) -> None:
    """A stopped process keeps its deliveries for two heartbeats."""
    broker, route = broker_at(process.url), names.route_name(namespace, "default")
    await declare(broker, route)
    async with publishing(broker.publisher()) as publisher:
        await publisher.publish([ring(route)])
    with holding(process.url, route, heartbeat_seconds=1) as holder:
        held = await holder.ticket()
        holder.stand_still()
        async with Inbox(process.url, {route: 5}) as received:
            (delivery,) = await received.has(1)

    assert (delivery.ticket, delivery.redelivered) == (held, True)


async def test_hold__counts_from_the_start_and_after_a_lost_connection(
    bench: Bench, namespace: str, bench_publisher: Publisher
) -> None:
    held, other = names.route_name(namespace, "held"), names.route_name(namespace, "other")
    await bench.broker.declare(Topology(routes=frozenset({held, other})))
    received = Inbox(bench.broker.url, {held: 20, other: 20})
    await received.consumer.hold({held})
    async with received:
        await received.consumes(other)
        await bench_publisher.publish(rings(held, 2) + rings(other, 1))
        (first,) = await received.has(1)

        await bench.cut()
        (_, again) = await received.has(2)  # comes a second time, over another connection
        assert (first.ticket, again.redelivered) == (again.ticket, True)
        await received.consumes(other)

        await received.consumer.hold(())
        await received.has(4)
