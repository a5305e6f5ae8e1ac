"""Handlers of `pool="process"`: each attempt in a child process of its own, which can be killed.

The processes are started with the worker (spawned, never forked: this process has threads), are used again, and are
replaced when one has died.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.errors import ConfigurationError
from brokerjobs.handlers import RunsIn
from brokerjobs.rules import texts
from brokerjobs.rules.failures import Failure, FailureClass, Snoozed
from brokerjobs.telemetry.configuration import is_asked_for
from brokerjobs.telemetry.tracing import tracing
from brokerjobs.worker import child, frames
from brokerjobs.worker.answering import Answering
from brokerjobs.worker.endings import Ending, Returned, Stopped, died_failure, garbled_failure
from brokerjobs.worker.uploads import AttemptUploads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from multiprocessing.process import BaseProcess

    from brokerjobs.artifacts.locations import StoreOptions
    from brokerjobs.job_type import JobType
    from brokerjobs.worker.attempt import Attempt
    from brokerjobs.worker.stopping import Stop
    from brokerjobs.worker.uploads import Uploads

log = logging.getLogger("brokerjobs.worker")

_LAST_WORDS_SECONDS: Final = 0.2  # what a dead process had sent is there at once
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 10.0
_TRUSTS: Final = 6  # times a lease that a child is told how long it may trust it


class Child:
    """One child process and the line to it."""

    def __init__(self, process: BaseProcess, line: socket.socket, uploads: Uploads) -> None:
        loop = asyncio.get_running_loop()
        assert process.pid is not None  # noqa: S101  # it was started
        self.pid: int = process.pid
        self.dead: asyncio.Future[int | None] = loop.create_future()
        self._process = process
        self._line = line
        self._uploads = uploads
        try:  # the end of the line, or the sentinel, could be held open by what a handler has started
            self._watched = os.pidfd_open(self.pid)
        except OSError:
            self._watched = os.dup(process.sentinel)
        loop.add_reader(self._watched, self._died)
        self._attempt: Attempt | None = None
        self._killed = False
        self._busy = asyncio.Lock()

    async def open(self) -> list[str]:
        """Waits until it is ready; answers the types that it lacks. Raises ConnectionError if it died instead."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._line)
        ready = await self._next(None)
        if ready is None:
            raise ConnectionError
        missing: list[str] = ready["missing"]
        return missing

    async def run(self, attempt: Attempt) -> Ending:
        """Runs the handler of an attempt; a death of the process is one of its endings.

        Raises ValueError, KeyError or TypeError if something else than its answer comes by the line.
        """
        async with self._busy:
            self._attempt = attempt
            self._writer.write(frames.encode(_request(attempt)))
            uploads = AttemptUploads(attempt.holding, self._uploads)
            answering = Answering(attempt.holding, uploads, partial(self._say, attempt))
            try:
                while (answer := await self._next(attempt)) is not None and "question" in answer:
                    answering.take(answer)
                    self._say(attempt, {"trusted_until": attempt.trusted_until})  # `_next` begins to wait anew
            except asyncio.CancelledError:
                self.kill()
                raise
            finally:
                self._attempt = None
                uploads.end("its process has ended, or its handler has")
        if answer is not None:
            if answer["attempt"] != str(attempt.holding.attempt_id):
                message = "the answer of another attempt"
                raise ValueError(message)
            return _ending(attempt, answer)
        if attempt.stop is not None and self._killed:
            return Stopped(attempt.stop)
        return died_failure(attempt, await self.dead)

    async def _next(self, attempt: Attempt | None) -> dict[str, Any] | None:
        """The next message, None if the process has died; meanwhile it is told how long it may trust the lease."""
        reading = asyncio.ensure_future(frames.read(self._reader))
        either: set[asyncio.Future[Any]] = {reading, self.dead}
        every = None if attempt is None else attempt.lease_seconds / _TRUSTS
        try:
            while not reading.done() and not self.dead.done():
                await asyncio.wait(either, timeout=every, return_when=asyncio.FIRST_COMPLETED)
                if attempt is not None and not reading.done():
                    self._say(attempt, {"trusted_until": attempt.trusted_until})
            if not reading.done():
                await asyncio.wait({reading}, timeout=_LAST_WORDS_SECONDS)
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                return reading.result() if reading.done() else None
            await self.dead
            return None
        finally:
            reading.cancel()

    def lives(self) -> bool:
        """Is it there? Asked of the system: its death may not have been noticed here yet."""
        return not self.dead.done() and self._process.is_alive()

    def tell(self, why: Stop) -> None:
        """Lets `ctx.check()` raise in the handler that runs."""
        if self._attempt is not None:
            self._say(self._attempt, {"stop": why.value})

    def _say(self, attempt: Attempt, what: Mapping[str, object]) -> None:
        """Says something of the attempt that runs; of one that has ended there is nothing to say."""
        if self._attempt is attempt and not self.dead.done():
            self._writer.write(frames.encode({"attempt": str(attempt.holding.attempt_id), **what}))

    def kill(self) -> None:
        """Kills it, with what it has started in its process group."""
        self._killed = True
        if self.dead.done():
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it does not lead its group yet
            self._process.kill()

    def _died(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watched)
        os.close(self._watched)
        if not self.dead.done():
            self.dead.set_result(self._process.exitcode)

    async def close(self) -> None:
        """Kills it and lets go of everything."""
        self.kill()
        await asyncio.wait({self.dead}, timeout=_LONGEST_PAUSE_SECONDS)
        async with self._busy:  # its last words may still be read
            self._let_go()

    def _let_go(self) -> None:
        if hasattr(self, "_writer"):
            self._writer.close()
        else:
            self._line.close()
        if self.dead.done():
            with contextlib.suppress(ValueError):  # its end can be told before the system lets it be waited for
                self._process.close()


