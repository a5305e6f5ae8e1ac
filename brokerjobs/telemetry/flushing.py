"""Sends what is waiting to be sent, within a time limit: at a drain, at the exit, and in a child before it is ended.

An SDK's own `force_flush` waits for as long as its exporter tries again, whatever limit it is given.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import metrics, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = logging.getLogger("brokerjobs.telemetry")

EXIT_SECONDS: Final = 5.0
"""For so long a process waits at its exit for what it has not sent."""


def _flushable() -> list[Any]:
    """The providers that have something to flush; those of the API alone have no such method."""
    providers = (trace.get_tracer_provider(), metrics.get_meter_provider())
    return [provider for provider in providers if callable(getattr(provider, "force_flush", None))]


class Flusher:
    """A thread that flushes when it is asked to; made early, since none may be started when Python ends."""

    def __init__(self, providers: Callable[[], Sequence[Any]] = _flushable) -> None:
        self._providers = providers
        self._wanted = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waiting: list[threading.Event] = []

    def arm(self) -> None:
        """Starts the thread, if it does not run."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # a fork has no threads
                self._thread = threading.Thread(target=self._serve, name="brokerjobs-flush", daemon=True)
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Flushes the providers of this process; False if they have not done it within `seconds`."""
        if not self._providers():
            return True
        self.arm()
        done = threading.Event()
        with self._lock:
            self._waiting.append(done)
        self._wanted.release()
        if done.wait(seconds):
            return True
        log.warning("what was not sent within %.1f s is left: spans and metrics wait for their receiver", seconds)
        return False

    def at_exit(self) -> None:
        """Flushes for the last time, if it was armed: so a process says that it has something to send."""
        if self._thread is not None and self._thread.is_alive():
            self.flush(EXIT_SECONDS)

    def _serve(self) -> None:
        while True:
            self._wanted.acquire()
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if not waiting:
                continue
            for provider in self._providers():
                try:
                    provider.force_flush()
                except Exception as error:  # noqa: BLE001  # of somebody's exporter: the others are flushed all the same
                    log.warning("a provider of telemetry cannot be flushed: %s", error)
            for done in waiting:
                done.set()


flusher: Final = Flusher()
"""That of this process."""


def flush(seconds: float = EXIT_SECONDS) -> bool:
    """Sends all spans and metrics that wait, of whoever set the providers up; False if `seconds` were too few."""
    return flusher.flush(seconds)
