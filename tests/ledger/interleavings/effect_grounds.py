"""Where a scene about effects may begin: who was permitted what, whether the call arrived, and who knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ledger.effects import Effects
from tests.ledger.interleavings import grounds
from tests.ledger.interleavings.effect_programs import LIMIT
from tests.ledger.ledger_caller import TEMPORARY

if TYPE_CHECKING:
    from tests.ledger.interleavings.scenes import Scene
    from tests.ledger.ledger_driver import Ledger

KEY_IS_KNOWN = 60.0  # seconds for which the outside knows a key, where it forgets


def permitted(ledger: Ledger) -> Scene:
    """The running attempt was permitted an effect that may not be repeated, and the call has arrived."""
    return _permitted(grounds.running(ledger))


def permitted_over(ledger: Ledger) -> Scene:
    """The same, its lease over, and nobody has been there yet."""
    return _over(permitted(ledger))


def permitted_with_deadline(ledger: Ledger) -> Scene:
    """The same as the first, and its job has a deadline, before the end of the lease."""
    return _permitted(grounds.with_deadline(ledger))


def unknown(ledger: Ledger) -> Scene:
    """The attempt was lost between its call and its outcome: in review."""
    scene = permitted_over(ledger)
    ledger.coordinator.expire()
    return scene


def unknown_once(ledger: Ledger) -> Scene:
    """The same of a started attempt of a type that is not repeatable."""
    scene = _over(_permitted(grounds.started_once(ledger)))
    ledger.coordinator.expire()
    return scene


def two_unknown(ledger: Ledger) -> Scene:
    """The attempt was lost between the calls of two effects and their outcomes: in review."""
    scene = permitted(ledger)
    Effects(ledger.worker).grant(scene.held, "mail", limit=LIMIT)
    _over(scene)
    ledger.coordinator.expire()
    return scene


def asked_about(ledger: Ledger) -> Scene:
    """A reconciler has taken up the review of an attempt that was lost between its call and its outcome."""
    scene = unknown(ledger)
    (scene.reviewing,) = Effects(ledger.worker).ask("work")
    return scene


def under_way(ledger: Ledger) -> Scene:
    """The attempt has failed at once, with its call still under way: in review."""
    scene = grounds.running(ledger)
    Effects(ledger.worker).grant(scene.held, limit=LIMIT)
    ledger.worker.fail(scene.held, TEMPORARY)
    return scene


def one_key_for_two(ledger: Ledger) -> Scene:
    """An effect that may be repeated: permitted to a lost attempt, which never called, and to the next, which did."""
    scene = _repeatable(ledger, called=False)
    second = ledger.worker.take(scene.job)
    scene.other_holdings.append(second)
    scene.outside.call(Effects(ledger.worker).grant(second, repeatable=True).key or "", ledger.clock.now)
    return scene


def key_of_a_while(ledger: Ledger) -> Scene:
    """An effect that may be repeated for a while: permitted to a lost attempt, which called."""
    return _repeatable(ledger, called=True, valid_for=KEY_IS_KNOWN)


def tried_twice(ledger: Ledger) -> Scene:
    """A person said that the lost attempt's call did not happen, and so did the next attempt of its own; it did."""
    scene = unknown(ledger)
    ledger.operator.resolve(scene.job, "retry")
    second = ledger.worker.take(scene.job)
    effects = Effects(ledger.worker)
    effects.did_not_happen(second, try_=effects.grant(second).try_ or 0)
    ledger.worker.fail(second, TEMPORARY)
    ledger.coordinator.due()
    return scene


def given_up(ledger: Ledger) -> Scene:
    """A person gave up the review: failed, and still unknown."""
    scene = unknown(ledger)
    ledger.operator.resolve(scene.job, "give_up")
    return scene


def given_up_and_replayed(ledger: Ledger) -> Scene:
    """And it was replayed."""
    scene = given_up(ledger)
    ledger.operator.replay(scene.job)
    return scene


def given_up_with_a_kept_success(ledger: Ledger) -> Scene:
    """A person gave up the review, and then the attempt's success came: rejected, and kept."""
    scene = given_up(ledger)
    assert ledger.worker.complete(scene.held).verdict == "rejected"
    return scene


def _permitted(scene: Scene) -> Scene:
    granted = Effects(scene.ledger.worker).grant(scene.held, limit=LIMIT)
    scene.outside.call(granted.key or "", scene.ledger.clock.now)
    return scene


def _repeatable(ledger: Ledger, *, called: bool, valid_for: float | None = None) -> Scene:
    scene = grounds.running(ledger)
    scene.outside.remembers = 1e6 if valid_for is None else valid_for
    granted = Effects(ledger.worker).grant(scene.held, repeatable=True, valid_for=valid_for, limit=LIMIT)
    if called:
        scene.outside.call(granted.key or "", ledger.clock.now)
    _over(scene)
    ledger.coordinator.expire()
    ledger.coordinator.due()
    return scene


def _over(scene: Scene) -> Scene:
    scene.ledger.clock.advance(30)
    return scene
