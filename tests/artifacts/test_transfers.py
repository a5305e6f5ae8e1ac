"""Blocking work beside an event loop: few at once, and it ends when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest

from brokerjobs.artifacts.transfers import AT_ONCE, Slots, Stop, Stopped, in_thread
from tests.waiting import eventually, eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_in_thread__answers_and_raises() -> None:
    def fails(_: Stop) -> None:
        raise KeyError("of the work")

    assert await in_thread(lambda _: 7) == 7
    with pytest.raises(KeyError, match="of the work"):
        await in_thread(fails)


async def test_in_thread__cancelled_waits_until_the_work_has_stopped() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(stop: Stop) -> None:
        told = threading.Event()
        with stop.calls(told.set):
            begun.set()
            told.wait(10)
        ended.set()
        stop.check()

    running = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_in_thread__cancelled_leaves_work_that_does_not_stop() -> None:
    begun, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def stubborn(_: Stop) -> None:
        begun.set()
        let_go.wait(10)
        ended.set()
        raise KeyError("which nobody waits for")

    running = asyncio.create_task(in_thread(stubborn))
    await asyncio.to_thread(begun.wait, 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    assert not ended.is_set()
    let_go.set()
    await asyncio.to_thread(ended.wait, 5)


async def test_in_thread__survives_what_no_future_takes() -> None:
    def stops(_: Stop) -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(stops)


def test_stop__calls_each_once_and_those_that_come_later() -> None:
    stop = Stop()
    called: list[str] = []
    with stop.calls(lambda: called.append("over")):
        pass
    with stop.calls(lambda: called.append("during")):
        stop.set()
        stop.set()
    with stop.calls(lambda: called.append("after")):
        pass
    assert called == ["during", "after"]
    with pytest.raises(Stopped):
        stop.check()


async def test_slots__bound_what_runs_at_once() -> None:
    slots, inside, most = Slots(AT_ONCE), [0], [0]
    lock, let_go = threading.Lock(), threading.Event()

    def work(stop: Stop) -> None:
        with slots.taken(stop):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            let_go.wait(10)
            with lock:
                inside[0] -= 1

    async def full() -> bool:
        return inside[0] == AT_ONCE

    running = [asyncio.create_task(in_thread(work)) for _ in range(3 * AT_ONCE)]
    await eventually(full)
    let_go.set()
    await asyncio.gather(*running)
    assert most[0] == AT_ONCE


def test_slots__who_waits_can_be_stopped() -> None:
    slots, stop = Slots(1), Stop()
    said: list[str] = []

    def waits() -> None:
        try:
            with slots.taken(stop):
                said.append("taken")
        except Stopped:
            said.append("stopped")

    with slots.taken(Stop()):
        thread = threading.Thread(target=waits)
        thread.start()
        stop.set()
        eventually_sync(lambda: said)
        thread.join()
    assert said == ["stopped"]
    with slots.taken(Stop()):
        said.append("given back")


def test_slots__a_transfer_within_another_has_its_room() -> None:
    """A source that stages something itself would wait for itself."""
    slots = Slots(1)
    with slots.taken(Stop()), ThreadPoolExecutor(1) as pool:
        within = copy_context()
        pool.submit(within.run, _passes, slots, Stop(), _too_late).result(5)
    with slots.taken(Stop()):
        pass


def test_slots__that_were_left_early_are_given_back_once() -> None:
    slots, stop = Slots(1), Stop()
    with slots.taken(Stop()) as room:
        room.leave()
        room.leave()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(_passes, slots, Stop(), _too_late).result(5)
    with slots.taken(Stop()), ThreadPoolExecutor(1) as pool:
        second = pool.submit(_passes, slots, stop)
        stop.set()
        with pytest.raises(Stopped):
            second.result(5)


def test_slots__who_waits_looks_whether_it_is_to_stop() -> None:
    slots = Slots(1)

    def stops() -> None:
        raise KeyError

    with slots.taken(Stop()), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_passes, slots, Stop(), stops)
        with pytest.raises(KeyError):
            waiting.result(5)


def _too_late() -> None:
    pytest.fail("it waits for room")


def _passes(slots: Slots, stop: Stop, check: Callable[[], object] = lambda: None) -> None:
    with slots.taken(stop, check):
        pass
