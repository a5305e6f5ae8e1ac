"""Attempts that run: each in a task of its own, with its slot and its lease, and what goes on when it has ended."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.rules.texts import counted
from brokerjobs.telemetry.attaching import entered
from brokerjobs.telemetry.outcomes import Outcome
from brokerjobs.worker.stopping import Stop, Stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from brokerjobs.handlers import Handler
    from brokerjobs.worker.attempt import Attempt
    from brokerjobs.worker.leases import LeaseKeeper
    from brokerjobs.worker.reserving import Reserving
    from brokerjobs.worker.runner import Runner
    from brokerjobs.worker.slots import Slots

log = logging.getLogger("brokerjobs.worker")

_REPORT_SECONDS: Final = 5.0  # what is cancelled at the drain limit has so long to be reported

_CHECK_SECONDS: Final = 1.0  # and a thread to come by its `ctx.check()`, at a limit of its own, too


class Running:
    """Starts granted attempts and knows which run; made on the event loop.

    They are no members of the worker's task group: a handler that never ends must not hold up the worker's end.
    """

    def __init__(  # noqa: PLR0913  # what an attempt is given, and what is said when too much cannot be stopped
        self,
        runner: Runner,
        slots: Slots,
        reserving: Reserving,
        *,
        grace: timedelta,
        limit: int,
        at_limit: Callable[[], None],
    ) -> None:
        self._runner = runner
        self._slots = slots
        self._reserving = reserving
        self._limit = limit
        self._at_limit = at_limit
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}
        self._go_on: dict[Attempt, None] = {}
        self._leaked: set[Attempt] = set()
        self._asides: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._broken: asyncio.Future[None] = self._loop.create_future()
        self._variables = contextvars.copy_context()
        self.stopping = Stopping(grace, self._abandon)
        self.released = 0
        """How many attempts were given back at the drain limit."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def go_on(self) -> int:
        """How many handlers go on though their attempts have ended, and keep their slots."""
        return len(self._go_on)

    @property
    def leaked(self) -> int:
        """How many of these cannot be stopped: threads that have gone on for a second, and tasks."""
        return len(self._leaked)

    def oldest_unsettled(self) -> dict[str, float]:
        """By route, how many seconds ago the oldest delivery came whose attempt runs; any thread may ask."""
        now = time.monotonic()
        ages: dict[str, float] = {}
        for attempt in list(self._tasks):
            if not attempt.acked_on_claim:
                route = attempt.delivery.route
                ages[route] = max(ages.get(route, 0.0), now - attempt.delivery.received)
        return ages

    async def run(self) -> None:
        """Raises what is wrong with the worker itself; ends only so, or when it is cancelled."""
        await self._broken

    def start(self, attempt: Attempt, handler: Handler, keeper: LeaseKeeper) -> None:
        """Runs a granted attempt in a task of its own, in which it waits first for what its submission added."""
        self._slots.take(attempt.runs_in)
        if not self._reserving.granted(attempt):
            attempt.must_wait()
        keeper.watch(attempt)
        ready = self._reserving.wait if attempt.waits else None
        running = self._runner.run(attempt, handler, self.stopping, ready)
        variables = entered(self._variables, attempt.claimed, attempt.span.context)
        task = self._loop.create_task(running, context=variables)
        attempt.task = task
        self._tasks[attempt] = task
        task.add_done_callback(lambda task: self._ended(attempt, task, keeper))

    def _ended(self, attempt: Attempt, task: asyncio.Task[None], keeper: LeaseKeeper) -> None:
        keeper.forget(attempt)
        if not attempt.abandoned:  # or its report may still be under way
            self._tasks.pop(attempt, None)
        if not task.cancelled() and (error := task.exception()) is not None and not self._broken.done():
            self._broken.set_exception(error)
        if attempt.thread is not None and not attempt.thread.done():
            self._go_on[attempt] = None
            self._loop.call_later(_CHECK_SECONDS, self._leak, attempt)
            attempt.thread.add_done_callback(lambda thread: self._returned(attempt, thread))
        else:
            self._free(attempt)

    def _returned(self, attempt: Attempt, thread: asyncio.Future[Any]) -> None:
        """A thread has ended after its attempt: it is a free place again, and what it returned is evidence."""
        self._free(attempt)
        if not thread.cancelled() and thread.exception() is None:
            self._aside(self._runner.late(attempt, thread.result()))

    def _free(self, attempt: Attempt) -> None:
        """Its handler has really ended: its slot and its quantities are for others."""
        self._go_on.pop(attempt, None)
        self._leaked.discard(attempt)
        self._slots.give(attempt.runs_in)
        self._reserving.release(attempt.delivery, None if attempt.waits else time.monotonic() - attempt.began_at)

    def _abandon(self, attempt: Attempt) -> None:
        """A task ignored its cancellation: its attempt ends without it."""
        attempt.abandoned = attempt.has_ended = True
        attempt.reporting = self._aside(self._runner.report_abandoned(attempt))
        attempt.reporting.add_done_callback(lambda _: self._tasks.pop(attempt, None))
        self._go_on[attempt] = None
        self._leak(attempt)

    def _leak(self, attempt: Attempt) -> None:
        if attempt not in self._go_on:  # a thread that came by its `ctx.check()` meanwhile
            return
        self._leaked.add(attempt)
        log.warning(
            "job %s (%s): attempt %d has ended, and its handler goes on in its %s, which cannot be stopped; "
            "%s of this worker hold their places so, and at %d it is replaced",
            attempt.claimed.job_id,
            attempt.job_type.name,
            attempt.claimed.number,
            attempt.runs_in.value,
            counted(len(self._leaked), "handler", "handlers"),
            self._limit,
        )
        if len(self._leaked) >= self._limit:
            self._at_limit()

    def _aside(self, coroutine: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._loop.create_task(coroutine)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        return task

    async def drain(self, limit: timedelta, hurry: asyncio.Event, keeper: LeaseKeeper) -> int:
        """Waits for running attempts, stops them at the limit; answers how many are left to their leases."""
        never_began = [attempt for attempt in self._tasks if attempt.waits]
        for attempt in never_began:
            self.stopping.stop(attempt, Stop.DRAIN)
        hurried = asyncio.create_task(hurry.wait())
        await _wait_all(self._tasks.values(), limit.total_seconds(), hurried)
        hurried.cancel()
        for attempt in list(self._tasks):
            if not attempt.has_ended:
                self.stopping.stop(attempt, Stop.DRAIN)
        told = list({**self._tasks, **dict.fromkeys(never_began)})
        threads = [
            task for attempt, task in self._tasks.items() if attempt.thread is not None and not attempt.has_ended
        ]
        await _wait_all(set(self._tasks.values()).difference(threads), _REPORT_SECONDS, None)
        await _wait_all(threads, _CHECK_SECONDS, None)
        left = list(self._tasks.items())
        self.released = sum(attempt.given_back for attempt in told)
        for attempt, _ in left:
            keeper.forget(attempt)
            self._let_go(attempt)
        return len(left)

    def _let_go(self, attempt: Attempt) -> None:
        """Leaves an attempt to its lease: nothing is reported, least of all that it was stopped (rule R5)."""
        attempt.stop = None
        attempt.cancel_task()
        attempt.span.end(Outcome.LEFT)

    async def close(self) -> None:
        """Lets go of what is left; nothing is reported any more."""
        left = {*self._tasks.values(), *self._asides}
        for attempt in self._tasks:
            self._let_go(attempt)
        for aside in self._asides:
            aside.cancel()
        if left:
            await asyncio.wait(left, timeout=1.0)


async def _wait_all(tasks: Iterable[asyncio.Task[Any]], seconds: float, hurry: asyncio.Task[Any] | None) -> None:
    """Waits until all tasks have ended, the time is up, or `hurry` has ended."""
    pending = set(tasks)
    deadline = asyncio.get_running_loop().time() + seconds
    while pending:
        remaining = deadline - asyncio.get_running_loop().time()
        if remaining <= 0 or (hurry is not None and hurry.done()):
            return
        watched = pending if hurry is None else {*pending, hurry}
        done, _ = await asyncio.wait(watched, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
        pending -= done
