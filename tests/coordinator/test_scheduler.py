from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from brokerjobs.coordinator.scheduler import NAME, Scheduler
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import services
from tests.coordinator.stage import NOW, PERIODS, candidacy, process

if TYPE_CHECKING:
    import pytest

    from tests.coordinator.stage import Stage

TEMPORARY = {"class": "temporary", "classified": True, "type": "TemporaryFailure", "message": "try again"}


def scheduler(staged: Stage, *, batch: int = PERIODS.batch) -> Scheduler:
    return Scheduler(staged.coordinator, candidacy(NAME), replace(PERIODS, batch=batch))


async def let_waits_end(staged: Stage) -> None:
    await staged.sql(
        "update brokerjobs.job_state set wait_until = clock_timestamp() - interval '1 ms' where wait_until is not null"
    )


async def test_scheduler__rings_a_retry_when_it_is_due(staged: Stage) -> None:
    (job,) = await staged.submit()
    await staged.sql("delete from brokerjobs.outbox")
    await staged.report(await staged.claim(job), {**TEMPORARY, "retry_after": 3600})
    service = scheduler(staged)
    await service.run_once()
    assert (await staged.status(job)).waiting == "retry"
    assert await staged.outbox() == 0
    await let_waits_end(staged)

    await service.run_once()

    assert (await staged.status(job)).waiting == "delivery"
    assert await staged.outbox() == 1


async def test_scheduler__rings_a_scheduled_job_at_its_time_and_not_before(staged: Stage) -> None:
    (job,) = await staged.submit(not_before=datetime.now(UTC) + timedelta(hours=1))
    service = scheduler(staged)
    await service.run_once()
    assert (await staged.status(job)).waiting == "schedule"
    await let_waits_end(staged)

    await service.run_once()

    assert (await staged.status(job)).waiting == "delivery"
    assert await staged.outbox() == 1


async def test_scheduler__ends_a_job_whose_deadline_passed(staged: Stage) -> None:
    (job,) = await staged.submit(deadline=datetime.now(UTC) + timedelta(hours=1))
    await staged.sql("update brokerjobs.job_state set deadline = clock_timestamp()")

    await scheduler(staged).run_once()

    status = await staged.status(job)
    assert (status.state, status.failure_class) == ("failed", "deadline")
    assert await staged.value("select count(*) from brokerjobs.outbox where kind = 'dead'") == 1


async def test_scheduler__ends_a_running_job_at_its_deadline(staged: Stage) -> None:
    (job,) = await staged.submit(deadline=datetime.now(UTC) + timedelta(hours=1))
    await staged.claim(job)
    await staged.sql("update brokerjobs.job_state set deadline = clock_timestamp()")

    await scheduler(staged).run_once()

    status = await staged.status(job)
    assert (status.state, status.failure_class) == ("failed", "deadline")


async def test_scheduler__says_that_a_review_opened_at_the_deadline_and_not_that_one_has_passed_it(
    staged: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await staged.sql("update brokerjobs.job_type set repeatable = false")
    ended, noted = await staged.submit(2, deadline=datetime.now(UTC) + timedelta(hours=1))
    claimed = await staged.claim(ended)
    unclear = await staged.claim(noted)
    await staged.sql("update brokerjobs.job_state set started = true")
    await staged.report(unclear, {**TEMPORARY, "class": "unsafe"})
    await staged.sql("update brokerjobs.job_state set deadline = clock_timestamp()")

    await scheduler(staged).run_once()

    (said,) = [one for one in caplog.records if getattr(one, "event", None) == "review_opened"]
    told = [getattr(said, name) for name in ("job_id", "attempt_id", "cause")]
    assert told == [str(ended), str(claimed.attempt_id), "attempt 1 ran at its job's deadline"]
    assert await staged.value("select bool_and(deadline_noted) from brokerjobs.job_state")


async def test_scheduler__looks_twice_a_tick_so_that_a_deadline_is_kept_within_one(staged: Stage) -> None:
    assert await scheduler(staged).run_once() == PERIODS.tick / 2


async def test_scheduler__follows_a_full_batch_at_once(staged: Stage) -> None:
    await staged.submit(3, not_before=datetime.now(UTC) + timedelta(hours=1))
    await let_waits_end(staged)
    service = scheduler(staged, batch=2)

    assert [await service.run_once() for _ in range(2)] == [NOW, PERIODS.tick / 2]
    assert await staged.outbox() == 3


async def test_scheduler__does_nothing_while_another_leads(staged: Stage) -> None:
    await staged.submit(not_before=datetime.now(UTC) + timedelta(hours=1))
    await let_waits_end(staged)
    await staged.coordinator.fetch(services.lead(NAME, process("another"), 60))

    assert await scheduler(staged).run_once() == LED_ELSEWHERE
    assert await staged.outbox() == 0
