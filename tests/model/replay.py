"""Replays traces of the model on the ledger's SQL, and compares what both say after every action.

One job, one transaction: a branch is tried behind a savepoint, and taken back before the next one.  The model's times
are made true by the ledger's clock: a lease runs out when its end has come, a try may come when its time has.  A job's
deadline passes by being set to now, since the model lets it pass at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from uuid_utils.compat import uuid7

from tests.ledger.effects import Effects
from tests.ledger.ledger_caller import TEMPORARY, holding_of
from tests.model.traces import BEFORE_COMMIT

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.effects import OpenReview
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger
    from tests.model.facts import Bounds, Try
    from tests.model.facts import Ledger as ModelLedger
    from tests.model.search import Step
    from tests.model.traces import Branch

FAILURES = {  # the model's word, what it is in the ledger
    "temporary": {"class": "temporary"},
    "invalid": {"class": "invalid"},
    "unknown": {"class": "unsafe"},
    "effect unknown": {"class": "unsafe", "type": "EffectUnknown"},
}
LIMIT = 10.0  # seconds, of every call
_LONG = timedelta(days=300)
_SET_CLOCK = """
with tick as (update brokerjobs.service set ticked_at = %(now)s) update brokerjobs.test_clock set at = %(now)s
"""


_SEEN = """
select jsonb_build_object(
    'state', s.state, 'waiting for', case when s.wait_detail ? 'last' then 'last' else coalesce(s.waiting, '') end,
    'claimable', coalesce(s.wait_until <= c.now, true),
    'lease', case when s.lease_until is null then '' when s.lease_until <= c.now then 'over' else 'live' end,
    'attempt on the row', coalesce((select a.number from brokerjobs.attempt a where a.id = s.attempt_id), 0),
    'started', s.started, 'cancel requested', s.cancel is not null, 'deadline passed', s.deadline is not null,
    'charged', s.charged, 'the row knows of a report', s.reported and s.attempt_id is not null,
    'rings', (select count(*) from brokerjobs.outbox o where o.job_id = s.job_id and o.kind = 'doorbell'),
    'attempts', (select coalesce(jsonb_agg(jsonb_build_array(a.number, coalesce(a.closed_as, ''),
        case a.reported_as when 'failed' then case when a.failure ->> 'type' = 'EffectUnknown' then 'effect unknown'
          when a.failure ->> 'class' = 'unsafe' then 'unknown' else a.failure ->> 'class' end
          else coalesce(a.reported_as, '') end,
        coalesce(a.verdict, ''), a.charged) order by a.number), '[]')
      from brokerjobs.attempt a where a.job_id = s.job_id),
    'an effect is unknown', s.unknown_effect,
    'tries', (select coalesce(jsonb_agg(jsonb_build_array(e.repeatable, replace(coalesce(e.outcome, ''), '_', ' '),
        coalesce((select a.number from brokerjobs.attempt a where a.id = e.attempt_id), 0),
        (select jsonb_agg(a.number order by a.number) from brokerjobs.effect_intent i
          join brokerjobs.attempt a on a.id = i.attempt_id where (i.job_id, i.name, i.try) = (e.job_id, e.name, e.try)),
        (select coalesce(jsonb_agg(a.number order by a.number), '[]') from brokerjobs.late_report l
          join brokerjobs.attempt a on a.id = l.attempt_id
          where l.job_id = e.job_id and l.reported_as = format('effect %%s/%%s did_not_happen', e.name, e.try)),
        case when e.settled_at is not null then 'settled' when e.contradicted_at is not null then 'open' else '' end)
        order by e.try), '[]')
      from brokerjobs.effect e where e.job_id = s.job_id))
  from brokerjobs.job_state s, (select brokerjobs.clock() as now) c where s.job_id = %s
"""


class Disagreement(AssertionError):
    """The model and the ledger say different things."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a replay is: the job, what its attempts hold, and the story so far."""

    job: UUID
    ids: tuple[UUID, ...]
    holdings: tuple[Holding | None, ...]
    review: OpenReview | None = None  # that a reconciler has taken up
    story: tuple[str, ...] = ()


def declare_type(ledger: Ledger, bounds: Bounds) -> str:
    """Registers the job type of which the bounds speak, and answers its name."""
    name = "once" if bounds.once else "work"
    delay = timedelta(minutes=10)
    ledger.declare(name, repeatable=not bounds.once, attempts=bounds.allowed, elapsed=_LONG, first_delay=delay)
    return name


