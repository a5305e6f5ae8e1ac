"""Artifacts: what a late result names, what the sweeper is given and what consumers say, on one object's row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.ledger.interleavings import grounds
from tests.ledger.interleavings.explorer import Part, Triple
from tests.ledger.interleavings.programs import Call, claims, does
from tests.ledger.interleavings.user_programs import adopts, replays
from tests.ledger.staging import Staging, named

if TYPE_CHECKING:
    from brokerjobs.ledger.artifacts import Said
    from tests.ledger.interleavings.scenes import Scene
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger


def _given(caller: Caller, scene: Scene) -> str:
    """What a sweeper whose limits are all over is given."""
    rows = caller.sql(
        "select why from brokerjobs.artifacts_to_remove(%s, '0', '0', '0', 10)", Staging(scene.ledger).store
    )
    return ", ".join(f"is given it, {why}" for (why,) in rows) or "is given nothing"


def _completes(caller: Caller, scene: Scene) -> Any:
    return caller.complete(scene.held, named(scene.staged))


def _acknowledges(copied_to: str) -> Call:
    def ask(caller: Caller, scene: Scene) -> Said:
        return Staging(scene.ledger).acknowledge(scene.staged, copied_to=copied_to, caller=caller)

    return Call("acknowledge", ask)


# The first look chooses what to look at, the second is before the job's row is taken, the third holds both rows.
_SWEEP: Final = Call("sweep", _given, stops=(2, 3))
_COMPLETE: Final = Call("complete", _completes, repeats=True)
_READY: Final = Call("ready", lambda c, s: Staging(s.ledger).ready(s.staged, s.held, caller=c))
_SWEEPER: Final = Part("sweeper", "coordinator", does(_SWEEP))
_CLAIMER: Final = Part("another worker", "worker", claims(in_one_step=True))


# Grounds.


def _rung_with(ledger: Ledger, *, ready: bool) -> Scene:
    """An attempt runs and stages, is lost, and anybody may claim its job; its worker knows nothing of that."""
    scene = grounds.running(ledger)
    staging = Staging(ledger)
    scene.artifact = staging.put(scene.held) if ready else staging.begun(scene.held)
    scene.was_ready = ready
    ledger.clock.advance(30)
    until = ledger.coordinator.expire()[scene.job].until
    assert until is not None
    ledger.clock.set(max(until, ledger.clock.now))
    ledger.coordinator.due()
    return scene


def rung_with_an_output(ledger: Ledger) -> Scene:
    """A late success would be accepted."""
    return _rung_with(ledger, ready=True)


def rung_with_an_upload(ledger: Ledger) -> Scene:
    """The same, and the upload is whole and nobody has said so yet."""
    return _rung_with(ledger, ready=False)


def handed_over(ledger: Ledger) -> Scene:
    """The artifact is part of its job's result, and its time limit is over."""
    scene = grounds.running(ledger)
    scene.artifact = Staging(ledger).put(scene.held, keep_for=0.0)
    ledger.worker.complete(scene.held, named(scene.artifact))
    return scene


def failed_with_a_kept_success(ledger: Ledger) -> Scene:
    """The last attempt was lost, its job has failed, and then its success came, which names an artifact."""
    scene = grounds.running_last(ledger)
    scene.artifact = Staging(ledger).put(scene.held)
    grounds.exhausted(scene)
    ledger.coordinator.due()
    assert ledger.worker.complete(scene.held, named(scene.staged)).verdict == "rejected"
    return scene


TRIPLES: Final = (
    Triple(
        "late complete with an artifact, claim, sweep",
        rung_with_an_output,
        (Part("worker", "worker", does(_COMPLETE)), _CLAIMER, _SWEEPER),
    ),
    Triple(
        "ready and late complete, claim, sweep",
        rung_with_an_upload,
        (
            # Nobody but a tick of the sweeper holds an upload: it is waited for.
            Part("worker", "worker", does(_READY, _COMPLETE, in_one_step=True), waits=True),
            _CLAIMER,
            _SWEEPER,
        ),
    ),
    Triple(
        "acknowledge, acknowledge by another, sweep",
        handed_over,
        (
            Part("consumer", "producer", does(_acknowledges("/archive/1")), waits=True),
            Part("another consumer", "producer", does(_acknowledges("/archive/2")), waits=True),
            _SWEEPER,
        ),
    ),
    Triple(
        "adopt with an artifact, replay, sweep",
        failed_with_a_kept_success,
        (
            Part("person", "operator", adopts(), waits=True),
            Part("another person", "operator", replays()),
            _SWEEPER,
        ),
    ),
)
