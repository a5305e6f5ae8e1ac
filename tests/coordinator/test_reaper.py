from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.coordinator.reaper import NAME, Reaper
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from tests.coordinator.stage import LEASE, PERIODS, Time, candidacy, process
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.coordinator.stage import Stage


def reaper(staged: Stage, monotonic: Callable[[], float] | None = None, *, batch: int = PERIODS.batch) -> Reaper:
    # A clock that stands still, so that the reaper never rests.
    return Reaper(staged.coordinator, candidacy(NAME), replace(PERIODS, batch=batch), monotonic or Time())


async def past_grace(staged: Stage) -> None:
    """The reaper has ticked for long, so that no attempt is spared for the sake of those who could not renew."""
    await staged.coordinator.fetch(services.lead(NAME, process("before"), 0.001))
    await staged.sql("update brokerjobs.service set gap_ended_at = clock_timestamp() - interval '1 day'")


async def lost(staged: Stage, count: int = 1, kind: str = "work") -> list[UUID]:
    """Running jobs whose leases have run out."""
    jobs = await staged.submit(count, kind)
    for job in jobs:
        assert (await staged.claim(job, kind=kind)).verdict == "granted"
    await let_leases_run_out(staged)
    return jobs


async def let_leases_run_out(staged: Stage) -> None:
    await staged.sql(
        "update brokerjobs.job_state set lease_until = clock_timestamp() - interval '1 ms' where state = 'running'"
    )


async def test_reaper__gives_up_an_attempt_whose_lease_is_over(staged: Stage) -> None:
    await past_grace(staged)
    (job,) = await lost(staged)

    assert await reaper(staged).run_once() == PERIODS.tick

    status = await staged.status(job)
    assert (status.state, status.waiting) == ("queued", "retry")
    assert await staged.value("select closed_as from brokerjobs.attempt") == "timed_out"
    assert await staged.value("select closed_by from brokerjobs.attempt") == "coordinator-a"


async def test_reaper__leaves_a_live_lease_alone(staged: Stage) -> None:
    await past_grace(staged)
    await staged.register("long", lease=timedelta(minutes=1))
    (job,) = await staged.submit(kind="long")
    await staged.claim(job, kind="long")

    await reaper(staged).run_once()

    assert (await staged.status(job)).state == "running"


async def test_reaper__spares_everybody_for_one_lease_after_a_gap(staged: Stage) -> None:
    (job,) = await lost(staged)
    first = reaper(staged)
    await first.run_once()
    began = await staged.value("select gap_ended_at from brokerjobs.service where name = 'reaper'")
    assert (await staged.status(job)).state == "running"

    async def reaped() -> bool:
        await first.run_once()
        return (await staged.status(job)).state == "queued"

    await eventually(reaped, 30)
    closed = await staged.value("select closed_at from brokerjobs.attempt")
    assert LEASE <= closed - began < LEASE + timedelta(seconds=5)


