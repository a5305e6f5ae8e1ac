"""What must hold when all sessions have ended, in whatever order they acted.

The ledger's invariants; what the tests noted beside the ledger; every answer is true, and given again to whoever asks
again; and from here the job comes to its end without further trouble, by doorbells and timers alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uuid_utils.compat import uuid7

from tests.ledger.interleavings.artifact_promises import broken_artifacts
from tests.ledger.interleavings.effect_promises import broken_effects, is_kept
from tests.ledger.interleavings.programs import reconciled
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import holding_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from brokerjobs.ledger import calls
    from tests.ledger.interleavings.scenes import Scene, Told
    from tests.ledger.ledger_rows import AttemptRow

FINISHED: Final = ("succeeded", "failed", "cancelled")
# More rounds than any job of these scenes can need: attempts are bounded, and each is lost once at most.
_ROUNDS: Final = 20
# Seconds after which who was rung for a resource has let its turn pass.
_TURN: Final = 5.0
# A relay that marks its publish passes over the row of a job that is being claimed just then. If that claim is rolled
# back the job has no ring in the outbox, and its row knows of none. Here rings are counted, which says more.
_TOO_STRICT: Final = "a queued job has a ring or a time"
_AGAIN: Final = "the same question gets the same answer"


def broken_promises(scene: Scene) -> list[str]:
    """The promises that do not hold, each in a sentence."""
    broken = broken_invariants(scene)
    if scene.job_is_there():
        broken += [*_untrue(scene), *_answers_again(scene)]
    if not broken and scene.job_is_there():
        broken = [f"a job comes to its end: {why}" for job in scene.jobs if (why := _stuck(scene, job))]
        broken = broken or broken_invariants(scene)
    return list(dict.fromkeys(broken))


def broken_invariants(scene: Scene) -> list[str]:
    """Those that hold at every moment."""
    rules = [rule for rule, _ in violations(scene.ledger.owner, scene.jobs) if rule != _TOO_STRICT]
    return [*scene.broken, *rules, *_noted(scene)]


def _noted(scene: Scene) -> Iterator[str]:
    owner = scene.ledger.owner
    for (fact,) in owner.execute("select fact from notes.overwritten"):
        yield f"what is written once stays (rule R6): {fact} was written again"
    # Each return to claimable owes a ring of its own (rule R4); one that is handed back, or a person's, comes on top.
    owed = owner.execute(
        "select j.id, (select count(*) from notes.ring r where r.job_id = j.id),"
        " (select count(*) from brokerjobs.event e where e.job_id = j.id and (e.detail ->> 'waiting' = 'delivery'"
        "   or e.kind in ('handed_back', 'rung_again'))) from brokerjobs.job j"
    )
    for _, made, owing in owed:
        if made != owing:
            yield f"every return to claimable has a ring of its own (rule R4): {owing} returns, {made} rings"
    for (key,) in owner.execute("select key from brokerjobs.job group by namespace, type, key having count(*) > 1"):
        if key is not None:
            yield f"one key names one job: {key} has several"
    yield from _payments(scene)
    yield from broken_effects(scene)
    yield from broken_artifacts(scene)


def _payments(scene: Scene) -> Iterator[str]:
    """A handler's own writes are there once where its result was accepted, and nowhere else."""
    paid = scene.ledger.owner.execute(
        "select p.attempt_id = s.accepted_attempt_id from notes.payment p join brokerjobs.job_state s using (job_id)"
        " where p.kind = 'completed'"
    ).fetchall()
    expected = int(scene.pays and _is_accepted(scene))
    if scene.pays and paid != [(True,)] * expected:
        yield f"a handler's writes commit with its accepted result, once: {len(paid)} writes, {expected} results"


