"""Where a scene may begin: one job, and how it came there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tests.ledger.interleavings.scenes import Scene
from tests.ledger.ledger_caller import new_job

if TYPE_CHECKING:
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

KEY: Final = "order-1"
_LONG_AGO: Final = 2 * 3600.0  # seconds, past the shortest horizons that retention knows


def retain_jobs(caller: Caller) -> int:
    """Removes finished jobs past their horizon; answers how many."""
    ((jobs, _),) = caller.sql("select * from brokerjobs.retain_jobs('1 hour', '1 hour', 10)")
    return int(jobs)


def retain_keys(caller: Caller) -> int:
    """Forgets keys past their horizon; answers how many."""
    ((keys,),) = caller.sql("select brokerjobs.retain_keys('1 hour', 10)")
    return int(keys)


def queued(ledger: Ledger) -> Scene:
    """Submitted, its doorbell still in the outbox."""
    return Scene(ledger, ledger.submit())


def queued_and_lossy(ledger: Ledger) -> Scene:
    """The same, and the broker will lose the doorbell."""
    return replace(queued(ledger), loses_rings=True)


def running(ledger: Ledger) -> Scene:
    """An attempt runs; its type is repeatable."""
    return _claimed(ledger, "work")


def claimed_once(ledger: Ledger) -> Scene:
    """An attempt is claimed and not started; its type is not repeatable."""
    return _claimed(ledger, "once")


def started_once(ledger: Ledger) -> Scene:
    """An attempt has started; its type is not repeatable."""
    scene = _claimed(ledger, "once")
    ledger.worker.start(scene.held)
    return scene


def over(ledger: Ledger) -> Scene:
    """The lease of the running attempt is over, and nobody has been there yet."""
    return _over(running(ledger))


def started_once_over(ledger: Ledger) -> Scene:
    """The same of a started attempt whose type is not repeatable."""
    return _over(started_once(ledger))


def with_deadline(ledger: Ledger) -> Scene:
    """An attempt runs, and its job has a deadline."""
    return _claimed(ledger, "work", deadline=20)


def over_with_deadline(ledger: Ledger) -> Scene:
    """The lease of the running attempt is over, and its job has a deadline."""
    return _over(_claimed(ledger, "work", deadline=60))


def two_over(ledger: Ledger) -> Scene:
    """Two jobs whose attempts run, both leases over."""
    scene = running(ledger)
    other = running(ledger)
    scene.others.append(other.job)
    scene.other_holdings.append(other.held)
    return _over(scene)


def two_lost(ledger: Ledger) -> Scene:
    """Two jobs whose attempts are lost; the time of their next tries has come, and nobody has been there yet."""
    scene = two_over(ledger)
    times = [row.until for row in ledger.coordinator.expire().values() if row.until is not None]
    ledger.clock.set(max(*times, ledger.clock.now))
    return scene


def finished(ledger: Ledger) -> Scene:
    """Finished by its second attempt and past its horizon; the worker of the first has not been heard of yet."""
    scene = rung(ledger)
    scene.broker.clear()
    ledger.worker.complete(ledger.worker.take(scene.job))
    ledger.clock.advance(_LONG_AGO)
    return scene


def key_of_the_past(ledger: Ledger) -> Scene:
    """A job waits; another one with the key was removed so long ago that its key may be forgotten."""
    (gone,) = ledger.submit_all([new_job(key=KEY)])
    ledger.worker.complete(ledger.worker.take(gone.id))
    ledger.clock.advance(_LONG_AGO)
    retain_jobs(ledger.coordinator)
    ledger.clock.advance(_LONG_AGO)
    ledger.owner.execute("delete from brokerjobs.outbox")
    ledger.owner.execute("delete from notes.ring")
    return Scene(ledger, ledger.submit())


def lost(ledger: Ledger) -> Scene:
    """The attempt is lost; the time of the next try has come, and nobody has been there yet."""
    scene = over(ledger)
    until = ledger.coordinator.expire()[scene.job].until
    assert until is not None
    ledger.clock.set(max(until, ledger.clock.now))
    return scene


def lost_last(ledger: Ledger) -> Scene:
    """The last attempt is lost and its lease has passed once more: exhausted, and nobody has said so yet."""
    return exhausted(running_last(ledger))


def running_last(ledger: Ledger) -> Scene:
    """The only attempt that its job may have runs."""
    return _claimed(ledger, "last")


def exhausted(scene: Scene) -> Scene:
    """Such an attempt is lost, and its lease has passed once more."""
    ledger = _over(scene).ledger
    until = ledger.coordinator.expire()[scene.job].until
    assert until is not None
    ledger.clock.set(until)
    return scene


def failed_with_a_kept_success(ledger: Ledger) -> Scene:
    """The last attempt was lost, its job has failed, and then its success came: rejected, and kept."""
    scene = lost_last(ledger)
    ledger.coordinator.due()
    assert ledger.worker.complete(scene.held).verdict == "rejected"
    return scene


def rung(ledger: Ledger) -> Scene:
    """The attempt is lost, the job claimable again, and its doorbell published."""
    scene = lost(ledger)
    ledger.coordinator.due()
    scene.relay()
    return scene


def review(ledger: Ledger) -> Scene:
    """A started attempt of a type that is not repeatable is lost."""
    scene = started_once_over(ledger)
    ledger.coordinator.expire()
    return scene


def _claimed(ledger: Ledger, kind: str, deadline: float | None = None) -> Scene:
    scene = Scene(ledger, ledger.submit(kind, deadline=deadline))
    scene.deadline = ledger.rows.state(scene.job).deadline
    scene.relay()
    scene.broker.remove(scene.job)
    scene.holding = ledger.worker.take(scene.job)
    return scene


def _over(scene: Scene) -> Scene:
    scene.ledger.clock.advance(30)
    return scene


def declare_types(ledger: Ledger) -> None:
    """The types of these grounds: the next try may come at once, so that a lost job is claimable within its lease."""
    at_once = timedelta(0)
    ledger.declare("work", first_delay=at_once)
    ledger.declare("once", first_delay=at_once, repeatable=False)
    ledger.declare("last", first_delay=at_once, elapsed=timedelta(seconds=1))  # no retry fits
    ledger.worker.place = ledger.place = replace(ledger.place, types=("work", "once", "last"))
