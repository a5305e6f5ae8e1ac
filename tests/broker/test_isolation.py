"""Something that nobody can decode breaks the connection: it goes to quarantine, its neighbours do not go with it.

The total frame decoder lets no content do that, so these tests take it away, as a message would that it does not know.
"""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.broker import codec, frame_decoder, names, topology
from brokerjobs.broker.consumer import Consumer
from tests.broker import raw
from tests.broker.inbox import rings
from tests.flow.proxy import proxied
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.broker.protocol import Delivery
    from brokerjobs.broker.publisher import Publisher

# One delivery more than this sends a message to quarantine.
DELIVERY_LIMIT = 3


@pytest.fixture
def decoder_that_is_not_total(monkeypatch: pytest.MonkeyPatch) -> None:
    def saves_nothing(_: bytes) -> None:
        """As of a frame that nothing can stand for."""

    monkeypatch.setattr(frame_decoder, "_save", saves_nothing)


def undecodable(route: str) -> raw.RawMessage:
    properties = {
        raw.DELIVERY_MODE: raw.PERSISTENT,
        raw.TIMESTAMP: struct.pack(">Q", 2**63),
        raw.MESSAGE_ID: raw.short(str(uuid4()).encode()),
        raw.TYPE: raw.short(names.DOORBELL_TYPE.encode()),
    }
    exchange = names.jobs_exchange(names.namespace_of(route))
    return raw.RawMessage(exchange, route.encode(), properties, codec.encode_doorbell(uuid4()))


class SlowWorker:
    """Acknowledges each delivery a moment after it came, like one that has something to do."""

    def __init__(self, url: str, routes: dict[str, int]) -> None:
        self.consumer = Consumer(url, routes, self._take, lambda _: None)
        self.done: set[UUID] = set()
        self.generations: dict[UUID, list[int]] = {}

    def _take(self, delivery: Delivery) -> None:
        self.generations.setdefault(delivery.job_id, []).append(delivery.generation)
        asyncio.get_running_loop().call_later(0.05, self._finish, delivery)

    def _finish(self, delivery: Delivery) -> None:
        if not self.consumer.ack([delivery]):
            self.done.add(delivery.job_id)


async def test_neighbours__of_something_undecodable_do_not_go_to_quarantine_with_it(
    broker_url: str,
    namespace: str,
    publisher: Publisher,
    decoder_that_is_not_total: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "brokerjobs")
    route = names.route_name(namespace, "default")
    wanted = topology.Topology(routes=frozenset({route}), delivery_limit=DELIVERY_LIMIT)
    await topology.declare(broker_url, wanted)
    before, after = rings(route, 6), rings(route, 6)
    await publisher.publish(before)
    await raw.publish(broker_url, undecodable(route))
    await publisher.publish(after)

    worker = SlowWorker(broker_url, {route: 10})
    running = asyncio.create_task(worker.consumer.run())
    wanted_jobs = {json.loads(ring.body)["job"] for ring in before + after}

    async def all_done() -> bool:
        return {str(job) for job in worker.done} >= wanted_jobs

    await eventually(all_done, 50)
    await raw.comes_to_hold(broker_url, names.quarantine_queue(namespace), 1)
    await worker.consumer.close()
    await running
    assert "what comes next is taken one by one" in caplog.text


async def test_other_routes__are_not_touched_by_the_culprits_breaks(
    broker_url: str, namespace: str, publisher: Publisher, decoder_that_is_not_total: None
) -> None:
    """Theirs is a connection of its own then; what they hold is redelivered by the first break alone."""
    sick, well = names.route_name(namespace, "sick"), names.route_name(namespace, "well")
    await topology.declare(broker_url, topology.Topology(routes=frozenset({sick, well}), delivery_limit=DELIVERY_LIMIT))
    (held,) = rings(well, 1)
    await publisher.publish([held])
    deliveries: list[Delivery] = []
    consumer = Consumer(broker_url, {sick: 5, well: 5}, deliveries.append, lambda _: None)
    running = asyncio.create_task(consumer.run())

    async def has_it() -> bool:
        return bool(deliveries)

    await eventually(has_it, 20)
    await raw.publish(broker_url, undecodable(sick))

    await raw_quarantine(broker_url, namespace)
    assert len(deliveries) == 2
    assert consumer.ack(deliveries[1:]) == []
    await consumer.close()
    await running


async def raw_quarantine(url: str, namespace: str) -> None:
    async def there() -> bool:
        return await raw.messages_in(url, names.quarantine_queue(namespace)) == 1

    await eventually(there, 50)


async def test_connection__that_is_lost_otherwise_isolates_nobody(
    broker_url: str, route: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "brokerjobs")
    async with proxied(broker_url) as line:
        consumer = Consumer(line.url, {route: 10}, lambda _: None, lambda _: None)
        running = asyncio.create_task(consumer.run())

        async def consumes() -> bool:
            return bool(consumer.consuming)

        async def does_not() -> bool:
            return not consumer.consuming

        await eventually(consumes, 20)
        line.cut()
        await eventually(does_not, 20)
        line.heal()
        await eventually(consumes, 40)
        await consumer.close()
        await running
    assert "connecting again" in caplog.text
    assert "one by one" not in caplog.text
