from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from brokerjobs.coordinator.hands import Hands
from brokerjobs.errors import ArtifactStoreUnavailable
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 30.0


def unavailable(*which: int) -> Callable[[int], None]:
    """Work to whose calls about some the store gives no answer."""

    def work(item: int) -> None:
        if item in which:
            raise ArtifactStoreUnavailable(store="s3://b", problem="no answer")

    return work


async def test_each__says_what_is_done_and_what_failed() -> None:
    def work(item: int) -> None:
        if item % 2:
            raise ValueError(item)

    outcome = await Hands().each(work, range(10), LONG)

    assert sorted(outcome.done) == [0, 2, 4, 6, 8]
    assert sorted(item for item, _ in outcome.failed) == [1, 3, 5, 7, 9]
    assert all(isinstance(error, ValueError) for _, error in outcome.failed)
    assert outcome.left == 0


async def test_each__has_so_many_threads_and_no_more() -> None:
    here, most, lock = [0], [0], threading.Lock()

    def work(_: int) -> None:
        with lock:
            here[0] += 1
            most[0] = max(most[0], here[0])
        time.sleep(0.002)  # long enough for others to begin meanwhile
        with lock:
            here[0] -= 1

    await Hands(3).each(work, range(60), LONG)

    assert most == [3]


async def test_each__begins_nothing_more_after_no_answer() -> None:
    outcome = await Hands(1).each(unavailable(*range(100)), range(100), LONG)

    assert (len(outcome.failed), outcome.left) == (1, 99)


async def test_each__lets_those_behind_one_without_an_answer_have_their_turn() -> None:
    left = set(range(10))
    for _ in range(200):
        left -= set((await Hands(1).each(unavailable(0), sorted(left), LONG)).done)

    assert left == {0}


async def test_each__that_gets_no_answer_in_time_keeps_its_threads_and_gets_no_others() -> None:
    opened = threading.Event()
    begun = list[int]()

    def work(item: int) -> None:
        begun.append(item)
        assert opened.wait(LONG)

    hands = Hands(2)
    for _ in range(3):
        outcome = await hands.each(work, range(5), 0.02)
        assert (outcome.done, outcome.failed, outcome.left) == ([], [], 5)
    assert (len(begun), hands.hanging) == (2, 2)

    opened.set()

    async def all_have_ended() -> bool:
        return hands.hanging == 0

    await eventually(all_have_ended)
    assert sorted((await hands.each(work, range(5), LONG)).done) == [0, 1, 2, 3, 4]
