"""What sessions do: the ledger's calls as programs, each `yield` a place where others may go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import psycopg
from uuid_utils.compat import uuid7

from tests.ledger.interleavings.scenes import Told
from tests.ledger.interleavings.sessions import BUSY
from tests.ledger.ledger_caller import TEMPORARY, holding_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.ledger.interleavings.scenes import Scene
    from tests.ledger.interleavings.sessions import Hand, Program, Steps
    from tests.ledger.ledger_caller import Caller

    Ask = Callable[[Caller, Scene], Any]

# No answer: ask again. `key_in_flight` is also said of a key that was forgotten just then: that waits for nobody.
NO_ANSWER: Final = {"locked": BUSY, "again": BUSY, "key_in_flight": "the key is in flight, asks again"}
ACCEPTED: Final = frozenset({"accepted", "True", "False"})  # the last two are what `complete_v1` answers
UNSAFE: Final = {**TEMPORARY, "class": "unsafe"}
OTHERWISE: Final = {"done": "otherwise"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the ledger: asked again until it is answered."""

    name: str
    ask: Ask
    stops: tuple[int, ...] = (1,)  # which of its looks at the clock are gated; mostly the first, after its lock
    repeats: bool = False  # asked again with the same ids it must answer the same


def reconciled(caller: Caller) -> int:
    """Rings again what was lost before the probes that came back; answers how many."""
    rows = caller.sql(
        "select rung from brokerjobs.reconcile('tester', '{}', null, 100, 100, '10 minutes', '0') where kind = 'walk'"
    )
    return int(rows[0][0])


def answered(hand: Hand, ask: Ask) -> tuple[str, Any]:
    """One word, and the whole answer. What `fence_v1` and `complete_v1` raise to end the transaction are words too."""
    try:
        answer = ask(hand.caller, hand.scene)
    except psycopg.DatabaseError as error:
        if error.sqlstate not in {"BJ002", "BJ003"}:
            raise
        return error.sqlstate, None
    word, scene = str(getattr(answer, "verdict", answer)), hand.scene
    # Nobody else acts between the last look at the clock and the answer.
    if word in ACCEPTED and scene.deadline is not None and scene.deadline <= scene.ledger.clock.now:
        scene.broken.append("no result is accepted once the deadline has passed")
    return word, answer


def asking(hand: Hand, call: Call, *, in_one_step: bool = False, dies: bool = False) -> Steps:
    """Makes a call in a transaction of its own; others may come before its decision, and before its COMMIT.

    `dies`: the connection is lost before its COMMIT takes effect.
    """
    while True:
        hand.begin(*call.stops)
        word, answer = answered(hand, call.ask)
        if word not in NO_ANSWER:
            break
        hand.commit()
        yield NO_ANSWER[word]
    if not in_one_step:
        yield f"{call.name}: {word}, not yet committed"
    if dies:
        hand.rollback()
        return f"{call.name}: the connection is lost"
    hand.commit()
    hand.tell(Told(hand.who, call.name, word, answer, call.ask if call.repeats else None))
    return f"{call.name}: {word}" if in_one_step else f"{call.name}: commits"


def does(*calls: Call, in_one_step: bool = False) -> Program:
    """The program that makes these calls, one after the other."""

    def program(hand: Hand) -> Steps:
        *before, last = calls
        for call in before:
            yield (yield from asking(hand, call, in_one_step=in_one_step))
        return (yield from asking(hand, last, in_one_step=in_one_step))

    return program


def claiming(attempt: UUID) -> Call:
    """A claim for an attempt whose id was made before it asks (rule R7)."""
    return Call("claim", lambda caller, scene: caller.claim(scene.job, attempt), repeats=True)


def claims(*, dies: bool = False, in_one_step: bool = False) -> Program:
    """A worker claims the job for a redelivery, with an attempt of its own."""

    def program(hand: Hand) -> Steps:
        return (yield from asking(hand, claiming(uuid7()), dies=dies, in_one_step=in_one_step))

    return program


def claims_again() -> Program:
    """The reply to the claim of the attempt in hand was lost: its worker asks again, with the same id."""

    def program(hand: Hand) -> Steps:
        return (yield from asking(hand, claiming(hand.scene.held.attempt_id)))

    return program


def claims_and_releases(*, for_doorbell: bool = False) -> Program:
    """A worker claims the job, for a doorbell that it waits for or a redelivery, and gives it back as a drain does."""

    def program(hand: Hand) -> Steps:
        while for_doorbell and not hand.scene.broker:
            yield BUSY
        if for_doorbell:
            hand.scene.broker.pop(0)
        word = yield from asking(hand, claiming(uuid7()))
        answer = hand.scene.told[-1].answer
        if answer.verdict != "granted":
            return word
        yield word
        return (yield from asking(hand, Call("gives back", lambda caller, _: caller.release(holding_of(answer)))))

    return program


START: Final = Call("start", lambda c, s: c.start(s.held))
RENEW: Final = Call("renew", lambda c, s: c.renew(s.held).verdict)
COMPLETE: Final = Call("complete", lambda c, s: c.complete(s.held), repeats=True)
COMPLETE_OTHERWISE: Final = Call("complete", lambda c, s: c.complete(s.held, OTHERWISE), repeats=True)
FAIL: Final = Call("fail", lambda c, s: c.fail(s.held), repeats=True)
FAIL_UNSAFE: Final = Call("fail", lambda c, s: c.fail(s.held, UNSAFE), repeats=True)
RELEASE: Final = Call("release", lambda c, s: c.release(s.held), repeats=True)
ASKED: Final = Call("asked", lambda c, s: c.asked(s.held), stops=())
CANCEL: Final = Call("cancel", lambda c, s: c.cancel(s.job))
# Two looks while it searches for rows that it then tries to lock; the third comes after the lock.
EXPIRE: Final = Call("expire", lambda c, s: "gave up" if s.job in c.expire() else "passed over", stops=(3,))
SEARCH_AND_EXPIRE: Final = replace(EXPIRE, stops=(2, 3))
DUE: Final = Call("due", lambda c, s: c.due().get(s.job, "passed over"), stops=(2,))
SEARCH_AND_DUE: Final = replace(DUE, stops=(1, 2))
RECONCILE: Final = Call("reconcile", lambda c, _: f"rings {reconciled(c)}", stops=())
HAND_BACK: Final = Call("hand_back", lambda c, s: c.hand_back(s.job), stops=())
