"""Flaws that the triples must catch: the product's own SQL with one thought left out, each where a review found it.

A2 and so on are runs of the model checker (tests/model), T1 and T4 measurements of the same review.
M2 and "wake" are those of its exclusive resources (tests/model/resource.py).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import brokerjobs.ledger
from tests.ledger.interleavings.explorer import Part, Triple
from tests.ledger.interleavings.user_programs import pays

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.ledger.interleavings.scenes import Stage

_SQL: Final = Path(brokerjobs.ledger.__file__).parent / "sql"
_HOLD: Final = "  s := hold_place_or_raise(p_job, p_attempt, p_fencing_number, false);\n"
_LOOK: Final = "  t := clock();\n"
_ROW: Final = "where x.job_id = p_jobs[i]"
_NUMBER: Final = "r.attempt_id = s.attempt_id and r.fencing_number = s.fencing_number"
_WRITE_ONCE: Final = ("attempt_closed_once", "attempt_reported_once")


@dataclass(frozen=True, slots=True)
class Flaw:
    """One wrong thought: in which function, in place of what; and which triple catches it, by which promise."""

    name: str
    triple: str
    promise: str  # how the sentence of the broken promise begins
    edits: tuple[tuple[str, str, str], ...]  # function, what its file says, what it says with the flaw
    without_triggers: tuple[str, ...] = ()  # triggers that would refuse it before a promise is broken
    instead: Part | None = None  # of the triple's first session, where its program is at fault
    may_wait: bool = False  # batches wait because of it, and worse comes of that


FLAWS: Final = (
    Flaw(
        "A2: a late success changes how a timed out attempt was closed",
        "claim, expire, complete",
        "what is written once stays",
        (("accept_results", "coalesce(a.closed_as, 'completed')", "'completed'"),),
        _WRITE_ONCE,
    ),
    Flaw(
        "A4: a rejection is not remembered",
        "late complete and its repetition, due, replay",
        "the same question gets the same answer",
        (
            ("answer_of", "where x.id = a.id;", "where false;"),
            ("answer_of", "set reported = true where x.job_id = s.job_id", "set reported = true where false"),
        ),
    ),
    Flaw(
        "a replay leaves the last attempt named",
        "late complete, due, replay",
        "no attempt from before a replay is accepted after it",
        (
            ("dead_replay", "set attempt_id = null, reported = false, started = false,", "set started = false,"),
            ("dead_replay", "s.attempt_id := null; s.reported := false;", ""),
        ),
    ),
    Flaw(
        "a decision does not look whether the record has moved",
        "it did not, cancel, claim in review",
        "a decision is made on the record that was read",
        (("review_resolve", "if p_version is distinct from job_version(v.job_id) then", "if false then"),),
    ),
    Flaw(
        "A16: a released attempt's delayed success is accepted",
        "release, delayed complete, claim",
        "what is written once stays",
        (("holds_place", "and not s.reported", ""),),
        _WRITE_ONCE,
    ),
    Flaw(
        "A16: the second of two reports is taken",
        "complete, fail, release of one attempt",
        "what is written once stays",
        (("holds_place", "and not s.reported", ""),),
        _WRITE_ONCE,
    ),
    Flaw(
        "N1: the guard is the state alone",
        "claim, claim, late complete",
        "the accepted attempt holds the job's last fencing number",
        (
            (
                "holds_place",
                "s.attempt_id = p_attempt and s.fencing_number = p_fencing_number and not s.reported",
                "s.state = 'running'",
            ),
        ),
    ),
    Flaw(
        "the guard is read without a lock",
        "claim, claim, late complete",
        "the accepted attempt holds the job's last fencing number",
        (("complete", "where x.job_id = p_jobs[i] for update skip locked;", "where x.job_id = p_jobs[i];"),),
        may_wait=True,
    ),
    Flaw(
        "A6: where a job goes does not look at a cancel request",
        "cancel, complete, expire",
        "a cancel request is obeyed",
        (("decide", "if s.cancel is not null then", "if false then"),),
    ),
    Flaw(
        "A5: a result is accepted in spite of a cancel request",
        "cancel, complete, expire",
        "a cancel request is obeyed",
        (("refusal_of", "when s.cancel is not null then 'job_cancelled'", "when false then ''"),),
    ),
    Flaw(
        "A8: a result is accepted after the deadline",
        "complete, the deadline and due, expire",
        "no result is accepted once the deadline has passed",
        (("refusal_of", "when s.deadline <= t then 'deadline'", "when false then ''"),),
    ),
    Flaw(
        "R2: the clock is read before the lock",
        "complete_v1, renew, the deadline",
        "no result is accepted once the deadline has passed",
        (
            (
                "complete_v1",
                f"{_HOLD}{_LOOK}",
                f"{_LOOK}{_HOLD}",
            ),
            ("hold_place_or_raise", "when s.deadline <= clock() then 'deadline'", "when false then ''"),
        ),
    ),
    Flaw(
        "A11: a cancel request hides an unknown outcome",
        "fail with an unknown outcome, cancel, expire",
        "an unknown outcome is not hidden",
        (("decide", "if p_ended <> 'waiting' and (", "if p_ended <> 'waiting' and s.cancel is null and ("),),
    ),
    Flaw(
        "A12: a fenced transaction of an attempt that was given up commits",
        "fence_v1, expire, claim",
        "a user's fenced transaction commits only while its attempt runs",
        (("fence_v1", "p_fencing_number, true)", "p_fencing_number, false)"),),
    ),
    Flaw(
        "A23: a plain completion follows a COMMIT that got no answer",
        "complete_v1 lost before its COMMIT, expire, claim",
        "a handler's writes commit with its accepted result",
        (),
        instead=Part("handler", "worker", pays(connection="before", then="completes"), waits=True),
    ),
    Flaw(
        "A23: a transaction that completes is told its stored verdict instead of an error",
        "complete_v1 lost after its COMMIT, expire, claim",
        "a handler's writes commit with its accepted result",
        (
            (
                "hold_place_or_raise",
                "raise exception 'attempt % of job % has reported already', p_attempt, p_job using errcode = 'BJ002';",
                "return null;",
            ),
            ("complete_v1", "begin\n", "begin\n  if s.job_id is null then return false; end if;\n"),
        ),
        instead=Part("handler", "worker", pays(connection="after", then="pays again"), waits=True),
    ),
    Flaw(
        "T1: a claim waits for a row",
        "claim, expire, complete",
        "no batch waits",
        (("claim_jobs", f"{_ROW} for update skip locked;", f"{_ROW} for update;"),),
    ),
    Flaw(
        "T4: claims and completions wait for rows in different orders",
        "claims of two jobs, completions of both the other way round, cancel of one",
        "no batch waits",
        (
            ("claim_jobs", f"{_ROW} for update skip locked;", f"{_ROW} for update;"),
            ("complete", f"{_ROW} for update skip locked;", f"{_ROW} for update;"),
        ),
    ),
    Flaw(
        "the reaper waits for a row",
        "renew, complete, expire",
        "no batch waits",
        (("expire", "where x.job_id = v_id for update skip locked;", "where x.job_id = v_id for update;"),),
    ),
    Flaw(
        "the reaper believes its search",
        "claim, expire, complete",
        "no call fails",
        (
            ("expire", "continue when not found or s.state <> 'running';", "continue when not found;"),
            ("expire", "continue when not lease_is_over(s, j.lease, t);", ""),
        ),
    ),
    Flaw(
        "the scheduler believes its search",
        "due of two jobs, claims of both, cancel of one",
        "an attempt is open exactly while its job runs it",
        (
            ("due", "if s.state in ('running', 'review') then", "if false then"),
            ("due", "continue when s.state <> 'queued';", ""),
            (
                "due",
                "continue when coalesce(s.wait_until, 'infinity') > t and coalesce(s.deadline, 'infinity') > t;",
                "",
            ),
        ),
    ),
    Flaw(
        "A19: a claim takes over a job whose lease is over",
        "claim, expire, complete of a started attempt that is not repeatable",
        "an unknown outcome is not repeated",
        (
            (
                "claim_jobs",
                "d := expire_attempt(s, j, 'claim', t);",
                (
                    "update attempt a set closed_at = t, closed_as = 'timed_out' where a.id = s.attempt_id;"
                    " d.state := 'queued'; d.waiting := 'delivery';"
                ),
            ),
        ),
    ),
    Flaw(
        "A20: a started attempt that is not repeatable is released into the queue",
        "start and release, expire, claim",
        "an unknown outcome is not repeated",
        (("decide", "if p_ended <> 'waiting' and (", "if p_ended not in ('waiting', 'released') and ("),),
    ),
    Flaw(
        "A21: where a job goes does not know of the start",
        "start and release, expire, claim",
        "an unknown outcome is not repeated",
        (("start", "update job_state x set started = true where x.job_id = s.job_id;", ""),),
    ),
    Flaw(
        "A22: an attempt that is only claimed counts as started",
        "start, cancel, expire",
        "a review is about an attempt that has started",
        (("decide", "not j.repeatable and s.started and not v_classified", "not j.repeatable and not v_classified"),),
    ),
    Flaw(
        "A15: a release writes no ring",
        "release, delayed complete, claim",
        "every return to claimable has a ring",
        (
            (
                "move_job",
                "if d.waiting = 'delivery' then",
                "if d.waiting = 'delivery' and p_kind <> 'attempt_released' then",
            ),
        ),
    ),
    Flaw(
        "a job has one ring, made anew",
        "relay, relay that dies, claim and release",
        "every return to claimable has a ring",
        (
            (
                "move_job",
                "insert into outbox (kind, job_id, made_at, hold_until) values ('doorbell', s.job_id, t, t);",
                (
                    "update outbox o set hold_until = t where o.job_id = s.job_id;"
                    " if not found then insert into outbox (kind, job_id, made_at, hold_until)"
                    " values ('doorbell', s.job_id, t, t); end if;"
                ),
            ),
        ),
    ),
    Flaw(
        "a mark forgets every ring of its job",
        "relay, relay that dies, claim and release",
        "a job comes to its end",
        (
            (
                "outbox_done",
                "delete from outbox x using held h where x.ticket = h.ticket",
                "delete from outbox x using held h, outbox y where y.ticket = h.ticket and x.job_id = y.job_id",
            ),
        ),
    ),
    Flaw(
        "a job whose ring was never marked is not looked for",
        "reconcile, relay whose message is lost, claim that dies",
        "a job comes to its end",
        (("reconcile", "coalesce(s.rung_at, '-infinity') as rung_at", "s.rung_at"),),
    ),
    Flaw(
        "a transaction of a superseded attempt completes",
        "complete_v1, expire, claim",
        "the accepted attempt holds the job's last fencing number",
        (("hold_place_or_raise", "when not holds_place(s, p_attempt, p_fencing_number) then", "when false then"),),
    ),
    Flaw(
        "a key that was forgotten just then is taken for a conflict",
        "submit, submit with the same key, retain_keys",
        "an answer is true",
        (
            (
                "submit_jobs",
                "if not found then\n          verdict := 'key_in_flight'",
                "if false then\n          verdict := 'key_in_flight'",
            ),
        ),
    ),
    Flaw(
        "an attempt id is granted twice",
        "claim asked again, claim and release, late complete",
        "no call fails",
        (
            (
                "claim_jobs",
                "if s.number > 0 and exists (select from attempt a where a.id = p_attempts[i]) then",
                "if false then",
            ),
        ),
    ),
    Flaw(
        "an insert that met a conflict counts as new",
        "submit, submit with the same key and payload, submit with the same key and another payload",
        "one key names one job",
        (("submit_jobs", "v_taken := not found;", "v_taken := false;"),),
    ),
    Flaw(
        "a job that was parked while its type was resumed is rung by nobody",
        "claim of a paused type, resume, another claim",
        "a job comes to its end",
        (("due", "perform unpark(null, null, p_limit);", ""),),
    ),
    Flaw(
        "M2: a resource counts as free because its holder's lease looks over",
        "late complete of a holder, expire, claim of another job",
        "no more attempts hold a resource than it has places",
        (
            (
                "take_resources",
                "exists (select from attempt a where a.id = u.attempt and a.closed_at is null) as held",
                "exists (select from job_state z where z.attempt_id = u.attempt and z.lease_until > t) as held",
            ),
        ),
    ),
    Flaw(
        "M2: a result is accepted without a look at its resource",
        "late complete of a holder, expire, claim of another job",
        "no result is accepted once another attempt has taken its resource",
        (("complete", "v_refusal := keeps_resources(s, false);", "v_refusal := null;"),),
    ),
    Flaw(
        "M2: a transaction completes without a look at its resource",
        "late complete_v1 of a holder, expire, claim of another job",
        "no result is accepted once another attempt has taken its resource",
        (("hold_place_or_raise", "v_standing := keeps_resources(s, true);", "v_standing := null;"),),
    ),
    Flaw(
        "a completion waits for its resource",
        "late complete of a holder, expire, claim of another job",
        "no batch waits",
        (("keeps_resources", f"{_NUMBER} for update skip locked;", f"{_NUMBER} for update;"),),
    ),
    Flaw(
        "T4: a claim waits for a resource",
        "claims of two jobs, claims of two others with crossed resources, due",
        "no batch waits",
        (("take_resources", "order by x.place for update skip locked", "order by x.place for update"),),
    ),
    Flaw(
        "newcomers pass those who wait for a resource",
        "late complete of a former holder, claim of the next, claim of a newcomer",
        "nobody takes a resource before those who wait for it longer",
        (("has_turn", "count(*) < least(p_limit, min(o.places)) - p_held", "count(*) >= 0"),),
    ),
    Flaw(
        "wake: nobody looks at the lines but whoever leaves one",
        "complete of a holder, relay whose message is lost, due",
        "a job comes to its end",
        (("due", "perform wake_waiters(p_limit);", ""),),
    ),
    Flaw(
        "wake: a turn lasts until its waiter comes",
        "complete of a holder, relay whose message is lost, due",
        "a job comes to its end",
        (("is_late", "coalesce(w.rung_at <= t - interval '5 seconds', false)", "false"),),
    ),
)


def with_flaw(triple: Triple, flaw: Flaw) -> Triple:
    """The triple whose sessions are to meet the flaw."""
    parts = triple.parts if flaw.instead is None else (flaw.instead, *triple.parts[1:])
    return replace(triple, parts=tuple(replace(part, waits=part.waits or flaw.may_wait) for part in parts))


def _product(function: str) -> str:
    return (_SQL / f"{function}.sql").read_text()


@contextmanager
def planted(stage: Stage, flaw: Flaw) -> Generator[None]:
    """The ledger with the flaw; afterwards it is the product again."""
    functions = {function: _product(function) for function, _, _ in flaw.edits}
    wrong = dict(functions)
    for function, right, left_out in flaw.edits:
        assert wrong[function].count(right) == 1, (
            f"{function}.sql does not say {right!r} once: plant {flaw.name!r} anew"
        )
        wrong[function] = wrong[function].replace(right, left_out)
    stage.replace(*wrong.values(), *(_trigger(name, "disable") for name in flaw.without_triggers))
    try:
        yield
    finally:
        stage.replace(*functions.values(), *(_trigger(name, "enable") for name in flaw.without_triggers))


def _trigger(name: str, how: str) -> str:
    table, _, _ = name.partition("_")
    return f"alter table {table} {how} trigger {name}"
