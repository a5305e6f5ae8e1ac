"""What worker and process say to each other beside a handler's answer: questions about uploads, and what is none."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from uuid_utils.compat import uuid7

from brokerjobs.errors import BrokerjobsError
from brokerjobs.ledger import artifacts
from brokerjobs.ledger.calls import Holding
from brokerjobs.worker import frames
from brokerjobs.worker.answering import Answering
from brokerjobs.worker.asking import Line, Questions
from brokerjobs.worker.child_context import Running
from brokerjobs.worker.line_ledger import LineLedger

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

HOLDING = Holding(uuid7(), uuid7(), 7)
ATTEMPT = str(HOLDING.attempt_id)
UPLOAD = artifacts.Upload(HOLDING, uuid7(), "sales.csv", "text/csv", "file:///store", 60.0)


@dataclass
class Ledger:
    """What an attempt asks for its uploads: futures that the test answers."""

    asked: list[Any] = field(default_factory=list[Any])
    answers: list[asyncio.Future[Any]] = field(default_factory=list[asyncio.Future[Any]])

    def ask(self, what: object, /) -> asyncio.Future[Any]:
        self.asked.append(what)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    stage = ready = discard = ask


@dataclass
class Parent:
    """A worker's end of the questions of one attempt, and what it has said."""

    ledger: Ledger = field(default_factory=Ledger)
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __post_init__(self) -> None:
        uploads: Any = self.ledger
        self.answering = Answering(HOLDING, uploads, self._say)

    def _say(self, what: Mapping[str, Any]) -> None:
        self.said.append(dict(what))

    def take(self, **message: Any) -> None:
        self.answering.take({"attempt": ATTEMPT, "question": 1, **message})


@dataclass
class Ends:
    """Both ends of a line, the worker's one as a socket that the test reads."""

    worker: socket.socket
    process: socket.socket

    def __post_init__(self) -> None:
        self.questions = Questions(Line(self.process), ATTEMPT)
        self.ledger = LineLedger(self.questions)

    @contextmanager
    def threads(self) -> Generator[ThreadPoolExecutor]:
        """Threads that ask; what they still wait for at the end they do not get."""
        with ThreadPoolExecutor(2) as pool:
            try:
                yield pool
            finally:
                self.questions.end()

    def heard(self) -> dict[str, Any]:
        message = frames.receive(self.worker)
        assert message is not None
        return message


@pytest.fixture
def ends() -> Generator[Ends]:
    worker, process = socket.socketpair()
    with worker, process:
        worker.settimeout(10)
        yield Ends(worker, process)


def what(**more: Any) -> dict[str, Any]:
    """A question that may be asked."""
    upload = {"id": str(UPLOAD.id), "name": "a", "content_type": None, "store": "file:///store", "keep_for": None}
    return {"stage": {**upload, **more}}


async def test_question__is_put_to_the_ledger_as_its_attempt_and_answered_by_number() -> None:
    parent = Parent()
    parent.take(**what(name="sales.csv", content_type="text/csv", keep_for=60))
    parent.take(question=2, ready={"id": str(UPLOAD.id), "size": 3, "sha256": "f" * 64})
    parent.take(question=3, discard={"id": str(UPLOAD.id), "why": "no more"})
    assert parent.ledger.asked == [
        UPLOAD,
        artifacts.Uploaded(UPLOAD.id, HOLDING.attempt_id, 3, "f" * 64),
        artifacts.GivenUp(UPLOAD.id, HOLDING.attempt_id, "no more"),
    ]
    staged = artifacts.Staged(HOLDING.job_id, HOLDING.attempt_id, UPLOAD.id, "staged", None, "j/a/i")
    parent.ledger.answers[1].set_result(artifacts.Ready(UPLOAD.id, "ready"))
    parent.ledger.answers[0].set_result(staged)
    parent.ledger.answers[2].set_exception(BrokerjobsError("the ledger has no such function"))
    await asyncio.sleep(0)
    assert parent.said == [
        {"question": 2, "said": {"verdict": "ready"}},
        {"question": 1, "said": {"verdict": "staged", "reason": None, "path": "j/a/i"}},
        {"question": 3, "refused": "BrokerjobsError: the ledger has no such function"},
    ]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"attempt": str(uuid7()), **what()},  # of another attempt
        {"attempt": None, **what()},
        {"question": None, **what()},
        {"question": "1", **what()},
        {"question": -1, **what()},
        {"question": 2**63, **what()},
        what(id="no id"),
        what(id=None),
        what(name=None),
        what(name="x" * 10_001),
        what(content_type=7),
        what(store=["file:///"]),
        what(keep_for="long"),
        {"stage": None},
        {"stage": {}},
        {"ready": {"id": str(UPLOAD.id), "size": -1, "sha256": ""}},
        {"ready": {"id": str(UPLOAD.id), "size": 2**63, "sha256": ""}},
        {"ready": {"id": str(UPLOAD.id), "size": "1", "sha256": ""}},
        {"ready": {"id": str(UPLOAD.id), "size": 1}},
        {"ready": [1]},
        {"discard": {"id": str(UPLOAD.id)}},
        {"answer": 1},
    ],
)
async def test_question__that_is_none_is_refused_before_the_ledger_sees_it(message: dict[str, Any]) -> None:
    parent = Parent()
    with pytest.raises((ValueError, KeyError, TypeError)):  # upon which the process is killed
        parent.take(**message)
    assert parent.ledger.asked == []


