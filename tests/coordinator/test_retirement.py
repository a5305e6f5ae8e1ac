"""Routes without jobs are retired, and come back with the first job that needs them; no job is lost meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.coordinator.relay import Relay
from brokerjobs.coordinator.retirement import NAME, Retirement, delay_of
from brokerjobs.coordinator.routes import NAME as ROUTES
from brokerjobs.coordinator.routes import Queues, Routes
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable
from brokerjobs.ledger import services
from tests.coordinator.stage import PERIODS, Time, arrived, candidacy, process, rung

if TYPE_CHECKING:
    from brokerjobs.broker.publisher import Publisher
    from tests.coordinator.stage import Stage

ME = process()
WAITS = ("delivery", "schedule", "retry", "placement", "resource", "running", "review", "pause", "queue")
DAY = replace(PERIODS, retire_routes_after=timedelta(hours=24))


def retirement(staged: Stage, url: str | None = None) -> Retirement:
    return Retirement(staged.coordinator, candidacy(NAME, by=ME), Queues(url or staged.broker_url).remove, DAY)


def routes(staged: Stage) -> Routes:
    return Routes(staged.coordinator, candidacy(ROUTES, by=ME), Queues(staged.broker_url).declare, PERIODS, Time())


async def let_a_day_pass(staged: Stage) -> None:
    await staged.sql(
        "update brokerjobs.route set made_at = made_at - interval '25 hours',"
        " declared_at = declared_at - interval '25 hours', used_at = used_at - interval '25 hours'"
    )


async def is_there(staged: Stage) -> bool:
    try:
        await arrived(staged.broker_url, staged.route())
    except Exception as error:  # noqa: BLE001  # aio-pika's own, by name
        assert "NOT_FOUND" in str(error)  # noqa: PT017
        return False
    return True


async def serve(staged: Stage, state: str = "online") -> None:
    """A worker's heartbeat that says that it serves the route."""
    said = services.Heartbeat(
        ME, "worker", staged.namespace, ["work"], [staged.route()], state, datetime.now(UTC), {"reads": []}
    )
    await staged.worker.fetch(services.heartbeat(said))


async def test_retirement__deletes_the_queue_of_a_route_without_jobs_for_a_day(staged: Stage) -> None:
    await routes(staged).run_once()
    assert await retirement(staged).run_once() == delay_of(DAY)
    assert await is_there(staged)
    await let_a_day_pass(staged)

    await retirement(staged).run_once()

    assert not await is_there(staged)
    row = "select wanted, retired_at is not null as retired, declared_at from brokerjobs.route where name = %s"
    assert await staged.sql(row, staged.route()) == [{"wanted": False, "retired": True, "declared_at": None}]
    assert await retirement(staged).run_once() == delay_of(DAY)


@pytest.mark.parametrize("waits", WAITS)
async def test_retirement__spares_a_route_with_an_unfinished_job_however_it_waits(staged: Stage, waits: str) -> None:
    await routes(staged).run_once()
    (job,) = await staged.submit(not_before=datetime.now(UTC) + timedelta(days=9) if waits == "schedule" else None)
    if waits in ("running", "review", "retry"):
        claimed = await staged.claim(job)
        if waits == "retry":
            failed = {"class": "temporary", "classified": True, "type": "E", "message": "m", "retry_after": 3600}
            await staged.report(claimed, failed)
        elif waits == "review":
            await staged.report(claimed, {"class": "unsafe", "classified": True, "type": "E", "message": "m"})
    elif waits == "placement":
        assert (await staged.claim(job, "another")).verdict == "no_handler"
    elif waits == "resource":
        await staged.sql("update brokerjobs.job_state set waiting = 'resource' where job_id = %s", job)
        await staged.sql("insert into brokerjobs.waiter values (%s, 'card', %s, now())", staged.namespace, job)
    elif waits == "queue":
        await staged.sql(
            "insert into brokerjobs.queue_pause (id, namespace, queue, paused_at, paused_by, login, reason)"
            " values (gen_random_uuid(), %s, 'default', clock_timestamp(), 'ann', 'ann', 'because')",
            staged.namespace,
        )
        await staged.claim(job)
    elif waits == "pause":
        await staged.sql(
            "insert into brokerjobs.pause (id, namespace, type, paused_at, paused_by, login, reason)"
            " values (gen_random_uuid(), %s, 'work', clock_timestamp(), 'ann', 'ann', 'because')",
            staged.namespace,
        )
        await staged.claim(job)
    standing = await staged.status(job)
    assert {"queue": "pause"}.get(waits, waits) in (standing.state, standing.waiting)
    await let_a_day_pass(staged)

    await retirement(staged).run_once()

    assert await is_there(staged)
    assert await staged.value("select wanted from brokerjobs.route where name = %s", staged.route()) is True


