"""Why a handler is told to stop, and how it is told: a task, a thread and a process differ in what can be done.

| | told | if it does not end within the grace |
|---|---|---|
| task (async) | CancelledError at its next await | the attempt ends, the task is abandoned |
| thread | `ctx.check()` raises StopRequested | time limit, deadline: the attempt ends at once, the thread goes on |
| process | `ctx.check()` raises StopRequested | the process is killed |

All of this runs on the event loop.
"""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from brokerjobs.handlers import RunsIn
from brokerjobs.telemetry.attributes import REASON
from brokerjobs.telemetry.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from brokerjobs.worker.attempt import Attempt

_OF_LEASE: Final = 1 / 3  # renewing stops at the time limit: what follows must be reported before the lease is over


class Stop(StrEnum):
    """Why a handler has to stop."""

    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    DEADLINE = "deadline"
    DRAIN = "drain"


_FINAL: Final = frozenset({Stop.TIME_LIMIT, Stop.DEADLINE})  # the attempt ends, whatever its handler does


class Stopping:
    """Tells handlers to stop; `abandon` is called for a task that has not ended within the grace."""

    def __init__(self, grace: timedelta, abandon: Callable[[Attempt], None]) -> None:
        self._grace_seconds = grace.total_seconds()
        self._abandon = abandon

    def when_due(self, attempt: Attempt) -> asyncio.TimerHandle:
        """Stops the handler, which begins now, at its time limit or its deadline, whichever is first."""
        limit = attempt.claimed.time_limit_seconds
        why = Stop.TIME_LIMIT
        if attempt.deadline_at is not None and (left := attempt.deadline_at - time.monotonic()) < limit:
            limit, why = max(0.0, left), Stop.DEADLINE
        return asyncio.get_running_loop().call_later(limit, self.stop, attempt, why)

    def cancel(self, attempt: Attempt) -> None:
        """The ledger said that a cancel of the job is wanted."""
        self.stop(attempt, Stop.CANCEL)

    def stop(self, attempt: Attempt, why: Stop) -> None:
        """Tells the handler of an attempt to stop, as far as that can be done; told again, a limit counts first."""
        if attempt.has_ended:
            return
        attempt.span.happened(Event.STOP_TOLD, {REASON: why.value})
        was = attempt.stop
        if was not in _FINAL:
            attempt.stop = why
        if attempt.runs_in is RunsIn.THREAD and attempt.thread is not None:
            if why in _FINAL:
                attempt.cancel_task()
        elif attempt.runs_in is RunsIn.PROCESS and attempt.child is not None:
            attempt.child.tell(why)
            if why is Stop.DRAIN:
                attempt.child.kill()
            elif was is None:
                self._after_grace(attempt, attempt.child.kill)
        elif was is None:  # a task, or something that waits before its handler begins
            attempt.cancel_task()
            if why is not Stop.DRAIN:  # the worker ends, and waits for it no longer than it says itself
                self._after_grace(attempt, lambda: self._abandon(attempt))

    def _after_grace(self, attempt: Attempt, then: Callable[[], None]) -> None:
        def give_up() -> None:
            if not attempt.has_ended:
                then()

        seconds = min(self._grace_seconds, attempt.lease_seconds * _OF_LEASE)
        asyncio.get_running_loop().call_later(seconds, give_up)


def is_being_cancelled() -> bool:
    """Was this task cancelled from outside? If not, what it runs raised CancelledError by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