async def test_questions__are_bounded() -> None:
    parent = Parent()
    for number in range(100):
        parent.take(**what(), question=number)
    with pytest.raises(ValueError, match="too many questions"):
        parent.take(**what())
    parent.ledger.answers[0].set_exception(BrokerjobsError("no"))
    await asyncio.sleep(0)
    parent.take(**what())  # an answer makes room


def test_asking__waits_for_its_own_answer_from_any_thread(ends: Ends) -> None:
    with ends.threads() as pool:
        staged = pool.submit(ends.ledger.stage, UPLOAD)
        first = ends.heard()
        ready = pool.submit(ends.ledger.ready, artifacts.Uploaded(UPLOAD.id, HOLDING.attempt_id, 3, "f" * 64))
        second = ends.heard()
        assert (first["attempt"], second["attempt"]) == (ATTEMPT, ATTEMPT)
        assert first["stage"]["name"] == "sales.csv"
        ends.questions.answered({"question": second["question"], "said": {"verdict": "ready"}})
        assert ready.result(10) == artifacts.Ready(UPLOAD.id, "ready")
        assert not staged.done()
        ends.questions.answered({"question": 99, "said": {}})  # that nobody asked: it goes nowhere
        ends.questions.answered({
            "question": first["question"], "said": {"verdict": "lost", "reason": "newer_attempt", "path": None}
        })  # fmt: skip
        answer = staged.result(10)
    assert (answer.verdict, answer.reason, answer.id) == ("lost", "newer_attempt", UPLOAD.id)


def test_asking__raises_what_the_worker_refuses(ends: Ends) -> None:
    with ends.threads() as pool:
        staged = pool.submit(ends.ledger.stage, UPLOAD)
        ends.questions.answered({"question": ends.heard()["question"], "refused": "PermissionDenied: no"})
        with pytest.raises(BrokerjobsError, match="PermissionDenied: no"):
            staged.result(10)


def test_asking__ends_with_its_attempt_and_says_nothing_after_its_answer(ends: Ends) -> None:
    with ends.threads() as pool:
        staged = pool.submit(ends.ledger.stage, UPLOAD)
        number = ends.heard()["question"]
        ends.questions.end()
        with pytest.raises(BrokerjobsError, match="the handler has returned"):
            staged.result(10)
        ends.questions.answered({"question": number, "said": {"verdict": "staged"}})  # late: it goes nowhere
        with pytest.raises(BrokerjobsError, match="the handler has returned"):
            ends.ledger.stage(UPLOAD)
    ends.worker.setblocking(False)  # the socket's own signature
    with pytest.raises(BlockingIOError):
        ends.worker.recv(1)


def test_discard__is_said_and_waited_for_a_second_at_most(ends: Ends) -> None:
    ends.ledger.discard(artifacts.GivenUp(UPLOAD.id, HOLDING.attempt_id, "no more"))
    assert ends.heard()["discard"] == {"id": str(UPLOAD.id), "why": "no more"}


def test_fork__asks_nothing(ends: Ends) -> None:
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)  # it would wait for an answer
        try:
            ends.ledger.stage(UPLOAD)
        except BrokerjobsError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    ends.worker.setblocking(False)  # the socket's own signature
    with pytest.raises(BlockingIOError):
        ends.worker.recv(1)


def test_frames__of_several_threads_stay_whole(ends: Ends) -> None:
    line, text = Line(ends.process), "x" * 300_000  # more than the socket takes at once
    threads = [threading.Thread(target=line.say, args=({"n": n, "text": text},)) for n in range(8)]
    for thread in threads:
        thread.start()
    heard = [ends.heard() for _ in threads]
    for thread in threads:
        thread.join()
    assert sorted(one["n"] for one in heard) == list(range(8))
    assert {one["text"] for one in heard} == {text}


def test_running__hears_answers_and_goes_on_hearing_of_its_lease(ends: Ends) -> None:
    running = Running({"trusted_until": 1.0}, ends.questions)
    running.heard({"attempt": ATTEMPT, "question": 5, "said": {}})
    assert (running.stop, running.trusted_until) == (None, 1.0)
    running.heard({"attempt": ATTEMPT, "trusted_until": 2.0})
    running.heard({"attempt": ATTEMPT, "stop": "cancel"})
    assert (running.stop, running.trusted_until) == ("cancel", 2.0)