class Replay:
    """One tree of traces on one ledger, as its owner: what its roles may do is tested elsewhere."""

    def __init__(self, ledger: Ledger, bounds: Bounds) -> None:
        self._ledger = ledger
        self._owner: Caller = ledger.setting_up
        self._bounds = bounds
        self.actions = 0

    def run(self, tree: Branch) -> None:
        """Replays everything, and leaves nothing behind. Raises Disagreement."""
        kind = declare_type(self._ledger, self._bounds)
        nobody = (None,) * self._bounds.attempts
        self._owner.begin()
        try:
            if self._bounds.forgets:  # what is known of a key's validity is never changed otherwise
                self._owner.sql("alter table brokerjobs.effect disable trigger effect_identity_once")
            job = self._ledger.submit(kind, by=self._owner)
            place = Standing(job, tuple(uuid7() for _ in nobody), nobody)
            self._compare(tree.ledger, place)
            self._follow(tree, place)
        finally:
            self._owner.rollback()

    def _follow(self, branch: Branch, place: Standing) -> None:
        for step, after in branch.actions.items():
            self._owner.sql("savepoint branch")
            there = self._do(step, replace(place, story=(*place.story, str(step))))
            self._compare(after.ledger, there)
            self._follow(after, there)
            self._owner.sql("rollback to savepoint branch")
            self._owner.sql("release savepoint branch")

    def _do(self, step: Step, place: Standing) -> Standing:
        self.actions += 1
        if step.note == "the relay dies before it marks":
            return place  # what it took is free again for others, and nothing else has happened
        try:
            answer, there = self._answer(step, place)
        except psycopg.Error as error:
            raise Disagreement(_told(place, f"the ledger fails: {str(error).splitlines()[0]}")) from error
        if answer != step.answer and step.note != BEFORE_COMMIT:
            message = _told(place, f"the model says {step.answer!r}, the ledger says {answer!r}")
            raise Disagreement(message)
        return there

    def _answer(self, step: Step, place: Standing) -> tuple[str, Standing]:
        """Does what the step says; the ledger's answer in the model's words."""
        caller, job = self._owner, place.job
        name, _, said = step.what.partition(" ")
        match name:
            case "claim":
                return self._claim(step.attempt, place)
            case "expire":
                return "gave up" if job in caller.expire() else "passed over", place
            case "due":
                return caller.due().get(job, "passed over"), place
            case "cancel":
                return caller.cancel(job).verdict, place
            case "hand_back":
                return "rung" if caller.hand_back(job) else "nothing", place
            case "publish":
                self._publish_doorbell()
                return "", place
            case "a" | "review_ask" | "found":
                return self._review(name, said, place)
            case "the":
                self._let_time_pass(step.what, job)
                return "", place
            case _:
                holding = place.holdings[step.attempt - 1]
                assert holding is not None
                return self._report(name, said, holding, lost=step.note == BEFORE_COMMIT), place

    def _review(self, name: str, said: str, place: Standing) -> tuple[str, Standing]:
        """Somebody decides, or a reconciler asks and says what it found."""
        match name:
            case "a":
                return self._decide(said.removeprefix("person decides: "), place.job), place
            case "review_ask":
                reviews = Effects(self._owner).ask("work", "once")
                return "" if reviews else "nothing to ask about", replace(place, review=next(iter(reviews), None))
            case _:
                assert place.review is not None
                finding = {"as": said.replace(" ", "_"), "result": 1, "reference": "psp 7"}
                return Effects(self._owner).found(place.review, **finding).verdict, place

    def _decide(self, decision: str, job: UUID) -> str:
        if decision == "replay":
            (verdict,) = self._owner.replay(job, attempts=1)
        else:
            verdict = self._owner.resolve(job, decision.replace(" ", "_"))["verdict"]
        return "" if verdict in {"decided", "replayed"} else verdict

    def _publish_doorbell(self) -> None:
        for _ in range(10):  # dead letters go the same way, and are dropped if their job was replayed
            messages, _ = self._owner.outbox_take(limit=1)
            self._owner.outbox_done(*(message.ticket for message in messages if message.ticket is not None))
            if any(message.kind == "doorbell" for message in messages):
                return
        message = "no doorbell is in the outbox"
        raise Disagreement(message)

    def _claim(self, attempt: int, place: Standing) -> tuple[str, Standing]:
        answer = self._owner.claim(place.job, place.ids[attempt - 1])
        if answer.verdict != "granted":
            return answer.verdict, place
        holdings = list(place.holdings)
        holdings[attempt - 1] = holding_of(answer)
        return answer.verdict, replace(place, holdings=tuple(holdings))

    def _report(self, name: str, said: str, holding: Holding, *, lost: bool) -> str:
        caller = self._owner
        match name:
            case "start":
                return caller.start(holding)
            case "complete":
                return caller.complete(holding).verdict
            case "fail":
                return caller.fail(holding, {**TEMPORARY, **FAILURES[said]}).verdict
            case "release":
                return caller.release(holding).verdict
            case "asked":
                return caller.asked(holding).verdict
            case "intent":
                return self._intend(holding)
            case "outcome":
                return self._say(holding, happened=said == "happened")
            case _:
                return self._transaction(name, holding, lost=lost)

    def _intend(self, holding: Holding) -> str:
        repeatable, valid_for = self._bounds.effect == "repeatable", 1e6 if self._bounds.forgets else None
        answer = Effects(self._owner).intend(holding, repeatable=repeatable, valid_for=valid_for, limit=LIMIT)
        before = answer.verdict == "lost" and answer.try_ is not None
        return "lost, permitted before" if before else answer.verdict

    def _say(self, holding: Holding, *, happened: bool) -> str:
        query = "select try from brokerjobs.effect_intent where attempt_id = %s"
        ((permitted,),) = self._owner.sql(query, holding.attempt_id)
        effects = Effects(self._owner)
        said = effects.happened if happened else effects.did_not_happen
        return said(holding, try_=permitted).verdict

    def _transaction(self, name: str, holding: Holding, *, lost: bool) -> str:
        self._owner.sql("savepoint users")
        try:
            if name == "fence_v1":
                self._owner.fence_v1(holding)
            else:
                self._owner.complete_v1(holding)
            answer = "held" if name == "fence_v1" else "accepted"
        except psycopg.DatabaseError as error:
            answer, lost = str(error.sqlstate), True
        if lost:  # or refused
            self._owner.sql("rollback to savepoint users")
        return answer

    def _let_time_pass(self, what: str, job: UUID) -> None:
        owner, state = self._ledger.owner, self._ledger.rows.state(job)
        if what == "the deadline passes":
            owner.execute("update brokerjobs.job_state set deadline = brokerjobs.clock() where job_id = %s", [job])
            return
        if what == "the outside forgets the key":
            query = (
                "update brokerjobs.effect set valid_until = brokerjobs.clock() where job_id = %s and outcome is null"
            )
            owner.execute(query, [job])
            return
        times = [state.lease_until if what == "the lease runs out" else state.wait_until]
        if self._bounds.reconciler and what != "the lease runs out":
            ((limit,),) = self._owner.sql(
                "select max(greatest(i.at, case when a.closed_as <> 'timed_out' then a.closed_at end) + i.time_limit)"
                " from brokerjobs.effect_intent i join brokerjobs.attempt a on a.id = i.attempt_id where i.job_id = %s",
                job,
            )
            times.append(limit)
        owner.execute(_SET_CLOCK, {"now": max(time for time in times if time is not None)})

    def _compare(self, model: ModelLedger, place: Standing) -> None:
        ((seen,),) = self._owner.sql(_SEEN, place.job)
        differences = [
            f"{what}: {expected!r} in the model, {seen.get(what)!r} in the ledger"
            for what, expected in _shown(model).items()
            if seen.get(what) != expected
        ]
        if differences:
            raise Disagreement(_told(place, "\n  ".join(differences)))


