from __future__ import annotations

from itertools import count

import pytest

from tests.waiting import eventually, eventually_sync


async def test_eventually__returns_the_first_true_answer() -> None:
    numbers = count()

    async def third() -> int | None:
        number = next(numbers)
        return number if number >= 2 else None

    assert await eventually(third) == 2


def test_eventually_sync__returns_the_first_true_answer() -> None:
    numbers = count()

    assert eventually_sync(lambda: next(numbers) > 2) is True


async def test_eventually__gives_up_with_the_last_answer() -> None:
    async def never() -> str:
        return ""

    with pytest.raises(AssertionError, match=r"within 0.01 s; last answer: ''"):
        await eventually(never, within_seconds=0.01)
    with pytest.raises(AssertionError, match=r"last answer: 0"):
        eventually_sync(lambda: 0, within_seconds=0.01)
