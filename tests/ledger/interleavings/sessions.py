"""A session: one process with connections of its own, which does its program step by step as it is told to."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

    from tests.ledger.interleavings.gates import Gates
    from tests.ledger.interleavings.scenes import Scene, Told
    from tests.ledger.ledger_caller import Caller

# What a program says when it could do nothing: another session holds what it needs, and it asks again once that ended.
BUSY: Final = "busy, asks again later"
AT_DOOR: Final = "stops before it decides"
# A step takes milliseconds; a machine that is busy with other things may take its time.
_PATIENCE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.0005


@dataclass(slots=True)
class Hand:
    """What a program acts with: the caller of its role, in transactions whose looks at the clock may be gated."""

    who: str
    caller: Caller
    scene: Scene
    gates: Gates
    pid: int = 0

    def begin(self, *stops: int) -> None:
        """Opens a transaction that stops at these looks at the ledger's clock, counted from one."""
        self.caller.begin()
        ((*_, self.pid),) = self.caller.sql(
            "select set_config('gates.stops', %s, true), set_config('gates.looks', '0', true),"
            " set_config('gates.door', '0', true), pg_backend_pid()",
            " ".join(map(str, stops)),
        )
        self.gates.shut(self.pid)

    def tell(self, told: Told) -> None:
        """Keeps what a committed call was answered, for the promises."""
        self.scene.told.append(told)

    def commit(self) -> None:
        """Commits it."""
        self.caller.commit()

    def rollback(self) -> None:
        """Rolls it back: the process died, or lost its connection before the COMMIT arrived."""
        self.caller.rollback()


# Each word that it yields is a place where others may go on; the word that it returns is its last.
Steps = Generator[str, None, str]
if TYPE_CHECKING:
    Program = Callable[[Hand], Steps]


class Status(Enum):
    """Where a session stands between two steps."""

    READY = auto()
    BUSY = auto()  # asks again once another session's transaction has ended
    GATED = auto()  # stands at a door, with its locks
    BLOCKED = auto()  # waits for another session's lock
    ENDED = auto()


@dataclass(slots=True)
class Session:
    """One session of an interleaving."""

    name: str
    hand: Hand
    steps: Steps
    thread: ThreadPoolExecutor
    status: Status = Status.READY
    said: list[str] = field(default_factory=list[str])  # what its last step came to; taken by the explorer
    waited_for: set[int] = field(default_factory=set[int])
    failure: psycopg.Error | None = None
    _running: Future[str] | None = None

    @property
    def enabled(self) -> bool:
        """Whether it can take a step."""
        return self.status in {Status.READY, Status.BUSY, Status.GATED}

    @property
    def in_transaction(self) -> bool:
        """Whether it holds locks, or may."""
        connection = self.hand.caller.connection
        return self._running is not None or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def step(self) -> None:
        """Goes on to the next place where it stops."""
        if self.status is Status.GATED:
            door = self.hand.gates.open(self.hand.pid)
            self.settle(gone_through=door)
            return
        self._running = self.thread.submit(self._next)
        self.settle()

    def settle(self, gone_through: int | None = None) -> None:
        """Waits until it has stopped: its step is over, or it stands at a door, or it waits for another session."""
        assert self._running is not None
        gates, end = self.hand.gates, time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                word = self._running.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                holders = gates.held_up_by(self.hand.caller)
                if not holders:
                    assert time.monotonic() < end, (
                        f"{self.name} neither goes on nor waits: {gates.doing(self.hand.pid)}"
                    )
                    continue
                at_door = gates.keeper_pid in holders
                if at_door or self.status is not Status.BLOCKED:
                    self.said.append(AT_DOOR if at_door else "waits")
                self.waited_for |= holders - {gates.keeper_pid}
                self.status = Status.GATED if at_door else Status.BLOCKED
            except psycopg.Error as error:
                self.failure = error
                self.status = Status.ENDED
                self._ended(f"fails: {type(error).__name__} {error.sqlstate}")
            else:
                self._ended(word)
            break
        if gone_through is not None:
            gates.shut_again(self.hand.pid, gone_through)

    def abandon(self) -> None:
        """Brings its thread and its connection back, whatever it is in."""
        if self._running is not None:
            self.hand.gates.let_go(self.hand.caller)
            self._running.exception(timeout=_PATIENCE_SECONDS)
        self.thread.submit(self.steps.close).result(timeout=_PATIENCE_SECONDS)
        if self.in_transaction:
            self.hand.rollback()

    def _next(self) -> str:
        try:
            return next(self.steps)
        except StopIteration as end:
            self.status = Status.ENDED
            return str(end.value)

    def _ended(self, word: str) -> None:
        self._running = None
        self.said.append(word)
        if self.status is not Status.ENDED:
            self.status = Status.BUSY if word == BUSY else Status.READY