def _shown(model: ModelLedger) -> dict[str, Any]:
    """The model's ledger, as `_SEEN` reads the real one."""
    job = model.job
    granted = sorted(attempt for attempt in model.attempts if attempt.number)
    by_number = {0: 0, **{n: attempt.number for n, attempt in enumerate(model.attempts, 1)}}
    return {
        "state": job.state,
        "waiting for": job.waiting,
        "claimable": job.ripe,
        "lease": job.lease,
        "attempt on the row": by_number[job.attempt],
        "started": job.started,
        "cancel requested": job.cancelled,
        "deadline passed": job.deadline,
        "charged": job.charged,
        "rings": model.rings,
        "attempts": [[a.number, a.closed, a.said, a.verdict, a.charged] for a in granted],
        "an effect is unknown": job.unknown,
        "tries": [_shown_try(one, by_number) for one in model.tries],
        "the row knows of a report": bool(job.attempt and model.attempts[job.attempt - 1].said),
    }


def _shown_try(one: Try, by_number: dict[int, int]) -> list[Any]:
    holders, denied = (sorted(by_number[n] for n in some) for some in (one.holders, one.denied))
    return [one.repeatable, one.outcome, by_number[one.by], holders, denied, one.doubt]


def _told(place: Standing, difference: str) -> str:
    steps = "\n".join(f"  {number:2} {line}" for number, line in enumerate(place.story, 1))
    return f"the model and the ledger disagree after\n{steps}\n  {difference}"
