"""What a process asks its worker by the line while a handler runs: what the ledger says of uploads.

    {attempt, question, stage | ready | discard: {…}}  ─▶   ◀─  {attempt, question, said: {…} | refused: why}

The process has no connection to the ledger.  Nothing is asked any more once its attempt's answer is under way: that
one stays the last frame of the attempt.  The other end is `answering`.
"""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from brokerjobs.errors import BrokerjobsError
from brokerjobs.worker import frames

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping


class Line:
    """What this process says to its worker: whole frames, whichever thread says them."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_own(self) -> bool:
        """Is this the process that the worker has started, and no fork of it? A fork has no say."""
        return os.getpid() == self._pid

    def say(self, message: dict[str, Any]) -> None:
        """Sends one frame."""
        with self._lock:
            self._line.sendall(frames.encode(message))


class Questions:
    """The questions of one attempt, from any of its handler's threads."""

    def __init__(self, line: Line, attempt: str) -> None:
        self._line = line
        self._attempt = attempt
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._over = False

    def ask(self, question: Mapping[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Asks the worker and waits; raises BrokerjobsError if it refuses, TimeoutError after `timeout` seconds."""
        if not self._line.is_own:
            message = "a process that the handler has forked cannot stage artifacts; let the handler itself do it"
            raise BrokerjobsError(message)
        answer: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._over:
                raise _ended()
            number = next(self._numbers)
            self._waiting[number] = answer
            self._line.say({"attempt": self._attempt, "question": number, **question})
        try:
            return answer.result(timeout)
        finally:
            self._waiting.pop(number, None)

    def answered(self, message: Mapping[str, Any]) -> None:
        """Takes an answer of the worker; that to a question which nobody waits for any more goes nowhere."""
        answer = self._waiting.get(message["question"])
        if answer is None:
            return
        with suppress(InvalidStateError):  # `end` came first
            if (refused := message.get("refused")) is not None:
                answer.set_exception(BrokerjobsError(refused))
            else:
                answer.set_result(message["said"])

    def end(self) -> None:
        """Lets no further question through, and no thread wait; the attempt's answer comes next."""
        with self._lock:
            self._over = True
            for answer in [*self._waiting.values()]:
                with suppress(InvalidStateError):
                    answer.set_exception(_ended())


def _ended() -> BrokerjobsError:
    return BrokerjobsError("the handler has returned: its attempt stages no artifacts any more")
