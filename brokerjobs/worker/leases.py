"""The lease keeper: a thread with its own connection that renews leases and sends heartbeats.

A handler that blocks the event loop does not lose its lease: this thread goes on, and names it in a warning.  What
holds the GIL silences this thread too; then the lease runs out, and the result is fenced like any late one.
"""

from __future__ import annotations

import logging
import math
import random
import sys
import threading
import time
import traceback
from collections import deque
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger.calls import renew
from brokerjobs.rules.leases import renew_after
from brokerjobs.rules.verdicts import RenewVerdict
from brokerjobs.telemetry import metrics, reviews
from brokerjobs.telemetry.attaching import apart
from brokerjobs.telemetry.events import Event
from brokerjobs.worker.telling import about

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.worker.attempt import Attempt

log = logging.getLogger("brokerjobs.worker")

_LOOK_SECONDS: Final = 1.0  # how often the thread looks at least: at new attempts, the heartbeat, the event loop
_EAGER_SECONDS: Final = 2.0  # between heartbeats while queues stand still: a hundred workers ask 50 times a second
_RETRY_SECONDS: Final = 0.1  # after a renewal without an answer
_BLOCKED_SECONDS: Final = 1.0  # an event loop, or a process, that does not answer for so long is named in a warning
_LAST_ANSWER_SECONDS: Final = 1.0  # a worker that ends waits no longer
_NAMED: Final = 3  # attempts that a warning names


@dataclass(frozen=True, slots=True)
class Calls:
    """What the keeper calls."""

    beat: Callable[[LedgerConnection, float], None]
    """Sends a heartbeat; on the keeper's thread."""
    cancel: Callable[[Attempt], None]
    """Takes an attempt whose job is to be cancelled; on the event loop."""
    is_eager: Callable[[], bool]
    """Shall heartbeats come sooner, since their answer is waited for? On the keeper's thread."""


