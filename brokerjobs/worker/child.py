"""The other side of `processes`: a process that runs handlers of `pool="process"`, one after the other.

It dies with its worker, however that ends, and is killed when a handler has to be stopped and does not stop.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import queue
import signal
import threading
import time
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import UUID

from brokerjobs.errors import StaleAttempt, StopRequested
from brokerjobs.job_type import in_processes
from brokerjobs.rules.failures import Snoozed, classify
from brokerjobs.worker import frames
from brokerjobs.worker.facts import AttemptFacts

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_NOT_GIVEN: Final = frozenset({"transaction", "fence", "complete", "effect", "artifacts"})


def serve(
    line: socket.socket, parent: int, modules: Sequence[str], types: Sequence[tuple[str, str]], log_level: int
) -> None:
    """Imports the modules, and runs what comes by the line until its end."""
    _belong_to(parent)
    for module in modules:
        importlib.import_module(module)
    if not logging.root.handlers:
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s (process %(process)d)"
        logging.basicConfig(level=log_level, format=form)
    missing = [name for namespace, name in types if (namespace, name) not in in_processes]
    line.sendall(frames.encode({"ready": True, "missing": missing}))
    requests: queue.SimpleQueue[Running] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, requests), name="brokerjobs-line", daemon=True).start()
    this = os.getpid()
    while True:
        running = requests.get()
        answer = {"attempt": running.request["attempt"], **_answer(running)}
        if os.getpid() != this:  # a fork that the handler has let out: it has no say
            _end()
        line.sendall(frames.encode(answer))


def _belong_to(parent: int) -> None:
    """Dies with the worker, leads a group of its own to be killed with it, and leaves the terminal's signals to it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before it could be waited for
        _end()
    with suppress(OSError):
        os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):  # a drain lets handlers go on, here as there
        signal.signal(number, signal.SIG_IGN)


def _end() -> NoReturn:
    os._exit(0)


class Running:
    """The request that is worked on, and what the worker has said of it since."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.request = request
        self.trusted_until: float = request["trusted_until"]
        self.stop: str | None = None


def _listen(line: socket.socket, requests: queue.SimpleQueue[Running]) -> None:
    """Takes what the worker says, while a handler works in the main thread; ends with the worker."""
    latest: Running | None = None
    while (message := frames.receive(line)) is not None:
        if "payload" in message:
            latest = Running(message)
            requests.put(latest)
        elif latest is not None and message["attempt"] == latest.request["attempt"]:
            latest.stop = message.get("stop", latest.stop)
            latest.trusted_until = message.get("trusted_until", latest.trusted_until)
    _end()


def _answer(running: Running) -> dict[str, Any]:
    """Runs the handler; says how it ended."""
    request = running.request
    job_type = in_processes[request["namespace"], request["type"]]
    handler = job_type.handled_by
    assert handler is not None  # noqa: S101  # it would not be among those of processes
    try:
        payload = job_type.decode_payload(request["payload"])
        context = (ProcessContext(running),) if handler.takes_context else ()
        return {"returned": job_type.encode_result(handler.function(payload, *context)).decode()}
    except BaseException as error:  # noqa: BLE001  # whatever a handler raises, its attempt has ended
        if isinstance(error, StopRequested) and running.stop is not None:
            return {"stopped": True}
        ending = classify(error, job_type.failures, repeatable=request["repeatable"])
        if isinstance(ending, Snoozed):
            return {"snoozed": ending.until.isoformat()}
        return {"failed": ending.as_data()}


class ProcessContext:
    """The context of handlers in processes (brokerjobs.context.ProcessJobContext)."""

    def __init__(self, running: Running) -> None:
        request = running.request
        self._running = running
        self.job_id = UUID(request["job"])
        self.key: str | None = request["key"]
        self.tags: Mapping[str, str] = MappingProxyType(request["tags"])
        self.submitted_by: str = request["submitted_by"]
        deadline: str | None = request["deadline"]
        self.deadline = None if deadline is None else datetime.fromisoformat(deadline)
        self.attempt = AttemptFacts(UUID(request["attempt"]), request["number"], request["fencing_number"])

    def check(self) -> None:
        """Raises StopRequested if the handler is to stop, StaleAttempt if the lease is lost."""
        if self._running.stop is not None:
            raise StopRequested(job_id=self.job_id, attempt_id=self.attempt.id, reason=self._running.stop)
        if time.monotonic() >= self._running.trusted_until:  # one clock for all processes of a machine
            raise StaleAttempt(
                job_id=self.job_id,
                attempt_id=self.attempt.id,
                fencing_number=self.attempt.fencing_number,
                reason="lease_expired",
            )

    def __getattr__(self, name: str) -> NoReturn:
        if name in _NOT_GIVEN:
            message = (
                f"ctx.{name} is not given to handlers of pool='process': the connections are the worker's; run the "
                "handler in a thread, or give ctx.attempt.fencing_number to a store that compares it"
            )
        else:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message)
