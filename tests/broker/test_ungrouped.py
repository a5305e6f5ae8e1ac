from __future__ import annotations

import asyncio

import pytest

from brokerjobs.broker.ungrouped import ungrouped
from brokerjobs.errors import BrokerUnavailable


async def fail(error: Exception) -> None:
    raise error


async def test_ungrouped__prefers_what_is_more_than_a_lost_connection() -> None:
    async def work() -> None:
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(BrokerUnavailable("light")))
                group.create_task(fail(ZeroDivisionError("grave")))
                await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError, match="grave") as raised:
        await work()

    assert raised.value.__cause__ is None


async def test_ungrouped__does_not_lose_a_cancellation_to_an_error() -> None:
    """The owner of a consumer that loses its connection while it is being cancelled waits for it to end."""

    async def fail_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise BrokerUnavailable("lost")

    async def work() -> None:
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_when_cancelled())
                await asyncio.Event().wait()

    working = asyncio.create_task(work())
    for _ in range(3):
        await asyncio.sleep(0)
    working.cancel()

    with pytest.raises(asyncio.CancelledError):
        await working
