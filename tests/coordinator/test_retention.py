from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from brokerjobs.coordinator.coordinator import Coordinator, service_names
from brokerjobs.coordinator.retention import NAME, Retention
from brokerjobs.coordinator.routes import Queues
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import services
from brokerjobs.ledger.database import ConnectOptions
from brokerjobs.ledger.retention import Horizons
from tests.coordinator.stage import PERIODS, candidacy, process
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from brokerjobs.broker.publisher import Publisher
    from tests.coordinator.stage import Stage

QUICK = replace(PERIODS, retention=timedelta(minutes=10), batch=2)


async def finished(staged: Stage, count: int) -> list[UUID]:
    """Jobs that have succeeded forty days ago."""
    jobs = await staged.submit(count)
    for job in jobs:
        assert (await staged.report(await staged.claim(job))).verdict == "accepted"
    await staged.sql("select brokerjobs.make_partitions(4)")
    await staged.sql(
        "create or replace function brokerjobs.clock() returns timestamptz language sql volatile as"
        " $$ select clock_timestamp() + interval '40 days' $$"
    )
    return jobs


async def left(staged: Stage) -> int:
    return int(await staged.value("select count(*) from brokerjobs.job"))


async def test_retention__removes_in_batches_and_rests_between_them(staged: Stage) -> None:
    await finished(staged, 3)
    service = Retention(staged.coordinator, candidacy(NAME), Horizons(), QUICK)

    delay = await service.run_once()
    assert await left(staged) == 1
    assert timedelta(0) < delay < QUICK.retention
    assert await service.run_once() == QUICK.retention
    assert await left(staged) == 0


async def test_retention__keeps_what_its_horizons_say(staged: Stage) -> None:
    await finished(staged, 1)

    await Retention(staged.coordinator, candidacy(NAME), Horizons(succeeded=timedelta(days=41)), QUICK).run_once()

    assert await left(staged) == 1


async def test_retention__removes_nothing_while_another_leads(staged: Stage) -> None:
    await finished(staged, 1)
    await staged.coordinator.fetch(services.lead(NAME, process("another"), 60))

    assert await Retention(staged.coordinator, candidacy(NAME), Horizons(), QUICK).run_once() == LED_ELSEWHERE
    assert await left(staged) == 1


async def test_retention__drops_a_month_step_by_step(staged: Stage, caplog: pytest.LogCaptureFixture) -> None:
    await finished(staged, 1)
    oldest = await staged.value("select min(tableoid::regclass::text) from brokerjobs.event")
    await staged.sql(
        "create or replace function brokerjobs.clock() returns timestamptz language sql volatile as"
        " $$ select clock_timestamp() + interval '240 days' $$"
    )
    service = Retention(staged.coordinator, candidacy(NAME), Horizons(), QUICK)
    caplog.set_level("INFO")

    delays: list[timedelta] = []

    async def dropped() -> bool:
        delays.append(await service.run_once())
        return (await staged.value("select to_regclass(%s) is null", oldest)) is True

    await eventually(dropped)

    assert f"event partition {oldest.rpartition('.')[2]} is dropped" in caplog.text
    assert delays[0] < QUICK.retention  # a step was taken, and the next one needs nobody


async def test_coordinator__runs_retention_unless_it_is_switched_off(staged: Stage, publisher: Publisher) -> None:
    names: dict[bool, frozenset[str]] = {}
    for on in (True, False):
        periods = QUICK if on else replace(QUICK, horizons=None)
        made = Coordinator(
            ledger=ConnectOptions(staged.database.coordinator_url),
            publisher=publisher,
            queues=Queues(staged.broker_url),
            process=process(),
            periods=periods,
        )
        names[on] = made.services

    assert names[True] - names[False] == {NAME}
    assert names == {on: service_names(removing=on) for on in names}
