"""Triples of a paused type: a claim that read the pause parks the job while a person resumes the type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from brokerjobs.ledger import pauses
from brokerjobs.ledger.decisions import Request
from tests.ledger.interleavings.explorer import Part, Triple
from tests.ledger.interleavings.programs import CANCEL, DUE, Call, asking, claims, does
from tests.ledger.interleavings.scenes import Scene

if TYPE_CHECKING:
    from tests.ledger.interleavings.sessions import Hand, Program, Steps
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger


def _request() -> Request:
    return Request(id=uuid4(), by="ann", reason="the bank is away")


def paused(ledger: Ledger) -> Scene:
    """A worker has the job's only doorbell, and its type is paused."""
    scene = Scene(ledger, ledger.submit(rung=True))
    ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, "work", _request()))
    return scene


def parked(ledger: Ledger) -> Scene:
    """A worker was rung, and the job is parked."""
    scene = paused(ledger)
    ledger.worker.claim(scene.job)
    return scene


def resumes() -> Program:
    """A person resumes the type, and rings what is parked by then."""
    request = _request()

    def resume(caller: Caller, scene: Scene) -> str:
        query = pauses.resume_type(scene.ledger.place.namespace, "work", request)
        return str(caller.fetch(query)[0].answer["verdict"])

    def unpark(caller: Caller, scene: Scene) -> str:
        return f"rings {caller.fetch(pauses.unpark(scene.ledger.place.namespace, 'work', 100))[0].rung}"

    def program(hand: Hand) -> Steps:
        yield (yield from asking(hand, Call("resume", resume, stops=())))
        return (yield from asking(hand, Call("unpark", unpark)))

    return program


_RESUMES: Final = Part("person", "operator", resumes(), waits=True)
_CANCELS: Final = Part("another person", "producer", does(CANCEL), waits=True)

TRIPLES: Final = (
    Triple(
        "claim of a paused type, resume, another claim",
        paused,
        (Part("worker", "worker", claims()), _RESUMES, Part("another worker", "worker", claims(in_one_step=True))),
    ),
    Triple(
        "resume, due, cancel of a parked job",
        parked,
        (_RESUMES, Part("scheduler", "coordinator", does(DUE, in_one_step=True)), _CANCELS),
    ),
)
