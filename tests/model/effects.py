"""Effects in the ledger of the model: what `effect_intent`, `effect_outcome` and whoever decides about a review answer.

One effect of one name, in tries: it is tried again once it is known not to have happened.  Written from the rules of
the design, as the rest of the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.facts import FINISHED, Try

if TYPE_CHECKING:
    from tests.model.facts import Bounds, Ledger, Protocol
    from tests.model.ledger import Functions

    Answer = tuple[Ledger, str]


def is_unknown(one: Try) -> bool:
    """Must somebody say what became of it before it may be tried again?"""
    return (not one.outcome and not one.repeatable) or one.doubt == "open"


def any_unknown(ledger: Ledger) -> bool:
    """Whether the job has such a try."""
    return any(map(is_unknown, ledger.tries))


def own_try(ledger: Ledger, attempt: int) -> int | None:
    """The try that an attempt was permitted: where it stands."""
    return next((n for n, one in enumerate(ledger.tries) if attempt in one.holders), None)


class Effects:
    """The functions that speak of effects, under one protocol."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.protocol: Protocol = functions.protocol
        self.bounds: Bounds = functions.bounds

    def intent(self, ledger: Ledger, attempt: int) -> Answer:
        """granted | happened | unknown | lost | "lost, permitted before": an intent of its own is open"""
        job, own = ledger.job, own_try(ledger, attempt)
        at = own if own is not None else self._looked_at(ledger)
        one = None if at is None else ledger.tries[at]
        if self._is_lost(ledger, attempt, permitted=own is not None):
            return ledger, "lost, permitted before" if own is not None and one and not one.outcome else "lost"
        if one is not None and at is not None:
            if one.doubt == "open" if own is not None else self._stops(one):
                narrowed = _with(ledger, at, one._replace(repeatable=False))
                return narrowed._replace(job=job._replace(unknown=True)), "unknown"
            if one.outcome == "happened":
                return ledger, "happened"
            if own is not None:
                return ledger, "lost" if one.outcome else "granted"
        if one is None or at is None or one.outcome:
            one, at = Try(repeatable=self.bounds.effect == "repeatable"), len(ledger.tries)
        permitted = one._replace(holders=(*one.holders, attempt), limit=False)
        unknown = job.unknown or not one.repeatable
        return _with(ledger, at, permitted)._replace(job=job._replace(unknown=unknown)), "granted"

    def outcome(self, ledger: Ledger, attempt: int, said: str) -> Answer:
        """A fact about the world, taken however late and however fenced off: recorded | contradicts"""
        at = own_try(ledger, attempt)
        assert at is not None
        one, job = ledger.tries[at], ledger.job
        fenced_off = job.state != "running" or job.attempt != attempt
        if fenced_off and not self.protocol.late_outcomes:
            return ledger, "recorded"
        others = [other for other in one.holders if other != attempt and other not in one.denied]
        speaks_for_itself = said == "did not happen" and one.outcome != said and one.by != attempt and bool(others)
        if speaks_for_itself and not self.protocol.denial_speaks_for_all:
            return _with(ledger, at, _denied(one, attempt)), "recorded"
        if not one.outcome or self.protocol.last_outcome_wins:
            return self._known(_with(ledger, at, one._replace(outcome=said, by=attempt))), "recorded"
        if one.outcome == said:
            return ledger, "recorded"
        said_no = _denied(one, attempt) if said == "did not happen" else one
        doubted = _with(ledger, at, said_no._replace(doubt=one.doubt or "open"))
        if job.state not in {"succeeded", "cancelled"} and any_unknown(doubted):
            doubted = doubted._replace(job=job._replace(unknown=True))
        return doubted, "contradicts"

    def decided(self, ledger: Ledger, said: str) -> Ledger:
        """What a decision about a review says of everything that is unknown: it happened, or it did not."""
        if not ledger.job.unknown:
            return ledger
        tries = tuple(
            one
            if not is_unknown(one)
            else one._replace(doubt="settled")
            if one.outcome
            else one._replace(outcome=said, by=0)
            for one in ledger.tries
        )
        return ledger._replace(job=ledger.job._replace(unknown=False, given_up=False), tries=tries)

    def found(self, ledger: Ledger, *, happened: bool, in_time: bool) -> Answer:
        """A reconciler says what it saw: decided | too_early. `in_time`: it asked after the calls' time limits."""
        if happened:
            ended = self.decided(ledger, "happened")
            return ended._replace(job=ended.job._replace(state="succeeded", attempt=0)), "decided"
        if not in_time:
            return ledger, "too_early"
        return self.functions.decide(self.decided(ledger, "did not happen"), "temporary"), "decided"

    def _looked_at(self, ledger: Ledger) -> int | None:
        """Of one who was permitted none: one that is unknown before all others, else the last."""
        numbers = range(len(ledger.tries))
        if self.protocol.intent_looks_at_all:
            return max(numbers, key=lambda n: (is_unknown(ledger.tries[n]), n), default=None)
        return max(numbers, default=None)

    def _stops(self, one: Try) -> bool:
        """Whether what became of a try must be known first."""
        if not self.protocol.intent_stops_others:
            return False
        may_repeat = one.repeatable and self.bounds.effect == "repeatable" and not one.forgotten
        return is_unknown(one) or (not one.outcome and not may_repeat)

    def _is_lost(self, ledger: Ledger, attempt: int, *, permitted: bool) -> bool:
        job = ledger.job
        if job.state in FINISHED or job.attempt != attempt or ledger.attempts[attempt - 1].said:
            return True
        if job.state != "running" or job.lease == "over":
            return self.protocol.intent_needs_running
        return not permitted and (job.cancelled or job.deadline)

    def _known(self, ledger: Ledger) -> Ledger:
        """If it was the last unknown one, an open review closes by itself, unless something else is unknown."""
        job = ledger.job
        if not job.unknown or job.state in {"succeeded", "cancelled"} or any_unknown(ledger):
            return ledger
        ledger = ledger._replace(job=job._replace(unknown=False, given_up=False))
        if job.state != "review":
            return ledger
        attempt = ledger.attempts[job.attempt - 1]
        ended = {"timed_out": "lost", "released": "released"}.get(
            attempt.closed, "refused" if attempt.said == "completed" else attempt.said
        )
        return self.functions.decide(ledger, ended)


def _denied(one: Try, attempt: int) -> Try:
    return one if attempt in one.denied else one._replace(denied=(*one.denied, attempt))


def _with(ledger: Ledger, at: int, one: Try) -> Ledger:
    tries = ledger.tries
    return ledger._replace(tries=(*tries[:at], one, *tries[at + 1 :]))
