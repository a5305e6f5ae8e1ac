"""What the tests of pairs share: where a job may stand, and the ledger's functions as words on one job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors
from uuid_utils.compat import uuid7

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

LOCKED: Final = "locked"
GAVE_UP: Final = "gave up waiting"


@dataclass(frozen=True, slots=True)
class Scene:
    """One job, the attempt that was made of it, and the id of one that may be made."""

    ledger: Ledger
    job: UUID
    holding: Holding
    next_attempt: UUID


# The grounds: where a job may stand when the first function is called.


def running(ledger: Ledger) -> Scene:
    job = ledger.submit("once", rung=True)
    return Scene(ledger, job, ledger.worker.take(job), uuid7())


def over(ledger: Ledger) -> Scene:
    scene = replace(running(ledger), job=(job := ledger.submit(rung=True)), holding=ledger.worker.take(job))
    ledger.clock.advance(30)
    return scene


def waiting(ledger: Ledger) -> Scene:
    """Lost; the time of the next try has come, and nobody has been there yet."""
    scene = over(ledger)
    until = ledger.coordinator.expire()[scene.job].until
    assert until is not None
    ledger.clock.set(max(until, ledger.clock.now))
    return scene


def rung(ledger: Ledger) -> Scene:
    scene = waiting(ledger)
    ledger.coordinator.due()
    return scene


def review(ledger: Ledger) -> Scene:
    scene = running(ledger)
    ledger.worker.start(scene.holding)
    ledger.lose(scene.holding)
    return scene


# The functions, each answering with one word; a raised error is its word.


def _words(call: Callable[[Caller, Scene], Any]) -> Callable[[Caller, Scene], str]:
    def called(caller: Caller, scene: Scene) -> str:
        try:
            return str(call(caller, scene))
        except errors.LockNotAvailable:
            return GAVE_UP
        except psycopg.DatabaseError as error:
            if error.sqlstate is None or not error.sqlstate.startswith("BJ"):
                raise
            return error.sqlstate

    return called


FUNCTIONS: Final[dict[str, Callable[[Caller, Scene], str]]] = {
    "claim": _words(lambda c, s: c.claim(s.job, s.next_attempt).verdict),
    "start": _words(lambda c, s: c.start(s.holding)),
    "renew": _words(lambda c, s: c.renew(s.holding).verdict),
    "complete": _words(lambda c, s: c.complete(s.holding).verdict),
    "fail": _words(lambda c, s: c.fail(s.holding).verdict),
    "release": _words(lambda c, s: c.release(s.holding).verdict),
    "asked": _words(lambda c, s: c.asked(s.holding).verdict),
    "expire": _words(lambda c, s: "gave up" if s.job in c.expire() else "passed over"),
    "due": _words(lambda c, s: "ended" if s.job in c.due() else "passed over"),
    "hand_back": _words(lambda c, s: c.hand_back(s.job)),
    "cancel": _words(lambda c, s: c.cancel(s.job).verdict),
    "fence_v1": _words(lambda c, s: c.fence_v1(s.holding)),
    "complete_v1": _words(lambda c, s: c.complete_v1(s.holding)),
}
ROLE: Final = {"expire": "coordinator", "due": "coordinator", "cancel": "producer"}
WAITING: Final = ("cancel", "fence_v1", "complete_v1")
