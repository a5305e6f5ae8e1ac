"""What sessions do about effects: ask for permission, call, say what became of it, ask the outside, decide about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from uuid_utils.compat import uuid7

from tests.ledger.effects import Effects
from tests.ledger.interleavings.programs import UNSAFE, Call, asking, claiming
from tests.ledger.ledger_caller import asking as requesting
from tests.ledger.ledger_caller import holding_of

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.interleavings.scenes import Scene
    from tests.ledger.interleavings.sessions import Hand, Program, Steps
    from tests.ledger.ledger_caller import Caller

LIMIT: Final = 10.0  # seconds, of every call
UNKNOWN: Final = {**UNSAFE, "type": "EffectUnknown", "message": "nobody knows whether it happened"}

HAPPENED: Final = Call("outcome", lambda c, s: Effects(c).happened(s.held), repeats=True)
HAPPENED_OTHERWISE: Final = Call("outcome", lambda c, s: Effects(c).happened(s.held, "another receipt"), repeats=True)
MAIL_HAPPENED: Final = Call("outcome", lambda c, s: Effects(c).happened(s.held, name="mail"), repeats=True)
DID_NOT_HAPPEN: Final = Call("outcome", lambda c, s: Effects(c).did_not_happen(s.held), repeats=True)
SECOND_HAPPENED: Final = Call("outcome", lambda c, s: Effects(c).happened(s.other_holdings[0]), repeats=True)


def at_once(call: Call) -> Call:
    """The call without a stop between its lock and its decision."""
    return replace(call, stops=())


def does_effect() -> Program:
    """The attempt in hand asks for permission; others may come; then it calls, says so and returns."""

    def program(hand: Hand) -> Steps:
        return (yield from _effect(hand, hand.scene.held, (False, None), in_one_step=False))

    return program


def claims_and_does_effect(
    *, repeatable: bool = False, valid_for: float | None = None, after: float = 0.0, in_one_step: bool = True
) -> Program:
    """Another worker claims the job, once so many seconds have passed, and does the effect."""

    def program(hand: Hand) -> Steps:
        if after:
            hand.scene.ledger.clock.advance(after)
            yield f"{after:g} s pass"
        word = yield from asking(hand, at_once(claiming(uuid7())), in_one_step=True)
        answer = hand.scene.told[-1].answer
        if answer.verdict != "granted":
            return word
        if not in_one_step:
            yield word
        return (yield from _effect(hand, holding_of(answer), (repeatable, valid_for), in_one_step=True))

    return program


def _effect(hand: Hand, holding: Holding, terms: tuple[bool, float | None], *, in_one_step: bool) -> Steps:
    scene = hand.scene

    def intend(caller: Caller, _: Scene) -> Any:
        return Effects(caller).intend(holding, repeatable=terms[0], valid_for=terms[1], limit=LIMIT)

    asked = Call("intent", intend, stops=() if in_one_step else (1,))
    words = [(yield from asking(hand, asked, in_one_step=True))]
    granted = scene.told[-1].answer
    if granted.verdict == "lost":
        return words[0]
    if granted.verdict == "unknown":
        fails = Call("its failure", lambda c, _: c.fail(holding, UNKNOWN), (), repeats=True)
        return "; ".join([*words, (yield from asking(hand, fails, in_one_step=True))])
    if granted.verdict == "granted":
        if not in_one_step:
            yield words.pop()
        scene.outside.call(granted.key, scene.ledger.clock.now)
        said = Call("outcome", lambda c, _: Effects(c).happened(holding, try_=granted.try_), (), repeats=True)
        words += ["calls the outside", (yield from asking(hand, said, in_one_step=True))]
    mine = holding is scene.holding
    result = Call("complete" if mine else "its result", lambda c, _: c.complete(holding), (), repeats=True)
    return "; ".join([*words, (yield from asking(hand, result, in_one_step=True))])


def calls() -> Program:
    """The call of the attempt in hand, which was permitted, arrives within its time limit; its worker says no more."""

    def program(hand: Hand) -> Steps:
        scene = hand.scene
        yield from ()
        if scene.age >= LIMIT:
            return "the call was given up at its time limit"
        scene.outside.call("", scene.ledger.clock.now)
        return "the call arrives"

    return program


def reconciles() -> Program:
    """A reconciler takes the review up, looks at the outside, and says what it found."""

    def program(hand: Hand) -> Steps:
        reviews = Effects(hand.caller).ask("work", "once")
        if not reviews:
            return "has nothing to ask about"
        yield "takes the review up"
        happened = hand.scene.outside.done > 0
        yield f"sees that it {'happened' if happened else 'did not happen'}"
        return (yield from _finding(hand, reviews[0], happened=happened, stops=()))

    return program


def finds(*, happened: bool) -> Program:
    """A reconciler that had taken the review up says what it found."""

    def program(hand: Hand) -> Steps:
        return (yield from _finding(hand, hand.scene.reviewing, happened=happened, stops=(1,)))

    return program


def _finding(hand: Hand, review: Any, *, happened: bool, stops: tuple[int, ...]) -> Steps:
    finding = {"as": "happened", "result": 1, "reference": "psp 7"} if happened else {"as": "did_not_happen"}
    found = Call("found", lambda c, _: Effects(c).found(review, **finding), stops)
    return (yield from asking(hand, found, in_one_step=True))


def discards() -> Program:
    """A person takes a failed job out of the list of the dead."""

    def program(hand: Hand) -> Steps:
        request = requesting()
        return (yield from asking(hand, Call("discard", lambda c, s: c.discard(s.job, request=request)[0])))

    return program
