"""For how long the ledger is asked again while it gives no answer; what may have committed, with the same ids."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final, TypeVar

from brokerjobs.errors import LedgerUnavailable, LoginRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0


class Patience:
    """For how long a question is asked again while the ledger gives no answer; counts from the first failure."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None
        self._pause = _FIRST_PAUSE_SECONDS

    def pause(self, error: LedgerUnavailable) -> float | None:
        """Seconds until the next try, None when there is none."""
        if isinstance(error, LoginRefused):
            return None
        now = time.monotonic()
        self._end = now + self._seconds if self._end is None else self._end
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
        return None if now + pause > self._end else pause * random.uniform(0.5, 1.0)


async def until_answered(question: Callable[[], Awaitable[T]], patience_seconds: float) -> T:
    """The answer to a question that may be asked again; raises LedgerUnavailable when patience has ended."""
    patience = Patience(patience_seconds)
    while True:
        try:
            return await question()
        except LedgerUnavailable as error:
            pause = patience.pause(error)
            if pause is None:
                raise
            await asyncio.sleep(pause)


def until_answered_sync(question: Callable[[], T], patience_seconds: float) -> T:
    """As `until_answered`, in a thread."""
    patience = Patience(patience_seconds)
    while True:
        try:
            return question()
        except LedgerUnavailable as error:
            pause = patience.pause(error)
            if pause is None:
                raise
            time.sleep(pause)