async def test_retirement__spares_a_route_that_a_living_worker_serves(staged: Stage) -> None:
    await routes(staged).run_once()
    await serve(staged)
    await let_a_day_pass(staged)

    await retirement(staged).run_once()
    assert await is_there(staged)
    assert await staged.value("select wanted from brokerjobs.route where name = %s", staged.route()) is True
    await serve(staged, "stopped")
    await retirement(staged).run_once()

    assert not await is_there(staged)


async def test_retirement__a_lane_is_left_by_its_workers_before_its_queue_goes(staged: Stage) -> None:
    await staged.sql("update brokerjobs.route set name = name || 'x' where lane = 'normal'")
    await staged.sql("update brokerjobs.route set name = %s, wanted = true where lane = 'high'", staged.route())
    await routes(staged).run_once()
    await serve(staged)
    await let_a_day_pass(staged)

    await retirement(staged).run_once()
    assert await is_there(staged)
    assert await staged.value("select wanted from brokerjobs.route where name = %s", staged.route()) is False
    await serve(staged, "stopped")
    await retirement(staged).run_once()

    assert not await is_there(staged)


async def test_retirement__a_ring_in_vain_brings_the_route_back(staged: Stage, publisher: Publisher) -> None:
    await routes(staged).run_once()
    await let_a_day_pass(staged)
    await retirement(staged).run_once()
    relay = Relay(staged.coordinator, candidacy("relay", by=ME), publisher, PERIODS)
    (job,) = await staged.submit()
    # As if the submission had looked at its route a moment before it was retired: it takes no lock.
    await staged.sql("update brokerjobs.route set wanted = false, retired_at = clock_timestamp() where lane = 'normal'")
    await relay.run_once()

    await routes(staged).run_once()
    await relay.run_once()

    assert set(rung(await arrived(staged.broker_url, staged.route()))) == {job}


async def test_retirement__a_ring_that_went_with_the_queue_is_rung_again(staged: Stage, publisher: Publisher) -> None:
    """A job is submitted and rung after its route was retired, and before the queue is deleted."""
    await routes(staged).run_once()
    await serve(staged)
    await let_a_day_pass(staged)
    await staged.sql("update brokerjobs.route set wanted = false, retired_at = clock_timestamp() where lane = 'normal'")
    (job,) = await staged.submit()
    relay = Relay(staged.coordinator, candidacy("relay", by=ME), publisher, PERIODS)
    await relay.run_once()
    assert await staged.outbox() == 0
    await Queues(staged.broker_url).remove(staged.route())
    await staged.sql("update brokerjobs.route set wanted = true where lane = 'normal'")

    await routes(staged).run_once()
    await relay.run_once()

    assert rung(await arrived(staged.broker_url, staged.route())) == [job]
    assert await staged.value("select retired_at from brokerjobs.route where name = %s", staged.route()) is None


async def test_retirement__a_type_that_is_changed_to_it_brings_the_route_back(staged: Stage) -> None:
    await routes(staged).run_once()
    await let_a_day_pass(staged)
    await retirement(staged).run_once()
    await staged.register("another")

    await routes(staged).run_once()

    assert await is_there(staged)


async def test_retirement__a_broker_that_is_away_costs_nothing(staged: Stage) -> None:
    await routes(staged).run_once()
    await let_a_day_pass(staged)

    with pytest.raises(BrokerUnavailable):
        await retirement(staged, "amqp://guest:guest@127.0.0.1:1/").run_once()
    await retirement(staged).run_once()

    assert not await is_there(staged)


async def test_retirement__works_on_nothing_while_another_leads(staged: Stage) -> None:
    await retirement(staged).run_once()

    other = Retirement(staged.coordinator, candidacy(NAME), Queues(staged.broker_url).remove, DAY)
    assert await other.run_once() == LED_ELSEWHERE
