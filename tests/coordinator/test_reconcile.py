"""The service that looks for lost doorbells: what it sends, when it looks again, and what it costs a backlog."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker import codec
from brokerjobs.broker.publisher import Publisher
from brokerjobs.coordinator.reconcile import NAME, Reconcile
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable
from brokerjobs.ledger import services
from tests.coordinator.backlog import backlog, ten_rounds
from tests.coordinator.stage import PERIODS, arrived, candidacy, process
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.coordinator.stage import Stage


def service(on: Stage, publisher: Publisher, *, batch: int = 50, name: str = "coordinator-a") -> Reconcile:
    periods = replace(PERIODS, batch=batch)
    return Reconcile(on.coordinator, candidacy(NAME, by=process(name)), publisher, periods)


async def beat(on: Stage, *queues: str) -> None:
    """A worker says that it consumes these queues."""
    routes = [on.route(queue) for queue in queues or ("default",)]
    detail = {"reads": codec.READS, "consuming": routes, "heartbeat_seconds": 60}
    now = datetime.now(UTC)
    await on.worker.fetch(
        services.heartbeat(
            services.Heartbeat(process("w"), "worker", on.namespace, ["work"], routes, "online", now, detail)
        )
    )


async def test_probe__goes_through_the_queue_of_a_route_whose_jobs_wait(staged: Stage, publisher: Publisher) -> None:
    await staged.declare()
    await staged.submit(3)
    await beat(staged)

    assert await service(staged, publisher).run_once() == PERIODS.reconcile

    (message,) = await arrived(staged.broker_url, staged.route())
    (probe,) = await staged.sql("select * from brokerjobs.probe")
    assert (message.type, message.body, message.message_id) == ("brokerjobs.probe", b'{"v":1}', str(probe["ticket"]))
    assert probe["made_at"] < probe["sent_at"]


async def test_probe__that_the_broker_has_in_no_queue_is_forgotten(staged: Stage, publisher: Publisher) -> None:
    await staged.register("elsewhere", queue="elsewhere")
    await staged.declare("elsewhere")  # the exchange is there, the queue of `work` is not
    await staged.submit()
    await beat(staged)

    assert await service(staged, publisher).run_once() == PERIODS.reconcile

    assert await staged.sql("select * from brokerjobs.probe") == []


async def test_probe__without_an_answer_has_another_process_try(staged: Stage) -> None:
    await staged.submit()
    await beat(staged)
    nowhere = Publisher("amqp://guest@127.0.0.1:1/", time_limit=timedelta(seconds=1))
    first = service(staged, nowhere)

    with pytest.raises(BrokerUnavailable, match="none of 1 probes"):
        await first.run_once()

    assert await staged.sql("select * from brokerjobs.probe") == []
    await nowhere.close()


async def test_probe__is_not_published_under_a_name_that_the_broker_cannot_have(
    staged: Stage, publisher: Publisher
) -> None:
    """Names come into the ledger by plain SQL, too; one of them must not end the service."""
    name = f"{'n' * 250}.q.{'q' * 250}"
    await staged.submit()
    await staged.sql("alter table brokerjobs.job disable trigger job_immutable")
    await staged.sql("update brokerjobs.job set route = %s", name)
    await staged.sql("update brokerjobs.route set name = %s, namespace = %s where lane = 'normal'", name, "n" * 250)
    detail = {"reads": codec.READS, "consuming": [name]}
    now = datetime.now(UTC)
    beaten = services.Heartbeat(process("w"), "worker", "n", ["work"], [name], "online", now, detail)
    await staged.worker.fetch(services.heartbeat(beaten))

    assert await service(staged, publisher).run_once() == PERIODS.reconcile

    assert await staged.sql("select * from brokerjobs.probe") == []


async def test_run_once__is_led_by_one(staged: Stage, publisher: Publisher) -> None:
    await staged.declare()
    await staged.submit()
    await beat(staged)
    assert await service(staged, publisher, name="coordinator-b").run_once() != LED_ELSEWHERE

    assert await service(staged, publisher).run_once() == LED_ELSEWHERE


async def test_run_once__goes_on_at_once_while_there_is_much_to_ring(staged: Stage, publisher: Publisher) -> None:
    """And otherwise at the next tick, until its walk has come to the end."""
    async with backlog(staged) as standing:
        lost = await standing.lose(5)
        looking = service(staged, publisher, batch=2)
        assert await looking.run_once() == PERIODS.reconcile

        async def came() -> bool:
            return bool(standing.probes)

        await eventually(came, 20)
        await standing.report()
        await standing.beat()

        assert [await looking.run_once() for _ in range(3)] == [timedelta(0), timedelta(0), PERIODS.reconcile]
        assert await staged.outbox() == len(lost)

        await standing.publish()
        await standing.fill(120)
        assert await looking.run_once() == PERIODS.tick
        assert await looking.run_once() == PERIODS.reconcile


async def test_backlog__of_thousands_is_looked_through_ten_times_and_only_what_was_lost_is_rung(
    staged: Stage,
) -> None:
    """A hundred thousand take minutes: docs/decisions has their figures."""
    figures = await ten_rounds(staged, 5_000)

    assert figures.rung_again == figures.lost == 10
    assert figures.ratio <= 1.01
    states = await staged.sql("select state, count(*) from brokerjobs.job_state group by state")
    assert states == [{"state": "succeeded", "count": 5_000}]