async def test_reaper__says_that_a_review_opened_and_the_command_to_type(
    staged: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await past_grace(staged)
    await staged.sql("update brokerjobs.job_type set repeatable = false")
    (job,) = await staged.submit()
    claimed = await staged.claim(job)
    await staged.sql("update brokerjobs.job_state set started = true")
    await let_leases_run_out(staged)

    await reaper(staged).run_once()

    (said,) = [one for one in caplog.records if getattr(one, "event", None) == "review_opened"]
    (review,) = await staged.sql("select id from brokerjobs.review")
    told = {
        name: getattr(said, name) for name in ("review_id", "job_id", "attempt_id", "namespace", "job_type", "cause")
    }
    assert told == {
        "review_id": str(review["id"]),
        "job_id": str(job),
        "attempt_id": str(claimed.attempt_id),
        "namespace": staged.namespace,
        "job_type": "work",
        "cause": "attempt 1 lost its lease",
    }
    assert said.levelname == "WARNING"
    assert f"brokerjobs review show {job}" in said.getMessage()


async def test_reaper__attempts_that_are_spared_do_not_keep_others_from_being_given_up(staged: Stage) -> None:
    await past_grace(staged)
    await staged.register("patient", lease=timedelta(days=1))
    await staged.sql("update brokerjobs.service set gap_ended_at = clock_timestamp() - interval '1 minute'")
    spared = await lost(staged, 5, "patient")
    (job,) = await lost(staged)

    await reaper(staged, batch=2).run_once()

    assert (await staged.status(job)).state == "queued"
    assert {(await staged.status(one)).state for one in spared} == {"running"}


async def test_reaper__a_full_batch_is_followed_after_as_long_as_it_took(staged: Stage) -> None:
    await past_grace(staged)
    jobs = await lost(staged, 3)
    time = Time(step=0.01)
    service = reaper(staged, time, batch=2)

    delay = await service.run_once()

    assert delay.total_seconds() == pytest.approx(0.01)
    assert sorted([(await staged.status(job)).state for job in jobs]) == ["queued", "queued", "running"]
    time.now += 0.01
    assert await service.run_once() == PERIODS.tick
    assert {(await staged.status(job)).state for job in jobs} == {"queued"}


async def test_reaper__rests_fifty_times_as_long_as_it_worked_and_keeps_ticking(staged: Stage) -> None:
    await past_grace(staged)
    time = Time(step=0.1)
    service = reaper(staged, time)
    await service.run_once()  # which took 0.1 s
    (job,) = await lost(staged)
    before = await staged.value("select ticked_at from brokerjobs.service")

    time.step = 0
    time.now += 4.8
    assert await service.run_once() <= PERIODS.tick
    assert (await staged.status(job)).state == "running"
    assert await staged.value("select ticked_at from brokerjobs.service") > before

    time.now += 0.3
    await service.run_once()
    assert (await staged.status(job)).state == "queued"


async def test_reaper__never_leaves_a_gap_however_long_the_tick_is(staged: Stage) -> None:
    slow = replace(PERIODS, tick=timedelta(minutes=1))

    delay = await Reaper(staged.coordinator, candidacy(NAME, 600), slow).run_once()

    assert delay <= timedelta(seconds=2)  # the ledger takes five seconds without a tick for a gap


async def test_reaper__gives_up_nothing_while_another_leads(staged: Stage) -> None:
    await past_grace(staged)
    (job,) = await lost(staged)
    await staged.coordinator.fetch(services.lead(NAME, process("another"), 60))

    assert await reaper(staged).run_once() == LED_ELSEWHERE
    assert (await staged.status(job)).state == "running"


async def test_reaper__two_that_both_think_they_lead_give_up_each_attempt_once(staged: Stage) -> None:
    await past_grace(staged)
    jobs = await lost(staged, 40)
    second = AsyncLedgerConnection(ConnectOptions(staged.database.coordinator_url))
    # Leads of two names, as if the first reaper had been stopped with its statement already sent.
    both = [
        Reaper(connection, candidacy(name), PERIODS, Time())
        for connection, name in ((staged.coordinator, NAME), (second, "reaper-again"))
    ]

    await asyncio.gather(*(service.run_once() for service in both))
    await second.close()

    assert {(await staged.status(job)).state for job in jobs} == {"queued"}
    assert await staged.value("select count(*) from brokerjobs.event where kind = 'lease_expired'") == 40


async def test_reaper__one_slow_answer_puts_recovery_off_for_five_seconds_at_most(staged: Stage) -> None:
    await past_grace(staged)
    time = Time(step=3.0)
    service = reaper(staged, time)
    await service.run_once()  # which took 3 s, and would rest for 150
    (job,) = await lost(staged)

    time.step = 0
    time.now += 5.0
    await service.run_once()

    assert (await staged.status(job)).state == "queued"
