from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker import names, topology
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from brokerjobs.errors import TopologyMismatch
from tests.broker import raw
from tests.broker.inbox import ring

if TYPE_CHECKING:
    from brokerjobs.broker.publisher import Publisher

DEAD_ARGUMENTS = {"x-message-ttl": 604_800_000, "x-max-length": 100_000, "x-overflow": "drop-head"}


def one_route(namespace: str, queue: str = "default") -> Topology:
    return Topology(routes=frozenset({names.route_name(namespace, queue)}))


def test_topology__quorum_queues_have_all_their_arguments() -> None:
    queues = {queue.name: queue.arguments for queue in one_route("payments").queues()}

    assert queues == {
        "payments.dead": {"x-queue-type": "quorum", **DEAD_ARGUMENTS},
        "payments.quarantine": {"x-queue-type": "quorum", **DEAD_ARGUMENTS},
        "payments.q.default": {
            "x-queue-type": "quorum",
            "x-delivery-limit": 20,
            "x-dead-letter-exchange": "payments.quarantine",
        },
    }


def test_topology__classic_queues_have_no_delivery_limit() -> None:
    queues = {queue.name: queue.arguments for queue in replace(one_route("payments"), queue_type="classic").queues()}

    assert queues["payments.q.default"] == {
        "x-queue-type": "classic",
        "x-dead-letter-exchange": "payments.quarantine",
    }
    assert queues["payments.dead"] == {"x-queue-type": "classic", **DEAD_ARGUMENTS}


async def test_declare__declares_all_else_before_it_names_what_differs(
    broker_url: str, namespace: str, publisher: Publisher
) -> None:
    async with raw.channel(broker_url) as channel:
        await channel.exchange_declare(names.jobs_exchange(namespace), exchange_type="fanout", durable=True)
        await channel.queue_declare(names.quarantine_queue(namespace), durable=True)
        await channel.queue_declare(names.route_name(namespace, "a"), durable=False)
    wanted = Topology(routes=frozenset({names.route_name(namespace, "a"), names.route_name(namespace, "b")}))

    with pytest.raises(ExceptionGroup) as raised:
        await topology.declare(broker_url, wanted)

    errors = [error for error in raised.value.exceptions if isinstance(error, TopologyMismatch)]
    assert {(error.queue, error.argument, error.existing, error.wanted) for error in errors} == {
        (names.jobs_exchange(namespace), "type", "fanout", "direct"),
        (names.quarantine_queue(namespace), "x-message-ttl", None, 604_800_000),
        (names.route_name(namespace, "a"), "durable", "false", "true"),
    }
    assert await publisher.publish([ring(names.route_name(namespace, "b"))]) == [PublishOutcome.CONFIRMED]
    await raw.comes_to_hold(broker_url, names.route_name(namespace, "b"), 1)


REPLY = "PRECONDITION_FAILED - inequivalent arg '{argument}' for queue 'm.q.x' in vhost '/': {rest}"


@pytest.mark.parametrize(
    ("rest", "wanted", "existing"),
    [
        ("received '20' but current is '5'", 20, 5),
        ("received 'a.quarantine' but current is 'b'", "a.quarantine", "b"),
        ("received none but current is the value '5' of type 'byte'", None, 5),
        ("received the value '1000' of type 'short' but current is none", 1000, None),
        ("received none but current is the value 'a' of type 'longstr'", None, "a"),
    ],
)
def test_mismatch__reads_the_replies_of_the_broker(rest: str, wanted: object, existing: object) -> None:
    error = topology.mismatch("m.q.x", REPLY.format(argument="x-some", rest=rest))

    assert (error.queue, error.argument, error.existing, error.wanted) == ("m.q.x", "x-some", existing, wanted)


def test_mismatch__shows_a_reply_that_it_cannot_read() -> None:
    assert "PRECONDITION_FAILED - something new" in str(topology.mismatch("q", "PRECONDITION_FAILED - something new"))
