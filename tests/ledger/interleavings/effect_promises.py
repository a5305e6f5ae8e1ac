"""What must hold of effects when all sessions have ended, beside the ledger's invariants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tests.ledger.interleavings.scenes import Scene

ONCE: Final = "an effect that may not be repeated is done once, and once more for each decision that it did not happen"

# Each asks for jobs that break it; `e` is an event about an effect, `seq` the order in which things were written.
_BROKEN: Final = {
    "an effect is permitted to the running attempt alone": """
        select e.job_id from brokerjobs.event e where e.kind = 'effect_intent' and (
          e.attempt_id is distinct from (select c.attempt_id from brokerjobs.event c
            where c.job_id = e.job_id and c.kind = 'claimed' and c.seq < e.seq order by c.seq desc limit 1)
          or 'running' is distinct from (select c.state from brokerjobs.event c
            where c.job_id = e.job_id and c.state is not null and c.seq < e.seq order by c.seq desc limit 1))""",
    "no effect is permitted while one of its tries is in doubt": """
        select e.job_id from brokerjobs.event e
          join brokerjobs.event c on c.job_id = e.job_id and c.kind = 'effect_contradicted' and c.seq < e.seq
            and c.detail -> 'effect' = e.detail -> 'effect'
        where e.kind = 'effect_intent' and not exists (select from brokerjobs.event d where d.job_id = e.job_id
          and d.kind = 'effect_settled' and d.detail -> 'effect' = e.detail -> 'effect'
          and d.seq between c.seq and e.seq)""",
    # Seen by the state in which what became of it was written.
    "an effect that may not be repeated is unknown in running jobs and reviews alone, unless a person gave it up": """
        select e.job_id from brokerjobs.event e join brokerjobs.effect x on x.job_id = e.job_id and x.known_at = e.at
            and x.name = e.detail ->> 'effect' and not x.repeatable
        where e.kind in ('effect_happened', 'effect_did_not_happen') and (e.state = 'succeeded'
          or e.state not in ('running', 'review') and not exists (
            select from brokerjobs.review r where r.job_id = e.job_id and r.decision = 'give_up'))""",
    "each review is closed by one decision or fact": """
        select r.job_id from brokerjobs.review r group by r.job_id
        having count(*) filter (where r.closed_at is not null) <> (select count(*) from (
          select state, lag(state) over (order by seq) as before from brokerjobs.event v
          where v.job_id = r.job_id and v.state is not null) x where before = 'review' and state <> 'review')""",
    "a review stays open only while something is unknown": """
        select s.job_id from brokerjobs.job_state s join brokerjobs.job j on j.id = s.job_id
          left join brokerjobs.attempt a on a.id = s.attempt_id
        where s.state = 'review' and not s.unknown_effect and not (s.started and not j.repeatable)
          and (a.failure ->> 'class' is distinct from 'unsafe' or a.failure ->> 'type' = 'EffectUnknown')""",
}


def is_kept(scene: Scene, attempt: UUID) -> bool:
    """Whether what an attempt said of its effects is known of them, or kept as evidence."""
    query = (
        "select not exists (select from brokerjobs.effect_intent i join brokerjobs.effect x using (job_id, name, try)"
        " where i.attempt_id = %s and x.outcome is null)"
        " or exists (select from brokerjobs.late_report where attempt_id = %s)"
    )
    return scene.ledger.rows.scalar(query, [attempt, attempt], of=bool)


def broken_effects(scene: Scene) -> Iterator[str]:
    """The promises about effects that do not hold."""
    owner = scene.ledger.owner
    for promise, query in _BROKEN.items():
        if owner.execute(query.encode()).fetchone() is not None:
            yield promise
    row = owner.execute("select count(*) from brokerjobs.review where decision = 'retry'").fetchone()
    assert row is not None
    if scene.outside.done > 1 + row[0]:
        yield f"{ONCE}: {scene.outside.done} times, {row[0]} decisions"
    yield from _untrue(scene)


def _untrue(scene: Scene) -> Iterator[str]:
    kept = "select count(*) from brokerjobs.late_report where job_id = %s and reason = 'contradicts'"
    marked = "select count(*) from brokerjobs.effect where job_id = %s and contradicted_at is not null"
    contradictions = sum(told.call == "outcome" and told.word == "contradicts" for told in scene.told)
    if contradictions and not (
        scene.ledger.rows.scalar(kept, [scene.job], of=int) and scene.ledger.rows.scalar(marked, [scene.job], of=int)
    ):
        yield "an outcome that contradicts is kept, and marks its effect"
    decided = (
        "select count(*) from brokerjobs.effect where job_id = %s and outcome is null and contradicted_at is not null"
    )
    if contradictions and scene.ledger.rows.scalar(decided, [scene.job], of=int):
        yield "an outcome contradicts another one, not none"
    discards = [told for told in scene.told if told.call == "discard" and told.word.startswith("discarded")]
    if discards and not scene.ledger.rows.events(scene.job, "discarded"):
        yield "a job is discarded from among the dead"
    winners = [told.word for told in scene.told if told.word in {"replayed", "adopted"}]
    tried = {told.call for told in scene.told} >= {"replay", "adopt"}
    if len(winners) > 1 or (tried and not winners):
        yield f"of a replay and an adoption exactly one wins: {winners}"
