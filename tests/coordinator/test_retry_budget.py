from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from brokerjobs.coordinator.retry_budget import NAME, RetryBudget, delay_of
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import services
from tests.coordinator.stage import PERIODS, candidacy, process

if TYPE_CHECKING:
    import pytest

    from tests.coordinator.stage import Stage


async def test_retry_budget__writes_and_says_what_is_stretched_once(
    staged: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service = RetryBudget(staged.coordinator, candidacy(NAME), PERIODS)
    assert await service.run_once() == delay_of(PERIODS) == timedelta(milliseconds=500)
    await staged.sql("insert into brokerjobs.retry_count values ('shop.q.mail', clock_timestamp(), 1000, 250)")

    await service.run_once()
    await service.run_once()

    said = [record.message for record in caplog.records if "shop.q.mail" in record.message]
    assert said == [
        "shop.q.mail: 250 retries and 1000 first attempts in five minutes; new retries wait up to 2.5 times as long"
    ]
    assert await staged.value("select stretch from brokerjobs.retry_budget where route = 'shop.q.mail'") == 2.5

    await staged.sql("update brokerjobs.retry_count set retries = 100")
    await service.run_once()
    assert caplog.records[-1].message == "shop.q.mail: retries are within their budget again"


async def test_retry_budget__counts_nothing_while_another_leads(staged: Stage) -> None:
    other = process("another")
    await staged.coordinator.fetch(services.lead(NAME, other, 60))
    before = await staged.value("select counted_to from brokerjobs.retry_counting")

    assert await RetryBudget(staged.coordinator, candidacy(NAME), PERIODS).run_once() == LED_ELSEWHERE
    assert await staged.value("select counted_to from brokerjobs.retry_counting") == before
