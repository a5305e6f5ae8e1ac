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
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from brokerjobs.handlers import RunsIn
from brokerjobs.rules.failures import time_limit_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.rules.failures import Failure
    from brokerjobs.worker.attempt import Attempt

_OF_LEASE: Final = 1 / 3  # renewing stops at the time limit: what follows must be reported before the lease is over


class Stop(StrEnum):
    """Why a handler has to stop."""

    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    DEADLINE = "deadline"
    DRAIN = "drain"


_FINAL: Final = frozenset({Stop.TIME_LIMIT, Stop.DEADLINE})  # the attempt ends, whatever its handler does


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler ended because it was told to."""

    why: Stop


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


def limit_failure(attempt: Attempt, why: Stop) -> Failure:
    """The failure of an attempt that had not ended at its time limit, or at the job's deadline."""
    repeatable = attempt.claimed.repeatable
    limit = timedelta(seconds=attempt.claimed.time_limit_seconds)
    failure = time_limit_failure(limit, repeatable=repeatable)
    if why is Stop.DEADLINE:
        message = "the handler had not ended when the job's deadline passed"
        failure = replace(failure, error_type="DeadlinePassed", message=message)
    if attempt.thread is not None and not attempt.thread.done():
        failure = replace(failure, message=f"{failure.message}; its thread cannot be stopped and goes on")
    return failure


def abandoned_failure(attempt: Attempt) -> Failure:
    """The failure of an attempt whose task ignored its cancellation."""
    goes_on = "its task ignored the cancellation (CancelledError) and goes on"
    if attempt.stop is Stop.TIME_LIMIT or attempt.stop is Stop.DEADLINE:
        failure = limit_failure(attempt, attempt.stop)
        return replace(failure, message=f"{failure.message}; {goes_on}")
    failure = limit_failure(attempt, Stop.TIME_LIMIT)
    return replace(failure, error_type="NotStopped", message=f"a cancel of the job was asked for, but {goes_on}")
