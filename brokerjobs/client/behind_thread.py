"""What goes on behind a sync client: an event loop in a thread of its own, which nobody waits for in order to submit.

Threads hand over doorbells and wait for results here; submissions and questions go over the callers' own connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import CancelledError
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from brokerjobs.client.announce import HELD_SECONDS, LEAVE_SECONDS
from brokerjobs.client.behind import Behind
from brokerjobs.errors import ConfigurationError, ResultTimeout
from brokerjobs.telemetry.attaching import apart

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from concurrent.futures import Future
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.client.options import ClientOptions
    from brokerjobs.ledger.inquiries import Outcome

T = TypeVar("T")
log = logging.getLogger("brokerjobs.client")

# Beyond its own time a wait is given so long to say so, after which the thread must be dead or starved.
_GRACE_SECONDS: Final = 5.0


class BehindThread:
    """Runs a `Behind`; started by being made, and ended by `close`."""

    def __init__(self, options: ClientOptions) -> None:
        self._behind = Behind(options)
        self._stop = asyncio.Event()
        self._guard = threading.Lock()
        self._closed = False
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run, name="brokerjobs-client", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads
            self._loop.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive() and not self._closed

    def announce(self, doorbells: Sequence[Outgoing]) -> None:
        """Rings them soon; the relay rings them if this has ended."""
        with self._guard, contextlib.suppress(RuntimeError):  # just died, with its loop closed
            if self.alive:
                self._loop.call_soon_threadsafe(self._behind.announcer.announce, doorbells)

    def announced(self, doorbell: Outgoing) -> bool:
        """Rings one; False if the broker has not confirmed it within two seconds: by then the relay has rung."""
        future = self._begun(self._behind.announcer.announced(doorbell))
        try:
            return future is not None and future.result(HELD_SECONDS)
        except (CancelledError, TimeoutError):
            return False
        finally:
            if future is not None:
                future.cancel()

    def outcome(self, job_id: UUID, timeout: timedelta) -> Outcome:
        """What ended the job or put it into review, as `Waiting.outcome`; the calling thread waits."""
        future = self._begun(self._behind.waiting.outcome(job_id, timeout))
        if future is None:
            raise _closed()
        try:
            return future.result(timeout.total_seconds() + _GRACE_SECONDS)
        except CancelledError:
            raise _closed() from None
        except TimeoutError:
            raise ResultTimeout(job_id=job_id, timeout=timeout, state="in an unknown state") from None
        finally:
            future.cancel()

    def close(self) -> None:
        """Waits a little for pending doorbells, leaves the rest to the relay, and ends the thread."""
        with self._guard:
            ended, self._closed = self._closed, True
            if not ended and self._thread.is_alive():
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(LEAVE_SECONDS + _GRACE_SECONDS)

    def _begun(self, work: Coroutine[Any, Any, T]) -> Future[T] | None:
        with self._guard, contextlib.suppress(RuntimeError):
            if self.alive:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        return None

    def _run(self) -> None:
        try:
            with self._runner:
                self._runner.run(self._serve())
        except Exception:
            log.exception("the thread behind a client has died; another one is started when it is needed next")

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(loop, context=apart(copy_context())) for loop in self._behind.loops()]
                await self._stop.wait()
                await self._behind.announcer.drain(LEAVE_SECONDS)
                for task in tasks:
                    task.cancel()
        finally:
            await self._behind.close()


def _closed() -> ConfigurationError:
    return ConfigurationError("the client is closed; wait for results while it is open")
