"""Triples of jobs that need the same exclusive resource: who takes it, whose result counts, who is rung."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from uuid_utils.compat import uuid7

from brokerjobs import needs
from tests.ledger.interleavings.explorer import Part, Triple
from tests.ledger.interleavings.programs import COMPLETE, DUE, EXPIRE, Call, asking, does
from tests.ledger.interleavings.scenes import Scene
from tests.ledger.interleavings.user_programs import LEASE, pays, relays
from tests.ledger.ledger_caller import new_job

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.interleavings.sessions import Hand, Program, Steps
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger


def _needing(ledger: Ledger, *names: str) -> UUID:
    job = replace(new_job(), needs=[needs.exclusive(name) for name in names])
    return ledger.submit_all([job])[0].id


def held_and_over(ledger: Ledger) -> Scene:
    """An attempt holds the resource, its lease is over, and nobody has been there yet; another job wants it."""
    scene = _held(ledger)
    scene.others.append(_needing(ledger, "x"))
    scene.relay()
    ledger.clock.advance(LEASE)
    return scene


def free_and_wanted(ledger: Ledger) -> Scene:
    """The holder is lost; one who stood in the line is rung, another stands behind, and a newcomer is rung, too."""
    scene = _line(ledger)
    newcomer = _needing(ledger, "x")
    ledger.lose(scene.held)
    scene.relay()
    scene.others.append(newcomer)
    return scene


def held_and_wanted(ledger: Ledger) -> Scene:
    """An attempt holds the resource, and two stand in the line."""
    return _line(ledger)


def held_and_wanted_by_the_unlucky(ledger: Ledger) -> Scene:
    """The same, and the broker will lose the doorbell of the first; it is the other that is looked at."""
    scene = replace(_line(ledger), loses_rings=True)
    scene.others.reverse()
    return scene


def crossed(ledger: Ledger) -> Scene:
    """Two jobs need the same two resources, and name them in different orders; two others need nothing."""
    scene = Scene(ledger, _needing(ledger, "x", "y"))
    scene.others += [_needing(ledger, "y", "x"), ledger.submit(), ledger.submit()]
    scene.relay()
    return scene


def _held(ledger: Ledger) -> Scene:
    scene = Scene(ledger, _needing(ledger, "x"))
    scene.relay()
    scene.broker.clear()
    scene.holding = ledger.worker.take(scene.job)
    return scene


def _line(ledger: Ledger) -> Scene:
    scene = _held(ledger)
    for _ in range(2):
        job = _needing(ledger, "x")
        scene.relay()
        scene.broker.clear()
        assert ledger.worker.claim(job).verdict == "not_due"
        scene.others.append(job)
        ledger.clock.advance(1)
    return scene


def claims_other(which: int, *, in_one_step: bool = False) -> Program:
    """A worker claims another job of the scene."""

    def program(hand: Hand) -> Steps:
        attempt = uuid7()
        call = Call("claim", lambda caller, scene: caller.claim(scene.others[which], attempt))
        return (yield from asking(hand, call, in_one_step=in_one_step))

    return program


def claims_both(*which: int) -> Program:
    """A worker claims two jobs of the scene in one batch."""

    def ask(caller: Caller, scene: Scene) -> str:
        answers = caller.claim_all([(scene.jobs[one], uuid7()) for one in which])
        return "locked" if all(a.verdict == "locked" for a in answers) else " ".join(a.verdict for a in answers)

    return does(Call("claims", ask, stops=(1, 2)), in_one_step=True)


def cancels_other(which: int, *, in_one_step: bool = False) -> Program:
    """A person cancels another job of the scene."""
    call: Any = Call("cancel of a waiter", lambda caller, scene: caller.cancel(scene.others[which]))
    return does(call, in_one_step=in_one_step)


_REAPER: Final = Part("reaper", "coordinator", does(EXPIRE, in_one_step=True))
_HOLDER: Final = Part("holder", "worker", does(COMPLETE))
_FORMER_HOLDER: Final = Part("former holder", "worker", does(COMPLETE, in_one_step=True))
_SCHEDULER: Final = Part("scheduler", "coordinator", does(replace(DUE, stops=(2,)), in_one_step=True))

TRIPLES: Final = (
    Triple(
        "late complete of a holder, expire, claim of another job",
        held_and_over,
        (_HOLDER, _REAPER, Part("another worker", "worker", claims_other(0))),
    ),
    Triple(
        "late complete_v1 of a holder, expire, claim of another job",
        held_and_over,
        (
            Part("handler", "worker", pays(), waits=True),
            _REAPER,
            Part("another worker", "worker", claims_other(0)),
        ),
    ),
    Triple(
        "late complete of a former holder, claim of the next, claim of a newcomer",
        free_and_wanted,
        (
            _FORMER_HOLDER,
            Part("another worker", "worker", claims_other(0, in_one_step=True)),
            Part("third worker", "worker", claims_other(2)),
        ),
    ),
    Triple(
        "complete of a holder, cancel of the next, due",
        held_and_wanted,
        (_HOLDER, Part("person", "producer", cancels_other(0), waits=True), _SCHEDULER),
    ),
    Triple(
        "complete of a holder, relay whose message is lost, due",
        held_and_wanted_by_the_unlucky,
        (
            _HOLDER,
            Part("relay", "coordinator", relays(in_two_steps=True)),
            _SCHEDULER,
        ),
    ),
    Triple(
        "cancel of the next, claim of the next, late complete of a former holder",
        free_and_wanted,
        (
            Part("person", "producer", cancels_other(0, in_one_step=True), waits=True),
            Part("another worker", "worker", claims_other(0, in_one_step=True)),
            _FORMER_HOLDER,
        ),
    ),
    Triple(
        "claims of two jobs, claims of two others with crossed resources, due",
        crossed,
        (
            Part("worker", "worker", claims_both(0, 2)),
            Part("another worker", "worker", claims_both(1, 3)),
            _SCHEDULER,
        ),
    ),
)
