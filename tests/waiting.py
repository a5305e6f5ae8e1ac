"""Waiting for a condition, bounded, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1


async def eventually(condition: Callable[[], Awaitable[T | None]], within_seconds: float = 10.0) -> T:
    """Ask until the answer is true in the sense of `if`, and return it; else AssertionError with the last one."""
    end = time.monotonic() + within_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        answer = await condition()
        if answer:
            return answer
        _check_time(end, within_seconds, answer)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def eventually_sync(condition: Callable[[], T | None], within_seconds: float = 10.0) -> T:
    """Do the same as `eventually` with a plain function, blocking this thread."""
    end = time.monotonic() + within_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        answer = condition()
        if answer:
            return answer
        _check_time(end, within_seconds, answer)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _check_time(end: float, within_seconds: float, answer: object) -> None:
    if time.monotonic() > end:
        raise AssertionError(f"the condition did not hold within {within_seconds:g} s; last answer: {answer!r}")