# By call and word: what else must be so.
_TRUE_WHEN: Final[dict[tuple[str, str], Callable[[Scene, Told], bool]]] = {
    ("claim", "granted"): lambda s, told: (
        s.ledger.rows.attempt(told.answer.attempt_id).fencing_number == told.answer.fencing_number
    ),
    ("submit", "existing"): lambda _, told: told.answer.job_id is not None,
    ("submit", "conflict"): lambda _, told: told.answer.job_id is not None,
    ("start", "started"): lambda s, _: _attempt(s).started_at is not None,
    ("complete", "accepted"): lambda s, _: _is_accepted(s),
    ("complete_v1", "True"): lambda s, _: _is_accepted(s),
    ("complete_v1", "False"): lambda s, _: _is_accepted(s),
    ("complete", "rejected"): lambda s, _: not _is_accepted(s),
    ("fail", "recorded"): lambda s, _: _attempt(s).reported_as == "failed",
    ("release", "recorded"): lambda s, _: _attempt(s).reported_as == "released",
    ("cancel", "requested"): lambda s, _: s.ledger.rows.state(s.job).cancel is not None,
    ("cancel", "cancelled"): lambda s, _: s.ledger.rows.state(s.job).state == "cancelled",
    ("expire", "gave up"): lambda s, _: _attempt(s).closed_as == "timed_out",
    ("outcome", "recorded"): lambda s, told: is_kept(s, told.answer.attempt_id),
}


def _untrue(scene: Scene) -> Iterator[str]:
    """What sessions were told against what the ledger has."""
    for told in scene.told:
        is_true = _TRUE_WHEN.get((told.call, told.word))
        if is_true is not None and not is_true(scene, told):
            yield f"an answer is true: {told.who} was answered {told.word} to {told.call}, and it is not so"


def _attempt(scene: Scene) -> AttemptRow:
    return scene.ledger.rows.attempt(scene.held.attempt_id)


def _is_accepted(scene: Scene) -> bool:
    return scene.ledger.rows.state(scene.job).accepted_attempt_id == scene.held.attempt_id


def _answers_again(scene: Scene) -> Iterator[str]:
    """Every report and claim once more (rule R7); nothing may be written by that."""
    rows, caller = scene.ledger.rows, scene.ledger.worker
    before = rows.state(scene.job)
    for told in scene.told:
        if told.again is None or (told.call == "claim" and told.word != "granted"):
            continue
        answer = told.again(caller, scene)
        if told.call == "claim":
            held = before.attempt_id == told.answer.attempt_id and before.state == "running" and not before.reported
            expected = ("granted", told.answer.fencing_number) if held else ("lost", None)
            if (answer.verdict, answer.fencing_number) != expected:
                yield f"{_AGAIN}: {told.who} had claimed, expects {expected} and is answered {answer.verdict}"
        elif told.word == "already_reported" or told.call == "outcome":
            if answer.verdict != told.word:
                yield f"{_AGAIN}: {told.who} reported and was answered {told.word}, then {answer.verdict}"
        elif _verdict(answer) != _verdict(told.answer):
            yield f"{_AGAIN}: {told.who} reported and was answered {_said(told.answer)}, then {_said(answer)}"
    if rows.state(scene.job) != before:
        yield f"{_AGAIN}: the job changed by being asked again"


def _verdict(answer: calls.Reported) -> calls.Reported:
    """Without the review that it opened, of which a call that is asked again tells no more."""
    return answer._replace(opened=None)


def _said(answer: Any) -> str:
    return f"{answer.verdict} (reason {answer.reason}, late {answer.late}, state {answer.state}, until {answer.until})"


def _stuck(scene: Scene, job: UUID) -> str | None:
    """Nobody fails any more: relays, workers, the reaper and the scheduler do their work. Why it comes to no end."""
    ledger = scene.ledger
    ledger.clock.advance(10)  # so that messages that a relay held are free again
    for _ in range(_ROUNDS):
        state = ledger.rows.state(job)
        if state.state in FINISHED or state.state == "review":
            return None
        scene.relay()
        if job in scene.broker:
            scene.broker.remove(job)
            answer = ledger.worker.claim(job, uuid7())
            if answer.verdict == "granted":
                ledger.worker.complete(holding_of(answer))
            continue
        if state.waiting == "resource":  # until its placement deadline: nobody waits for that
            ledger.clock.advance(_TURN)
            ledger.coordinator.expire()
            ledger.coordinator.due()
            continue
        until = state.lease_until if state.state == "running" else state.wait_until
        if until is None and state.waiting == "pause":
            ledger.coordinator.due()
            continue
        if until is None and scene.loses_rings:
            scene.probe_returns()
            if reconciled(ledger.coordinator):
                scene.loses_rings = False
                continue
        if until is None:
            return f"it is {state.state} and waits for {state.waiting}, and nobody will ring"
        ledger.clock.set(max(ledger.clock.now, until))
        ledger.coordinator.expire()
        ledger.coordinator.due()
    return f"it did not in {_ROUNDS} rounds"
