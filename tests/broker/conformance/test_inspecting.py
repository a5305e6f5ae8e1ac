"""Looking at what is there, without making or changing anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from brokerjobs.broker import names
from brokerjobs.broker.inspection import Standing
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from tests.broker.inbox import rings

if TYPE_CHECKING:
    from brokerjobs.broker.brokers import Broker
    from brokerjobs.broker.protocol import Publisher


async def test_inspect__of_what_is_as_wanted_counts_the_messages(
    broker: Broker, route: str, publisher: Publisher
) -> None:
    assert await publisher.publish(rings(route, 3)) == [PublishOutcome.CONFIRMED] * 3

    seen = await broker.inspect(Topology(routes=frozenset({route})))

    assert seen.product == await broker.product()
    assert {one.standing for one in seen.found} == {Standing.AS_WANTED}
    (found,) = [one for one in seen.found if one.name == route]
    assert found.messages == 3


async def test_inspect__makes_nothing_that_is_missing(broker: Broker, namespace: str) -> None:
    route = names.route_name(namespace, "default")
    wanted = Topology(routes=frozenset({route}))

    for _ in range(2):
        seen = await broker.inspect(wanted)
        assert {one.standing for one in seen.found} == {Standing.MISSING}
    assert await broker.message_count(route) is None


async def test_inspect__names_the_argument_that_differs(broker: Broker, route: str) -> None:
    wanted = Topology(routes=frozenset({route}))

    seen = await broker.inspect(replace(wanted, delivery_limit=7))

    (found,) = [one for one in seen.found if one.standing is not Standing.AS_WANTED]
    assert (found.name, found.standing) == (route, Standing.DIFFERS)
    assert found.mismatch is not None
    assert (found.mismatch.argument, found.mismatch.existing, found.mismatch.wanted) == ("x-delivery-limit", 20, 7)
    assert {one.standing for one in (await broker.inspect(wanted)).found} == {Standing.AS_WANTED}
