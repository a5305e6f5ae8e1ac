"""How long a consumer takes messages one by one after something undecodable."""

from __future__ import annotations

import asyncio

import pytest

from brokerjobs.broker.isolation import Isolation


class Time:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


async def is_over(isolation: Isolation) -> bool:
    """Whether it ends by itself, without anything happening."""
    waiting = asyncio.create_task(isolation.over())
    for _ in range(5):
        await asyncio.sleep(0)
    ended = waiting.done()
    waiting.cancel()
    return ended


async def test_isolation__is_over_when_each_route_has_gone_by_twice_its_prefetch(time: Time) -> None:
    isolation = Isolation(time)
    assert not isolation.active
    isolation.begin({"a": 2, "b": 1})
    isolation.settled("a", 3)
    isolation.settled("b", 2)
    assert not await is_over(isolation)

    isolation.settled("a", 1)

    assert await is_over(isolation)
    assert not isolation.active


async def test_isolation__begins_anew_with_each_break_of_its_route(time: Time) -> None:
    isolation = Isolation(time)
    isolation.begin({"a": 1, "b": 1})
    isolation.settled("a", 2)
    isolation.begin({"a": 1})
    isolation.settled("b", 2)
    assert not await is_over(isolation)
    isolation.settled("a", 2)

    assert await is_over(isolation)


async def test_isolation__is_over_when_nothing_broke_for_a_minute(time: Time) -> None:
    """The culprit may be with another consumer, or in quarantine, and the queue empty."""
    isolation = Isolation(time)
    isolation.begin({"a": 10})
    time.now += 59
    assert not await is_over(isolation)
    time.now += 1

    assert await is_over(isolation)


async def test_isolation__notices_what_happens_while_it_is_waited_for(time: Time) -> None:
    isolation = Isolation(time)
    isolation.begin({"a": 1})
    waiting = asyncio.create_task(isolation.over())
    await asyncio.sleep(0)
    assert not waiting.done()
    isolation.settled("a", 2)

    ended, _ = await asyncio.wait({waiting}, timeout=5)
    assert ended == {waiting}


async def test_isolation__expects_nothing_more_of_a_route_that_is_consumed_no_more(time: Time) -> None:
    isolation = Isolation(time)
    isolation.begin({"a": 1, "b": 1})
    isolation.settled("a", 2)
    isolation.forget("b")
    isolation.forget("c")

    assert await is_over(isolation)
