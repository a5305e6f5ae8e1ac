"""What must hold of artifacts when all sessions have ended, beside the ledger's invariants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ledger.interleavings.scenes import Scene

NOT_LOST: Final = "an output is not discarded while its attempt may be accepted"
THERE: Final = "what an accepted result names was ready, and is not discarded"
FIRST: Final = "the first acknowledgement stays"
GIVEN: Final = "what the sweeper is given is recorded as to be removed"

_NAMED: Final = """
select count(*) from brokerjobs.job_state s join brokerjobs.attempt a on a.id = s.accepted_attempt_id
  join brokerjobs.artifact f on f.attempt_id = a.id
  where s.job_id = %s and a.result ->> 'id' = f.id::text and (f.ready_at is null or f.state = 'discarded')
"""
_SAID: Final = "select count(*) from brokerjobs.artifact where id = %s and copied_to is distinct from %s"
_TO_GO: Final = "select count(*) from brokerjobs.artifact where id = %s and removing_at is null"


def broken_artifacts(scene: Scene) -> Iterator[str]:
    """The promises about artifacts that do not hold."""
    if scene.artifact is None:
        return
    rows = scene.ledger.rows
    if rows.scalar(_NAMED, [scene.job], of=int):
        yield THERE
    for number, told in enumerate(scene.told):
        before = [one.word for one in scene.told[:number]]
        if told.call == "complete" and scene.was_ready and told.answer.reason == "artifact_not_ready":
            yield f"{NOT_LOST}: {told.who}'s late success named it"
        if told.call == "adopt" and told.word == "refused" and "replayed" not in before:
            yield f"{NOT_LOST}: {told.who} could not adopt its success"
        if told.call == "acknowledge" and told.word != "acknowledged":
            yield f"{FIRST}: {told.who} was answered {told.word}"
        elif told.call == "acknowledge" and rows.scalar(_SAID, [scene.staged, told.answer.detail["copied_to"]], of=int):
            yield f"{FIRST}: {told.who} was answered another than is recorded"
        if told.call == "sweep" and told.word != "is given nothing" and rows.scalar(_TO_GO, [scene.staged], of=int):
            yield GIVEN
