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
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import UUID

from brokerjobs.artifacts.store import lazily
from brokerjobs.errors import StopRequested
from brokerjobs.job_type import in_processes
from brokerjobs.rules.failures import Snoozed, classify
from brokerjobs.telemetry.attaching import in_child
from brokerjobs.telemetry.configuration import configure
from brokerjobs.telemetry.flushing import flush
from brokerjobs.telemetry.shapes import OtherSubject
from brokerjobs.telemetry.tracing import tracing
from brokerjobs.worker import frames
from brokerjobs.worker.asking import Line, Questions
from brokerjobs.worker.child_context import ProcessContext, Running

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from brokerjobs.artifacts.locations import StoreOptions
    from brokerjobs.artifacts.store import ArtifactStore

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_FLUSH_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """What a process is started with; it comes by a pipe, never by a command line."""

    modules: Sequence[str]
    types: Sequence[tuple[str, str]]
    log_level: int
    artifacts: StoreOptions
    traces: bool
    """Shall it send spans of its own, where the worker's variables say?"""


def serve(line: socket.socket, parent: int, options: ChildOptions) -> None:
    """Imports the modules, and runs what comes by the line until its end."""
    _belong_to(parent)
    for module in options.modules:
        importlib.import_module(module)
    if not logging.root.handlers:
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s (process %(process)d)"
        logging.basicConfig(level=options.log_level, format=form)
    if options.traces:
        configure(service_name=options.types[0][0], with_metrics=False)
    missing = [name for namespace, name in options.types if (namespace, name) not in in_processes]
    ours = Line(line)
    ours.say({"ready": True, "missing": missing})
    requests: queue.SimpleQueue[Running] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, ours, requests), name="brokerjobs-line", daemon=True).start()
    store = lazily(options.artifacts)
    while True:
        running = requests.get()
        answer = {"attempt": running.request["attempt"], **_answer(running, store)}
        if not ours.is_own:  # a fork that the handler has let out
            _end()
        running.questions.end()
        ours.say(answer)
        if tracing.look() is not None:
            flush(_FLUSH_SECONDS)  # it may be killed before its next handler, and is at the worker's end


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


def _listen(line: socket.socket, ours: Line, requests: queue.SimpleQueue[Running]) -> None:
    """Takes what the worker says, while a handler works in the main thread; ends with the worker."""
    latest: Running | None = None
    while (message := frames.receive(line)) is not None:
        if "payload" in message:
            latest = Running(message, Questions(ours, message["attempt"]))
            requests.put(latest)
        elif latest is not None and message["attempt"] == latest.request["attempt"]:
            latest.heard(message)
    _end()


def _answer(running: Running, store: Callable[[], ArtifactStore]) -> dict[str, Any]:
    """Runs the handler; says how it ended."""
    request = running.request
    job_type = in_processes[request["namespace"], request["type"]]
    handler = job_type.handled_by
    assert handler is not None  # noqa: S101  # it would not be among those of processes
    try:
        payload = job_type.decode_payload(request["payload"])
        context = (ProcessContext(running, store),) if handler.takes_context else ()
        with in_child(_subject(request), request["traceparent"], request["tracestate"]):
            return {"returned": job_type.encode_result(handler.function(payload, *context)).decode()}
    except BaseException as error:  # noqa: BLE001  # whatever a handler raises, its attempt has ended
        if isinstance(error, StopRequested) and running.stop is not None:
            return {"stopped": True}
        ending = classify(error, job_type.failures, repeatable=request["repeatable"])
        if isinstance(ending, Snoozed):
            return {"snoozed": ending.until.isoformat()}
        return {"failed": ending.as_data()}


def _subject(request: Mapping[str, Any]) -> OtherSubject:
    """The attempt that it runs, for spans and logs."""
    return OtherSubject(
        UUID(request["job"]), UUID(request["attempt"]), request["number"], request["fencing_number"], request["type"]
    )
