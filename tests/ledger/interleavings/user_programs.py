"""Programs of the world around the ledger: time, relays, and users' own transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.ledger import ledger_caller
from tests.ledger.interleavings.programs import ASKED, COMPLETE, FAIL, Call, answered, asking
from tests.ledger.interleavings.scenes import Told
from tests.ledger.ledger_caller import RESULT

if TYPE_CHECKING:
    from tests.ledger.interleavings.scenes import Scene
    from tests.ledger.interleavings.sessions import Hand, Program, Steps
    from tests.ledger.ledger_rows import EventRow

LEASE: Final = 30.0  # seconds, of every type of the grounds
_PAY: Final = "insert into notes.payment values (%s, %s, %s)"


def lease_runs_out(*calls: Call) -> Program:
    """Time passes until the lease of the attempt in hand is over; then a coordinator does its round."""

    def program(hand: Hand) -> Steps:
        hand.scene.ledger.clock.advance(LEASE)
        return (yield from _then(hand, "the lease runs out", calls))

    return program


def deadline_passes(*calls: Call) -> Program:
    """Time passes until the job's deadline; then a coordinator does its round."""

    def program(hand: Hand) -> Steps:
        assert hand.scene.deadline is not None
        hand.scene.ledger.clock.set(hand.scene.deadline)
        return (yield from _then(hand, "the deadline passes", calls))

    return program


def _then(hand: Hand, word: str, calls: tuple[Call, ...]) -> Steps:
    for call in calls:
        yield word
        word = yield from asking(hand, call, in_one_step=True)
    return word


def probes(call: Call) -> Program:
    """A probe comes back; then the coordinator looks for what was lost."""

    def program(hand: Hand) -> Steps:
        hand.scene.probe_returns()
        return (yield from _then(hand, "a probe comes back", (call,)))

    return program


def relays(*, dies: bool = False, in_two_steps: bool = False) -> Program:
    """A relay takes what waits in the outbox, publishes it and marks it; or it dies before it marks.

    `in_two_steps`: nobody comes between its taking and its publishing, nor into its mark.
    """

    def program(hand: Hand) -> Steps:
        hand.begin()
        messages, _ = hand.caller.outbox_take()
        if not in_two_steps:
            yield f"takes {len(messages)}, not yet committed"
        hand.commit()
        if not hand.scene.loses_rings:
            hand.scene.broker += [m.job_id for m in messages if m.kind == "doorbell" and m.job_id is not None]
        if dies:
            return "publishes, and dies"
        yield f"publishes {len(messages)}"
        hand.begin(*(() if in_two_steps else (1,)))
        hand.caller.outbox_done(*(m.ticket for m in messages if m.ticket is not None))
        if not in_two_steps:
            yield "marks, not yet committed"
        hand.commit()
        return "commits its marks"

    return program


def pays(*, completes: bool = True, connection: str = "holds", then: str = "asks") -> Program:
    """A handler pays in its own transaction, which it ends with `complete_v1`, or with `fence_v1` alone.

    The connection holds, or is lost "before" the COMMIT takes effect or "after" it. Then its worker "asks" (lock, read;
    if nothing was reported it fails the attempt), as rule R7 says; or, in negative controls, "completes" as if nothing
    had been reported, or "pays again" in another transaction.
    """

    def program(hand: Hand) -> Steps:
        word = yield from _paying(hand, completes=completes, connection=connection)
        if connection == "holds":
            return word
        yield word
        if then == "completes":
            return (yield from asking(hand, COMPLETE))
        if then == "pays again":
            return (yield from _paying(hand, completes=completes, connection="holds"))
        word = yield from asking(hand, ASKED, in_one_step=True)
        if not word.endswith("not_reported"):
            return word
        yield word
        return (yield from asking(hand, FAIL))

    return program


def _paying(hand: Hand, *, completes: bool, connection: str) -> Steps:
    scene, name = hand.scene, "complete_v1" if completes else "fence_v1"
    scene.pays = scene.pays or completes
    hand.begin(1)
    hand.caller.sql(_PAY, scene.job, scene.held.attempt_id, "completed" if completes else "fenced")
    word, answer = answered(hand, lambda c, s: c.complete_v1(s.held, RESULT) if completes else c.fence_v1(s.held))
    if word.startswith("BJ"):
        hand.rollback()
        hand.tell(Told(hand.who, name, word, answer))
        return f"{name}: {word}, rolls back"
    if not completes and scene.ledger.rows.attempt(scene.held.attempt_id).closed_at is not None:
        scene.broken.append("a user's fenced transaction commits only while its attempt runs")
    yield f"{name}: {word}, not yet committed"
    if connection == "before":
        hand.rollback()
        return "the connection is lost before the COMMIT takes effect"
    hand.commit()
    hand.tell(Told(hand.who, name, word, answer))
    return f"{name}: commits" + (", and the reply is lost" if connection == "after" else "")


def replays() -> Program:
    """A person replays a failed job, once, whatever they are told."""

    def program(hand: Hand) -> Steps:
        request = ledger_caller.asking()
        replay = Call("replay", lambda c, s: c.replay(s.job, request=request)[0], stops=(2,))
        return (yield from asking(hand, replay))

    return program


def decides(decision: str, *, in_one_step: bool = False) -> Program:
    """A person reads a review, and then decides on what they have read."""

    def program(hand: Hand) -> Steps:
        scene, request = hand.scene, ledger_caller.asking()
        read = int(scene.ledger.operator.review(scene.job)["version"])
        yield "reads the review"
        resolve = Call(
            "resolve", lambda c, s: c.resolve(s.job, decision, version=read, request=request)["verdict"], stops=(1,)
        )
        word = yield from asking(hand, resolve, in_one_step=in_one_step)
        if scene.told[-1].word == "decided" and _last_before_decision(scene) != read:
            scene.broken.append("a decision is made on the record that was read")
        return word

    return program


def adopts() -> Program:
    """A person adopts the kept success of the attempt in hand."""

    def program(hand: Hand) -> Steps:
        request = ledger_caller.asking()
        return (yield from asking(hand, Call("adopt", lambda c, s: c.adopt(s.held, request)["verdict"])))

    return program


def _last_before_decision(scene: Scene) -> int:
    """The last event that a decision could have seen."""
    events = [one for one in scene.ledger.rows.events(scene.job) if one.kind != "duplicate_delivery"]
    (decided,) = [one.seq for one in events if one.kind == "review_decided"]
    return max(one.seq for one in events if one.seq < decided and not _is_of_decision(one))


def _is_of_decision(event: EventRow) -> bool:
    """What a decision says of effects is written before it."""
    return event.kind.startswith("effect_") and (event.detail or {}).get("by") == "review"
