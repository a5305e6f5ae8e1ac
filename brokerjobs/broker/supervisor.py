"""Doing something over one connection after another, for as long as it is wanted."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from brokerjobs.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tenacity import RetryCallState

# Full jitter: all workers lose a restarted broker at the same moment.
_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 15.0
# A connection that held this long was no part of the trouble before it.
_STABLE_SECONDS = 30.0

BACK_OFF = wait_random_exponential(multiplier=_FIRST_DELAY_SECONDS, max=_LONGEST_DELAY_SECONDS)

_log = logging.getLogger(__name__)


async def supervise(session: Callable[[], Awaitable[None]]) -> None:
    """Await `session()` until it returns, again after each `BrokerUnavailable`; any other error ends it."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(BrokerUnavailable), wait=BACK_OFF, before_sleep=_say, reraise=True
    ):
        with attempt:
            started = time.monotonic()
            try:
                await session()
            except BrokerUnavailable:
                if time.monotonic() - started > _STABLE_SECONDS:
                    attempt.retry_state.attempt_number = 1
                raise
            except StopAsyncIteration as error:
                # It would end the loop around it, and this with it, as if all had been done.
                raise RuntimeError("a session ended by StopAsyncIteration") from error


def _say(state: RetryCallState) -> None:
    reason = state.outcome.exception() if state.outcome else None
    _log.warning("%s; connecting again in %.1f s", reason, state.upcoming_sleep)
