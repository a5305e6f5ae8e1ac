"""The context in which the libraries run for us."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import ContextVar

import pytest

from brokerjobs.broker.own_context import apart, is_ours

seen: ContextVar[str] = ContextVar("seen", default="nothing")


async def test_apart__runs_with_the_mark_and_without_the_caller_s_variables() -> None:
    async def operation() -> tuple[bool, str]:
        return is_ours(), seen.get()

    seen.set("the caller")
    assert await apart(operation()) == (True, "nothing")
    assert (is_ours(), seen.get()) == (False, "the caller")


async def test_apart__closes_an_operation_that_is_cancelled_before_its_first_step() -> None:
    async def never() -> None:
        pytest.fail("ran")

    operation = never()
    call = asyncio.create_task(apart(operation))
    # One turn of the loop: the call has made its task, which has not begun.
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert inspect.getcoroutinestate(operation) == inspect.CORO_CLOSED
