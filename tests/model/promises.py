"""What no step of the model may break: looked at on every step that can happen anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.effects import is_unknown
from tests.model.facts import FINISHED

if TYPE_CHECKING:
    from tests.model.facts import Attempt, Bounds, Ledger, Try
    from tests.model.search import Step


def broken(before: Ledger, after: Ledger, step: Step, bounds: Bounds) -> str | None:
    """The promise that this step breaks."""
    if before is after or before == after:
        return None
    by_person = step.what.startswith("a person")
    return (
        _facts(before, after)
        or _charges(after)
        or _ends(before, after, step, decided=by_person or step.what.startswith("found "))
        or _outside(before, after, bounds, by_person=by_person)
        or (_effects(before, after, bounds) if bounds.effect and not bounds.outside_alone else None)
    )


def _facts(before: Ledger, after: Ledger) -> str | None:
    if sum(attempt.verdict == "accepted" for attempt in after.attempts) > 1:
        return "two results are accepted"
    newest = max(attempt.number for attempt in after.attempts)
    for old, new in zip(before.attempts, after.attempts, strict=True):
        if old is new:
            continue
        if old.closed and new.closed != old.closed:
            return f"an attempt closed as {old.closed} becomes {new.closed}"
        if old.said and (old.said, old.verdict) != (new.said, new.verdict):
            return f"a report {old.verdict} before is {new.verdict} now"
        if new.verdict == "accepted" != old.verdict:
            if new.number != newest:
                return "the accepted attempt does not hold the largest fencing number"
            if before.job.state in FINISHED:
                return "a result is accepted into a finished job"
    return None


def _charges(after: Ledger) -> str | None:
    charged = sum(_counts(attempt) for attempt in after.attempts)
    if after.job.charged != charged:
        return f"{after.job.charged} charged, {charged} attempts that count"
    if after.job.charged > after.job.allowed:
        return "more attempts are charged than are allowed"
    return None


def _counts(attempt: Attempt) -> bool:
    return attempt.number > 0 and attempt.charged


def _ends(before: Ledger, after: Ledger, step: Step, *, decided: bool) -> str | None:
    old, new = before.job, after.job
    if old.state in FINISHED and new.state != old.state and step.what != "a person decides: replay":
        return f"a job that has {old.state} becomes {new.state}"
    if old.state != new.state:
        if new.cancelled and new.state == "succeeded" and not decided:
            return "a result is accepted in spite of a cancel request"
        if new.cancelled and new.state == "queued":
            return "a cancel request is forgotten"
        if new.deadline and new.state == "succeeded" and not decided:
            return "a result is accepted after the deadline"
    return None


def _outside(before: Ledger, after: Ledger, bounds: Bounds, *, by_person: bool) -> str | None:
    old, new = before.outside, after.outside
    ended = before.job.state not in FINISHED and after.job.state in {"failed", "cancelled"}
    if (bounds.effect or bounds.once) and new.runs > old.runs and new.runs > new.runs_allowed:
        return "unsafe work is done again though nobody said that it may be"
    if ended and not by_person and not after.job.given_up and any(map(_is_open, after.tries)):
        return "a job ends and hides that the outcome of its effect is unknown"
    if bounds.forbids_false_reviews and after.job.state == "review" != before.job.state and new.runs == 0:
        return "a review is opened for work that never began"
    if new.paid_stale and not old.paid_stale:
        return "a handler's transaction commits though its attempt was given up"
    if bounds.transaction == "completes":
        if new.paid > 1:
            return "a handler's transaction commits twice"
        if after.job.state == "succeeded" != before.job.state and new.paid == 0:
            return "a job succeeds without its handler's writes"
    return None


def _is_open(one: Try) -> bool:
    return not one.outcome and not one.repeatable


def _effects(before: Ledger, after: Ledger, bounds: Bounds) -> str | None:
    job = after.job
    for old, new in zip(before.tries, after.tries, strict=False):
        if old.outcome and (old.outcome, old.by) != (new.outcome, new.by):
            return "what became of an effect is written again"
        if new.holders != old.holders and (not old.repeatable or before.job.state != "running"):
            return "an effect that may not be repeated is permitted again"
    permitted = [one.holders for one in after.tries] != [one.holders for one in before.tries]
    if permitted and any(one.doubt == "open" for one in before.tries):
        return "an effect is permitted while one of its tries is in doubt"
    if permitted and (before.job.state, before.job.attempt) != ("running", after.tries[-1].holders[-1]):
        return "an effect is permitted to an attempt that does not run"
    if job.state not in {"running", "review"} and not job.given_up and any(map(_is_open, after.tries)):
        return "an effect is unknown, and its job neither runs nor is in review"
    if job.state not in {"succeeded", "cancelled"} and job.unknown != any(map(is_unknown, after.tries)):
        return "the row does not know whether an effect is unknown"
    if job.state == "succeeded" != before.job.state and any(map(is_unknown, after.tries)):
        return "a success hides an unknown effect"
    said = after.attempts[job.attempt - 1].said if job.attempt else ""
    if job.state == "review" and not job.unknown and said != "unknown" and not (bounds.once and job.started):
        return "a review waits for a person though nothing is unknown"
    return None
