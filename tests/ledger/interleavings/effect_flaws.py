"""Flaws of effects that the triples must catch, as in `flaws.py`.

A9 and so on are runs of the model checker, C4 and so on sections of its review.
Those that were "once in the product" were there until somebody wondered.
"""

from __future__ import annotations

from typing import Final

from tests.ledger.interleavings.effect_promises import ONCE
from tests.ledger.interleavings.flaws import Flaw

_LOCKED: Final = "where x.job_id = p_jobs[i] for update skip locked;"
_UNLOCKED: Final = "where x.job_id = p_jobs[i];"
_RUNNING_ALONE: Final = "an effect is permitted to the running attempt alone"
_UNKNOWN_THERE: Final = "an effect that may not be repeated is unknown in running jobs and reviews alone"
_NO_CALL_FAILS: Final = "no call fails"

FLAWS: Final = (
    Flaw(
        "C9: an intent is granted without a lock",
        "effect, release, claim and effect",
        _RUNNING_ALONE,
        (("effect_intent", _LOCKED, _UNLOCKED),),
        may_wait=True,
    ),
    Flaw(
        "C9: an intent is granted to an attempt that was given up",
        "effect, expire, claim and effect",
        _RUNNING_ALONE,
        (("effect_intent", "when s.state <> 'running' or lease_is_over(s, v_lease, t) then 'lease_expired'", ""),),
    ),
    Flaw(
        "C9: an intent is granted to an attempt that another has followed",
        "effect, release, claim and effect",
        _RUNNING_ALONE,
        (
            (
                "effect_intent",
                "when s.attempt_id is distinct from p_attempts[i] or s.fencing_number <> p_fencing_numbers[i] then",
                "when false then",
            ),
        ),
    ),
    Flaw(
        "A9, A10, A18: an open intent of another attempt stops nobody",
        "claim and effect, cancel, late outcome of an effect that was given up",
        ONCE,
        (
            ("effect_intent", "if is_unknown(e) and not (v_own", "if false and not (v_own"),
            ("effect_intent", "elsif e.outcome is null and e.job_id is not null and not v_own", "elsif false"),
        ),
    ),
    Flaw(
        "C9: a key that the outside knows no longer is used again",
        "late outcome, cancel, claim and effect when its key is no longer known",
        ONCE,
        (("effect_intent", "and coalesce(e.valid_until >= t + v_limit, true)", ""),),
    ),
    Flaw(
        "once in the product: an intent is granted though an earlier try is in doubt",
        "late outcome of an earlier try, claim and effect, expire",
        "no effect is permitted while one of its tries is in doubt",
        (("effect_intent", "desc, is_unknown(x) desc, x.try desc", "desc, x.try desc"),),
    ),
    Flaw(
        "C9: a second outcome replaces the first",
        "outcome, another outcome, expire",
        "what is written once stays",
        (
            (
                "effect_outcome",
                "if e.job_id is not null and e.outcome is null and not v_others",
                "if e.job_id is not null",
            ),
        ),
        ("effect_known_once",),
    ),
    Flaw(
        "C9: nobody looks at a second outcome that says otherwise",
        "outcome, another outcome, expire",
        "an outcome that contradicts is kept, and marks its effect",
        (
            (
                "effect_outcome",
                "update effect x set contradicted_at = t where",
                "update effect x set contradicted_at = null where",
            ),
        ),
    ),
    Flaw(
        "C9: a second outcome that says otherwise opens no review",
        "outcome, another outcome, expire",
        "the row knows whether an effect is unknown",
        (
            (
                "effect_outcome",
                "if s.state not in ('succeeded', 'cancelled') and unknown_effects",
                "if false and unknown_effects",
            ),
        ),
    ),
    Flaw(
        "C9: an outcome of a fenced off attempt is not taken",
        "late outcome, expire, claim and effect",
        "an outcome contradicts another one, not none",
        (
            (
                "effect_outcome",
                "if e.job_id is not null and e.outcome is null and not v_others then",
                "if e.job_id is not null and e.outcome is null and s.state = 'running' then",
            ),
        ),
    ),
    Flaw(
        "an outcome is recorded without a lock",
        "complete with an unknown effect, its outcome, expire",
        "a review stays open only while something is unknown",
        (("effect_outcome", _LOCKED, _UNLOCKED),),
        may_wait=True,
    ),
    Flaw(
        "C9: a fact that arrives late does not close the review",
        "late outcome, cancel, claim in review",
        "a review stays open only while something is unknown",
        (("effect_known", "if s.state = 'review' then", "if false then"),),
    ),
    Flaw(
        "the first of two facts closes the review",
        "outcomes of two effects, it did not happen",
        _UNKNOWN_THERE,
        (("effect_known", "and unknown_effects(s.job_id) is null then", "then"),),
    ),
    Flaw(
        "A11: a cancel hides an unknown effect",
        "fail with an unknown effect, its outcome, cancel",
        _UNKNOWN_THERE,
        (
            (
                "decide",
                "if p_ended <> 'waiting' and s.unknown_effect then",
                "if p_ended <> 'waiting' and s.unknown_effect and s.cancel is null then",
            ),
        ),
    ),
    Flaw(
        "A11: a deadline hides an unknown effect",
        "fail with an unknown effect, the deadline and due, its outcome",
        _UNKNOWN_THERE,
        (
            (
                "decide",
                "if p_ended <> 'waiting' and s.unknown_effect then",
                "if p_ended <> 'waiting' and s.unknown_effect and coalesce(s.deadline > t, true) then",
            ),
        ),
    ),
    Flaw(
        "A10, A20: a release does not look at an unknown effect",
        "release with an unknown effect, its outcome, claim",
        _UNKNOWN_THERE,
        (
            (
                "decide",
                "if p_ended <> 'waiting' and s.unknown_effect then",
                "if p_ended not in ('waiting', 'released') and s.unknown_effect then",
            ),
        ),
    ),
    Flaw(
        "C4: a lost attempt's unknown effect does not lead to review",
        "effect, renew, expire",
        _UNKNOWN_THERE,
        (
            (
                "decide",
                "if p_ended <> 'waiting' and s.unknown_effect then",
                "if p_ended not in ('waiting', 'lost') and s.unknown_effect then",
            ),
        ),
    ),
    Flaw(
        "C9: a result is accepted though its own effect is unknown",
        "complete with an unknown effect, its outcome, expire",
        _UNKNOWN_THERE,
        (("refusal_of", "when s.unknown_effect then 'unknown_effect'", "when false then ''"),),
    ),
    Flaw(
        "C10: a decision does not look whether a fact has moved the record",
        "late outcome that leaves the review open, it did not happen, cancel",
        "a decision is made on the record that was read",
        (("review_resolve", "if p_version is distinct from job_version(v.job_id) then", "if false then"),),
    ),
    Flaw(
        "C10: a decision does not look whether the review is still open",
        "late outcome, it did not happen, it happened",
        _NO_CALL_FAILS,
        (
            ("review_resolve", "if v.closed_at is not null then", "if false then"),
            ("review_resolve", "if p_version is distinct from job_version(v.job_id) then", "if false then"),
        ),
    ),
    Flaw(
        'C10: "it did not happen" says so of the job alone',
        "late outcome and success, it did not happen, claim and effect",
        _UNKNOWN_THERE,
        (("review_resolve", "perform effects_decided(s, 'did_not_happen', 'review', p_reason, t);", ""),),
    ),
    Flaw(
        "once in the product: a job that a reconciler has ended still names its attempt",
        "a reconciler found that it happened, it did not happen, late outcome and success",
        _NO_CALL_FAILS,
        (("review_found", "s.attempt_id := null;", ""),),
    ),
    Flaw(
        "a reconciler does not look whether the review is still open",
        "a reconciler found that it happened, it did not happen, late outcome and success",
        _NO_CALL_FAILS,
        (("review_found", "if v.closed_at is not null or v.asked <> p_asked then", "if false then"),),
    ),
    Flaw(
        "C9: a reconciler is believed while the call may be under way",
        "reconciler, call that is under way, claim and effect after its time limit",
        ONCE,
        (("review_found", "if v_believed_at > coalesce(v.ask_at, t) then", "if false then"),),
    ),
    Flaw(
        "once in the product: a reconciler that asked before the call's time limit is believed after it",
        "reconciler, call that is under way, claim and effect after its time limit",
        ONCE,
        (("review_found", "if v_believed_at > coalesce(v.ask_at, t) then", "if v_believed_at > t then"),),
    ),
    Flaw(
        'once in the product: "it did not happen" of one attempt speaks for another with the same key',
        "it did not happen of the first, it happened of the second, claim and effect with the same key",
        ONCE,
        (("effect_outcome", "v_others := p_outcomes[i] = 'did_not_happen' and", "v_others := false and"),),
    ),
    Flaw(
        "once in the product: a refused result moves a waiting job to review",
        "late outcome and success, it did not happen, claim and effect",
        _NO_CALL_FAILS,
        (("refuse_result", "v_waits_on := s.state = 'queued' and d.state = 'review' or", "v_waits_on :="),),
    ),
    Flaw(
        "once in the product: a late outcome changes the row of a job that has ended",
        "replay, cancel, late outcome of an effect that was given up",
        _NO_CALL_FAILS,
        (("effect_known", "and s.state not in ('succeeded', 'cancelled')", ""),),
    ),
    Flaw(
        "once in the product: a success is adopted though what became of its effect is unknown",
        "adopt, replay, late outcome of an effect that was given up",
        _UNKNOWN_THERE,
        (("adopt", "when s.unknown_effect then", "when false then"),),
    ),
    Flaw(
        "an adoption does not look whether the job was replayed",
        "adopt, replay, discard",
        "of a replay and an adoption exactly one wins",
        (("adopt", "when s.state <> 'failed' then", "when false then"),),
    ),
    Flaw(
        "a replay does not look whether the job was adopted",
        "adopt, replay, discard",
        _NO_CALL_FAILS,
        (("dead_replay", "if s.state <> 'failed' then", "if false then"),),
    ),
    Flaw(
        "a discard does not look whether the job still is among the dead",
        "adopt, replay, discard",
        "a job is discarded from among the dead",
        (("dead_discard", "elsif s.state <> 'failed' then", "elsif false then"),),
    ),
)
