from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from uuid_utils.compat import uuid7

from brokerjobs.coordinator.service import LED_ELSEWHERE, Candidate, Owner, pause_after
from brokerjobs.errors import BrokerUnavailable, LedgerUnavailable, PermissionDenied
from brokerjobs.ledger.services import Leader
from tests.coordinator.stage import NOW, process
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

FOREVER = timedelta(hours=1)


class Plan:
    """A service that does what each tick of its plan says; after the last one it is led for ever."""

    name = "planned"

    def __init__(self, *ticks: timedelta | Exception) -> None:
        self.ticks = list(ticks)
        self.done = 0

    async def run_once(self) -> timedelta:
        self.done += 1
        tick = self.ticks.pop(0) if self.ticks else FOREVER
        if isinstance(tick, Exception):
            raise tick
        return tick


class House:
    """The process that owns the candidate, and what was asked of it."""

    def __init__(self) -> None:
        self.given_up: list[str] = []
        self.rests = 0
        self.owner = Owner(process=process(), resign=self._resign, rest=self._rest)

    async def _resign(self, services: Sequence[str]) -> None:
        self.given_up += services

    async def _rest(self) -> None:
        self.rests += 1


@asynccontextmanager
async def running(plan: Plan, house: House | None = None) -> AsyncGenerator[Candidate]:
    candidate = Candidate(plan, (house or House()).owner)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(candidate.run())
        yield candidate
        candidate.leave()
        async with asyncio.timeout(2):  # the longest pause, an hour, must not be waited for
            await task


async def ticked(plan: Plan, times: int) -> None:
    async def has() -> bool:
        return plan.done >= times

    await eventually(has, 30)
    assert plan.done == times


async def a_moment() -> None:
    """Lets everything run that can run without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


def led_elsewhere(seconds_left: float = 3.0) -> Leader:
    return Leader("planned", uuid7(), seconds_left)


async def test_candidate__does_nothing_before_it_has_heard_who_leads() -> None:
    plan = Plan()
    async with running(plan):
        await a_moment()
        assert plan.done == 0


async def test_candidate__ticks_when_nobody_ever_led() -> None:
    plan = Plan()
    async with running(plan) as candidate:
        candidate.hear(None)
        await ticked(plan, 1)


async def test_candidate__ticks_again_after_the_delay() -> None:
    plan = Plan(NOW, timedelta(milliseconds=5))
    async with running(plan) as candidate:
        candidate.hear(None)
        await ticked(plan, 3)


async def test_candidate__asks_nothing_while_another_leads() -> None:
    plan = Plan()
    async with running(plan) as candidate:
        for seconds_left in (3.0, 0.001):
            candidate.hear(led_elsewhere(seconds_left))
            await a_moment()
        assert plan.done == 0
        assert not candidate.active


async def test_candidate__ticks_when_the_lead_of_another_has_run_out() -> None:
    plan = Plan()
    async with running(plan) as candidate:
        candidate.hear(led_elsewhere())
        candidate.hear(led_elsewhere(-0.5))
        await ticked(plan, 1)


async def test_candidate__ticks_when_the_ledger_says_that_it_leads_itself() -> None:
    plan, house = Plan(), House()
    async with running(plan, house) as candidate:
        candidate.hear(Leader("planned", house.owner.process.id, 3.0))
        await ticked(plan, 1)


async def test_candidate__stops_asking_once_its_tick_says_that_another_leads() -> None:
    plan, house = Plan(LED_ELSEWHERE), House()
    async with running(plan, house) as candidate:
        candidate.hear(None)
        await ticked(plan, 1)
        await a_moment()
        assert plan.done == 1
        assert house.rests == 1

        candidate.hear(None)
        await ticked(plan, 2)


async def test_candidate__rests_when_it_hears_that_it_lost_its_lead() -> None:
    plan, house = Plan(timedelta(milliseconds=5), timedelta(milliseconds=5)), House()
    async with running(plan, house) as candidate:
        candidate.hear(None)
        await ticked(plan, 1)
        candidate.hear(led_elsewhere())

        async def rests() -> bool:
            return house.rests == 1

        await eventually(rests, 30)
        assert plan.done == 1


async def test_candidate__goes_on_when_the_ledger_comes_back() -> None:
    plan = Plan(LedgerUnavailable("away"), LedgerUnavailable("away"))
    async with running(plan) as candidate:
        candidate.hear(None)
        await ticked(plan, 3)


def test_pause_after__doubles_to_five_seconds() -> None:
    pauses = [pause_after(failures, 1.0).total_seconds() for failures in (1, 2, 3, 6, 7, 8, 10_000)]

    assert pauses == [0.1, 0.2, 0.4, 3.2, 5, 5, 5]
    assert pause_after(8, 0.0).total_seconds() == 2.5


async def test_candidate__says_once_that_the_ledger_is_away(caplog: pytest.LogCaptureFixture) -> None:
    plan = Plan(LedgerUnavailable("away"), LedgerUnavailable("away"))
    async with running(plan) as candidate:
        candidate.hear(None)
        await ticked(plan, 3)

    assert [record.levelname for record in caplog.records if "away" in record.message] == ["WARNING"]


async def test_candidate__gives_up_its_lead_when_it_cannot_reach_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    gone = [BrokerUnavailable("gone"), BrokerUnavailable("gone")]
    plan, house = Plan(NOW, gone[0], NOW, gone[1]), House()
    async with running(plan, house) as candidate:
        for times in (2, 4):
            candidate.hear(None)
            await ticked(plan, times)
            await a_moment()
            assert not candidate.active

    assert house.given_up == ["planned", "planned"]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_candidate__gives_up_its_lead_when_it_may_not_go_on() -> None:
    house = House()
    candidate = Candidate(Plan(NOW, PermissionDenied("no")), house.owner)
    candidate.hear(None)

    with pytest.raises(PermissionDenied):
        await candidate.run()

    assert house.given_up == ["planned"]


async def test_candidate__any_other_error_ends_it_loudly() -> None:
    candidate = Candidate(Plan(ZeroDivisionError()), House().owner)
    candidate.hear(None)

    with pytest.raises(ZeroDivisionError):
        await candidate.run()


@pytest.mark.parametrize("heard", [True, False])
async def test_candidate__leaves_at_once(heard: bool) -> None:
    plan = Plan()
    async with running(plan) as candidate:
        if heard:
            candidate.hear(None)
            await ticked(plan, 1)  # and now pauses for an hour
        candidate.leave()
    assert plan.done == int(heard)


async def test_candidate__takes_no_lead_after_it_left() -> None:
    plan = Plan(LED_ELSEWHERE)
    candidate = Candidate(plan, House().owner)
    candidate.leave()
    candidate.hear(led_elsewhere())
    candidate.hear(None)

    async with asyncio.timeout(2):
        await candidate.run()

    assert plan.done == 0
