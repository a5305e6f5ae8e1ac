from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.coordinator.partitions import NAME, Partitions
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import services
from tests.coordinator.stage import PERIODS, candidacy, process

if TYPE_CHECKING:
    from tests.coordinator.stage import Stage

FUTURE = """
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'brokerjobs.event'::regclass order by c.relname"""


async def months(staged: Stage) -> list[str]:
    return [row["name"] for row in await staged.sql(FUTURE)]


async def test_partitions__makes_the_months_that_are_missing(staged: Stage) -> None:
    there = await months(staged)
    assert len(there) == 4
    await staged.sql(f"drop table brokerjobs.{there[2]}, brokerjobs.{there[3]}")

    service = Partitions(staged.coordinator, candidacy(NAME), PERIODS)

    assert await service.run_once() == PERIODS.partitions
    assert await months(staged) == there
    assert await service.run_once() == PERIODS.partitions


async def test_partitions__a_month_that_was_made_takes_events(staged: Stage) -> None:
    there = await months(staged)
    await staged.sql(f"drop table brokerjobs.{there[0]}")

    await Partitions(staged.coordinator, candidacy(NAME), PERIODS).run_once()

    await staged.submit()
    assert await staged.value("select count(*) from brokerjobs.event") == 1


async def test_partitions__makes_none_while_another_leads(staged: Stage) -> None:
    there = await months(staged)
    await staged.sql(f"drop table brokerjobs.{there[3]}")
    await staged.coordinator.fetch(services.lead(NAME, process("another"), 60))

    assert await Partitions(staged.coordinator, candidacy(NAME), PERIODS).run_once() == LED_ELSEWHERE
    assert await months(staged) == there[:3]
