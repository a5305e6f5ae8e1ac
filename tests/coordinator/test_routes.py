from __future__ import annotations

from typing import TYPE_CHECKING

import aio_pika
import pytest

from brokerjobs.broker import names
from brokerjobs.coordinator.relay import Relay
from brokerjobs.coordinator.routes import NAME, Queues, Routes
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable, PermissionDenied
from brokerjobs.ledger import services
from tests.coordinator.stage import PERIODS, Time, arrived, candidacy, process, rung

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from brokerjobs.broker.publisher import Publisher
    from brokerjobs.coordinator.routes import DeclareError
    from tests.coordinator.stage import Stage


ME = process()


def routes(staged: Stage, url: str | None = None, time: Time | None = None) -> Routes:
    return Routes(
        staged.coordinator, candidacy(NAME, by=ME), Queues(url or staged.broker_url).declare, PERIODS, time or Time()
    )


async def undeclared(staged: Stage) -> list[str]:
    return [row["name"] for row in await staged.sql("select name from brokerjobs.routes_wanted()")]


async def test_routes__declares_what_a_job_type_brought(staged: Stage) -> None:
    await staged.register("other", queue="other")

    assert await routes(staged).run_once() == PERIODS.tick

    assert await undeclared(staged) == []
    for queue in (staged.route(), staged.route("other"), names.dead_queue(staged.namespace)):
        assert await arrived(staged.broker_url, queue) == []  # which raises if there is no such queue


@pytest.mark.parametrize("exchange_there", [True, False])
async def test_routes__lets_go_what_was_rung_in_vain(staged: Stage, publisher: Publisher, exchange_there: bool) -> None:
    if exchange_there:
        await staged.declare("another")
    (job,) = await staged.submit()
    relay = Relay(staged.coordinator, candidacy("relay", by=ME), publisher, PERIODS)
    await relay.run_once()
    assert await staged.value("select count(*) from brokerjobs.outbox where hold_until > clock_timestamp()") == 1

    await routes(staged).run_once()
    await relay.run_once()

    assert rung(await arrived(staged.broker_url, staged.route())) == [job]


async def test_routes__asks_the_broker_for_nothing_when_all_are_declared(staged: Stage) -> None:
    await routes(staged).run_once()

    assert await routes(staged, "amqp://guest:guest@127.0.0.1:1/").run_once() == PERIODS.tick


async def test_routes__one_that_exists_with_other_arguments_stops_no_other(
    staged: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await staged.register("other", queue="other")
    async with await aio_pika.connect(staged.broker_url) as connection, connection.channel() as channel:
        await channel.declare_queue(staged.route(), durable=True, arguments={"x-max-length": 7})
    service = routes(staged)

    await service.run_once()
    assert await undeclared(staged) == [staged.route()]
    for _ in range(2):
        await service.run_once()

    assert await undeclared(staged) == [staged.route()]
    assert await arrived(staged.broker_url, staged.route("other")) == []
    (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert f"brokerjobs setup module:app --recreate {staged.route()}" in said


async def test_routes__one_that_could_not_be_declared_is_tried_again_a_minute_later(staged: Stage) -> None:
    async with await aio_pika.connect(staged.broker_url) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(staged.route(), durable=True, arguments={"x-max-length": 7})
        time = Time()
        service = routes(staged, time=time)
        await service.run_once()
        await queue.delete()
    time.now += 59
    await service.run_once()
    assert await undeclared(staged) == [staged.route()]
    time.now += 1

    await service.run_once()

    assert await undeclared(staged) == []


async def test_routes__names_that_no_broker_takes_stop_no_other(
    staged: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await staged.sql(
        "insert into brokerjobs.route values ('Not a name', 'Not', 'a', clock_timestamp(), null),"
        " (repeat('x', 300) || '.q.default', repeat('x', 300), 'default', clock_timestamp(), null)"
    )
    service = routes(staged)

    for _ in range(2):
        await service.run_once()

    assert staged.route() not in await undeclared(staged)
    assert len([record for record in caplog.records if "cannot be declared" in record.message]) == 2


async def test_routes__without_a_broker_lets_another_process_try(staged: Stage) -> None:
    with pytest.raises(BrokerUnavailable):
        await routes(staged, "amqp://guest:guest@127.0.0.1:1/").run_once()

    assert await undeclared(staged) == [staged.route()]


async def test_routes__without_the_right_lets_another_process_try(staged: Stage) -> None:
    async def denied(wanted: Sequence[services.Route]) -> Mapping[str, DeclareError]:
        return {route.name: PermissionDenied("may not declare") for route in wanted}

    time = Time()
    service = Routes(staged.coordinator, candidacy(NAME), denied, PERIODS, time)

    with pytest.raises(BrokerUnavailable, match="may not declare"):
        await service.run_once()
    await staged.sql("update brokerjobs.service set until = clock_timestamp()")
    assert await service.run_once() == LED_ELSEWHERE
    assert await staged.leader(NAME) is None  # free for another

    time.now += 60
    with pytest.raises(BrokerUnavailable, match="may not declare"):
        await service.run_once()


async def test_routes__a_wrong_password_is_an_answer_for_each_route(staged: Stage) -> None:
    wrong = staged.broker_url.replace("://", "://nobody", 1)

    errors = await Queues(wrong).declare([services.Route(staged.route(), staged.namespace)])

    assert isinstance(errors[staged.route()], PermissionDenied)


async def test_routes__declares_nothing_while_another_leads(staged: Stage) -> None:
    await staged.coordinator.fetch(services.lead(NAME, process("another"), 60))

    assert await routes(staged).run_once() == LED_ELSEWHERE
    assert await undeclared(staged) == [staged.route()]