class Processes:
    """As many warm processes as there are places; none if no handler wants them."""

    def __init__(
        self, types: Iterable[JobType[Any, Any]], size: int, uploads: Uploads, artifacts: StoreOptions
    ) -> None:
        self._uploads = uploads
        self._artifacts = artifacts
        self._types: list[tuple[str, str]] = []
        modules: dict[str, None] = {}
        for job_type in types:
            if (handler := job_type.handled_by) is not None and handler.runs_in is RunsIn.PROCESS:
                self._types.append((job_type.namespace, job_type.name))
                modules[handler.function.__module__] = None
        self._modules = list(modules)
        self._size = size if self._types else 0
        self._spawning = multiprocessing.get_context("spawn")
        self._idle: asyncio.Queue[Child] = asyncio.Queue()

    async def run(self) -> None:
        """Keeps the processes alive until it is cancelled; raises ConfigurationError if they lack a handler."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._size):
                group.create_task(self._keep_one())

    async def _keep_one(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                made = self._start()
            except OSError as error:  # no process, memory or file descriptor is left: handlers took them, or others
                log.warning("a process for handlers cannot be started: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            try:
                missing = await made.open()
                if missing:
                    raise ConfigurationError(_lacks(missing, self._modules))
                pause = _FIRST_PAUSE_SECONDS
                self._idle.put_nowait(made)
                await asyncio.shield(made.dead)
            except ConnectionError:
                code = await made.dead
                log.warning("a process for handlers did not start (exit code %s); see what it said above", code)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            finally:
                await made.close()

    def _start(self) -> Child:
        ours, theirs = socket.socketpair()
        options = child.ChildOptions(
            self._modules,
            self._types,
            logging.root.level,
            self._artifacts,
            tracing.look() is not None and is_asked_for(),
        )
        ours.setblocking(False)  # noqa: FBT003  # the socket's own signature
        process = self._spawning.Process(
            target=child.serve,
            args=(theirs, os.getpid(), options),
            name="brokerjobs-handler",
        )
        # On the thread that lives as long as this process: a child is told of the death of the thread that made it.
        process.start()
        theirs.close()
        return Child(process, ours, self._uploads)

    async def handle(self, attempt: Attempt) -> Ending:
        """Runs the handler of an attempt in a process."""
        one = await self._idle.get()
        while not one.lives():
            one = await self._idle.get()
        attempt.child = one
        try:
            ending = await one.run(attempt)
        except (ValueError, KeyError, TypeError):  # the handler, or what it started, has written to the line
            one.kill()
            return garbled_failure(attempt)
        if one.lives():
            self._idle.put_nowait(one)
        return ending


def _lacks(missing: list[str], modules: list[str]) -> str:
    return (
        f"a process that imported {', '.join(modules)} lacks the handler of {', '.join(missing)}; a handler with "
        "pool='process' must be registered when the module of its function is imported"
    )


def _request(attempt: Attempt) -> dict[str, Any]:
    claimed = attempt.claimed
    return {
        "namespace": attempt.job_type.namespace,
        "type": attempt.job_type.name,
        "payload": claimed.payload,
        "repeatable": claimed.repeatable,
        "trusted_until": attempt.trusted_until,
        "job": str(claimed.job_id),
        "attempt": str(claimed.attempt_id),
        "number": claimed.number,
        "fencing_number": claimed.fencing_number,
        "key": claimed.key,
        "tags": claimed.tags,
        "submitted_by": claimed.submitted_by,
        "deadline": None if claimed.deadline is None else claimed.deadline.isoformat(),
        "traceparent": attempt.span.traceparent,
        "tracestate": attempt.span.tracestate,
    }


def _ending(attempt: Attempt, answer: dict[str, Any]) -> Ending:
    if "returned" in answer:
        return Returned(answer["returned"])
    if "snoozed" in answer:
        return Snoozed(datetime.fromisoformat(answer["snoozed"]))
    if "stopped" in answer and attempt.stop is not None:
        return Stopped(attempt.stop)
    data = answer["failed"]
    wait: float | None = data["retry_after"]
    return Failure(
        failure_class=FailureClass(data["class"]),
        classified=data["classified"],
        error_type=data["type"],
        message=texts.redacted(data["message"]),  # again: the child does not know the secrets of this process
        traceback=texts.redacted(data["traceback"]),
        retry_after=None if wait is None else timedelta(seconds=wait),
    )