class LeaseKeeper:
    """Renews what `watch` gave it until `forget`, and sends a heartbeat when one is due."""

    def __init__(
        self,
        connection: LedgerConnection,
        loop: asyncio.AbstractEventLoop,
        *,
        renewal: timedelta | None,
        heartbeat: timedelta,
        calls: Calls,
    ) -> None:
        self._connection = connection
        self.loop = loop
        self._renewal = renewal
        self._heartbeat_seconds = heartbeat.total_seconds()
        self._calls = calls
        self._due: dict[Attempt, float] = {}
        self._latest: deque[Attempt] = deque(maxlen=_NAMED)
        self._change = threading.Condition()
        self._wakes_at = -math.inf  # when the thread will look by itself
        self._stopping = False
        self._passed_at = time.monotonic()
        self._asks_ledger = False
        self._loop_thread = threading.get_ident()
        self._loop_answered_at = time.monotonic()
        self._loop_asked = False
        self._loop_named = False
        self._ended: asyncio.Future[None] = loop.create_future()
        self._thread = threading.Thread(
            target=apart(Context()).run, args=(self._run_loudly,), name="brokerjobs-leases", daemon=True
        )

    async def run(self) -> None:
        """Starts the thread and watches over it until it is cancelled; an error of the thread is raised here."""
        self._thread.start()
        await self._ended

    def stop(self) -> None:
        """Stops the thread and closes its connection; leases are renewed no more."""
        with self._change:
            self._stopping = True
            self._change.notify()
        self._connection.hurry(_LAST_ANSWER_SECONDS)
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()

    def silent_seconds(self) -> float | None:
        """For how long the thread has done nothing, answers of the ledger not counted; None if it has ended."""
        if self._thread.ident is not None and not self._thread.is_alive():
            return None
        began = self._thread.ident is not None
        return time.monotonic() - self._passed_at if began and not self._asks_ledger else 0.0

    def watch(self, attempt: Attempt) -> None:
        """Keeps the lease of an attempt from now on."""
        due = time.monotonic() + self._interval(attempt)
        with self._change:
            self._due[attempt] = due
            self._latest.append(attempt)
            if due < self._wakes_at:  # waking the thread for every attempt took a tenth of the throughput (measured)
                self._wakes_at = due
                self._change.notify()

    def forget(self, attempt: Attempt) -> None:
        """Keeps it no longer: it has reported, or its handler has ended."""
        with self._change:
            self._due.pop(attempt, None)

    def _interval(self, attempt: Attempt) -> float:
        if self._renewal is not None:
            return self._renewal.total_seconds() * random.uniform(0.9, 1.1)
        return renew_after(timedelta(seconds=attempt.lease_seconds), random.random()).total_seconds()

    def _run_loudly(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  # a keeper that died unseen would lose every lease
            self.loop.call_soon_threadsafe(self._fail, error)

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def _run(self) -> None:
        next_beat = eager_beat = 0.0
        while True:
            self._passed_at = time.monotonic()
            beat_at = min(next_beat, eager_beat) if self._calls.is_eager() else next_beat
            with self._change:
                if self._stopping:
                    return
                due = self._take_due()
                if not due and time.monotonic() < beat_at:
                    self._rest(self._sleep(beat_at))
                    continue
            self._asks_ledger = True
            self._renew(due)
            if time.monotonic() >= beat_at:
                next_beat = time.monotonic() + self._heartbeat_seconds * random.uniform(0.9, 1.1)
                eager_beat = time.monotonic() + _EAGER_SECONDS * random.uniform(0.9, 1.1)
                self._send_beat()
            self._passed_at, self._asks_ledger = time.monotonic(), False
            self._look_at_loop()

    def _sleep(self, next_beat: float) -> float:
        self._look_at_loop()
        first = min(self._due.values(), default=next_beat)
        return max(0.001, min(_LOOK_SECONDS, first - time.monotonic(), next_beat - time.monotonic()))

    def _rest(self, seconds: float) -> None:
        """Waits for a change or `seconds`; a wait that lasted much longer means that no thread of ours ran."""
        running = list(self._due)[:_NAMED]
        began, processor = time.monotonic(), time.process_time()
        self._wakes_at = began + seconds
        self._change.wait(seconds)
        self._wakes_at = -math.inf
        still = time.monotonic() - began - seconds
        if still >= _BLOCKED_SECONDS:
            log.warning(
                "this process stood still for %.1f s (%.1f s of processor time): a handler held the interpreter's lock "
                "(GIL), or the process was stopped; leases ran on. Running or just begun: %s",
                *(still, time.process_time() - processor, _named([*self._latest, *running])),
            )

    def _take_due(self) -> list[Attempt]:
        """Takes what is due, and what is due soon, so that one call renews many; drops what ran past its time limit."""
        now = time.monotonic()
        for attempt in [attempt for attempt in self._due if now >= attempt.keep_until]:
            del self._due[attempt]
        if not any(due <= now for due in self._due.values()):
            return []
        return [attempt for attempt, due in self._due.items() if due <= now + attempt.lease_seconds / 30]

    def _renew(self, attempts: Sequence[Attempt]) -> None:
        for start in range(0, len(attempts), 1000):
            self._renew_batch(attempts[start : start + 1000])

    def _renew_batch(self, attempts: Sequence[Attempt]) -> None:
        sent_at = time.monotonic()
        started = [attempt.started_at for attempt in attempts]
        try:
            answers = self._connection.fetch(renew([attempt.holding for attempt in attempts], started))
        except LedgerUnavailable as error:
            log.warning("cannot renew %d leases: %s", len(attempts), error)
            metrics.not_renewed("failed", len(attempts))
            for attempt in attempts:
                attempt.span.happened(Event.RENEWAL_FAILED)
            self._put_off(attempts, time.monotonic() + _RETRY_SECONDS * random.uniform(1.0, 3.0))
            return
        answered_at = time.monotonic()
        for attempt, answer in zip(attempts, answers, strict=True):
            reviews.tell(log, answer.opened)  # past its deadline an attempt is ended by its renewal
            match RenewVerdict(answer.verdict):
                case RenewVerdict.KEPT | RenewVerdict.CANCEL_REQUESTED as verdict:
                    if verdict is RenewVerdict.CANCEL_REQUESTED:
                        self._tell_cancel(attempt)
                    left = attempt.renewed(sent_at, answered_at, answer.lease_seconds or attempt.lease_seconds)
                    metrics.renewed(attempt.job_type.name, left)
                    if left < 0:
                        attempt.span.happened(Event.RENEWAL_LATE)
                    self._put_off([attempt], sent_at + self._interval(attempt))
                case RenewVerdict.LOCKED:
                    self._put_off([attempt], answered_at + _RETRY_SECONDS)
                case RenewVerdict.LOST:
                    self._lost(attempt)

    def _tell_cancel(self, attempt: Attempt) -> None:
        """Tells the event loop, once; the lease is kept until the handler has stopped."""
        if not attempt.cancel_told:
            attempt.cancel_told = True
            log.info(
                "job %s: a cancel is wanted; the handler of attempt %s is told",
                *_ids(attempt),
                extra=about(Event.STOP_TOLD, attempt),
            )
            self.loop.call_soon_threadsafe(self._calls.cancel, attempt)

    def _lost(self, attempt: Attempt) -> None:
        with self._change:
            watched = self._due.pop(attempt, None) is not None
        if watched and not attempt.is_ending():  # otherwise it reported while the renewal was under way
            attempt.lost()
            attempt.span.happened(Event.LEASE_LOST)
            metrics.not_renewed("lost")
            log.warning(
                "job %s: attempt %s lost its lease; it may finish, and its report will say what became of it",
                *_ids(attempt),
                extra=about(Event.LEASE_LOST, attempt),
            )

    def _put_off(self, attempts: Sequence[Attempt], due: float) -> None:
        with self._change:
            for attempt in attempts:
                if attempt in self._due:
                    self._due[attempt] = due

    def _send_beat(self) -> None:
        try:
            self._calls.beat(self._connection, time.monotonic() - self._loop_answered_at)
        except LedgerUnavailable as error:
            log.warning("no heartbeat: %s", error)

    def _look_at_loop(self) -> None:
        """Asks the event loop for a sign of life; names what blocks it, once each time."""
        silent = time.monotonic() - self._loop_answered_at
        if not self._loop_asked:
            self._loop_asked = True
            self._loop_named = False
            self._loop_answered_at = time.monotonic()
            self.loop.call_soon_threadsafe(self._loop_answers)
        elif silent >= _BLOCKED_SECONDS and not self._loop_named:
            self._loop_named = True
            log.warning("a handler has blocked the event loop for %.1f s, at: %s", silent, self._where())

    def _loop_answers(self) -> None:
        self._loop_answered_at = time.monotonic()
        self._loop_asked = False

    def _where(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the documented way to another thread's stack
        if frame is None:
            return "unknown"
        return " < ".join(f"{s.filename}:{s.lineno} {s.name}" for s in reversed(traceback.extract_stack(frame)[-3:]))


def _ids(attempt: Attempt) -> tuple[UUID, UUID]:
    return attempt.holding.job_id, attempt.holding.attempt_id


def _named(attempts: Sequence[Attempt]) -> str:
    names = dict.fromkeys(f"{attempt.job_type.name} {attempt.holding.job_id}" for attempt in attempts)
    return ", ".join(names) or "no attempts"
