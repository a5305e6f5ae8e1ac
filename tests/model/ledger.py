"""The ledger of the model: each function one atomic transaction, its answer the word that the SQL gives.

Written from the rules of the design, not from the SQL; replaying the model's traces on the SQL keeps them in step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.effects import Effects
from tests.model.facts import FINISHED, Attempt, Job, Ledger

if TYPE_CHECKING:
    from tests.model.facts import Bounds, Protocol

    Answer = tuple[Ledger, str]

# What a handler says of its end, and whether that says that it may be repeated.
CLASSIFIED = ("temporary", "invalid", "effect unknown")


def granted(attempt: Attempt) -> bool:
    """Whether the ledger knows the attempt."""
    return attempt.number > 0


class Functions:
    """The functions under one protocol."""

    def __init__(self, protocol: Protocol, bounds: Bounds) -> None:
        self.protocol = protocol
        self.bounds = bounds
        self.effects = Effects(self)

    # A worker's calls.

    def call(self, ledger: Ledger, call: str, attempt: int) -> tuple[Ledger, str]:
        """One request of a worker, by its name."""
        name, _, said = call.partition(" ")
        match name:
            case "claim":
                return self.claim(ledger, attempt)
            case "start":
                return self.start(ledger, attempt)
            case "complete":
                return self.complete(ledger, attempt)
            case "fail":
                return self.fail(ledger, attempt, said)
            case "outcome":
                return self.effects.outcome(ledger, attempt, said)
            case _:
                return self.release(ledger, attempt)

    def claim(self, ledger: Ledger, attempt: int) -> Answer:
        """granted | lost | held | review | finished | not_due"""
        job, mine = ledger.job, ledger.attempts[attempt - 1]
        if granted(mine):
            holds = job.attempt == attempt and job.state == "running" and not mine.said
            return ledger, "granted" if holds else "lost"
        if job.state == "running" and job.lease == "over":
            ledger = self._take_over(ledger) if self.protocol.takes_over else self.expire(ledger)[0]
        ledger = self._end_at_deadline(ledger)
        job = ledger.job
        if job.state == "queued" and (job.deadline or (job.waiting == "last" and job.ripe)):
            ledger = self._end_waiting(ledger)
            job = ledger.job
        if job.state != "queued":
            return ledger, {"running": "held", "review": "review"}.get(job.state, "finished")
        if not job.ripe:
            return ledger, "not_due"
        number = 1 + max(other.number for other in ledger.attempts)
        job = job._replace(
            state="running",
            waiting="",
            ripe=True,
            lease="live",
            attempt=attempt,
            started=False,
            charged=job.charged + 1,
        )
        return _with(ledger._replace(job=job), attempt, mine._replace(number=number)), "granted"

    def start(self, ledger: Ledger, attempt: int) -> Answer:
        """started | lost | cancel_requested"""
        job = ledger.job
        if job.state != "running" or not self._holds_place(ledger, attempt):
            return ledger, "lost"
        if job.started:
            return ledger, "started"
        if job.deadline or job.lease == "over":
            return self._end_at_deadline(ledger), "lost"
        if job.cancelled and self.protocol.obeys_cancel:
            return ledger, "cancel_requested"
        return ledger._replace(job=job._replace(started=True)), "started"

    def complete(self, ledger: Ledger, attempt: int) -> Answer:
        """accepted | rejected | already_reported | unknown"""
        job = ledger.job
        if self.protocol.guard == "state" and job.state == "running":
            return self._accept(ledger, attempt), "accepted"
        if not self._holds_place(ledger, attempt):
            return self._answer_of(ledger, attempt, "completed")
        unknown = job.unknown and self.protocol.result_obeys_unknown
        by_deadline = job.deadline and self.protocol.result_obeys_deadline
        if not unknown and not by_deadline and not (job.cancelled and self.protocol.result_obeys_cancel):
            return self._accept(ledger, attempt), "accepted"
        by_cancel = not unknown and not by_deadline
        ledger = self._report(ledger, attempt, "completed", "rejected", "cancelled" if by_cancel else "failed")
        decided = self.decide(ledger, "refused")
        waits_on = job.state == "queued" and decided.job.state == "review"  # whoever runs it next finds it unknown
        return ledger if waits_on else decided, "rejected"

    def fail(self, ledger: Ledger, attempt: int, said: str) -> Answer:
        """recorded | rejected | already_reported | unknown; said: temporary, invalid, unknown"""
        if not self._holds_place(ledger, attempt):
            return self._answer_of(ledger, attempt, said)
        if ledger.job.state != "running":
            return self._report(ledger, attempt, said, "recorded", "failed"), "recorded"
        if said in CLASSIFIED and self.bounds.once:  # the handler itself says that it may be repeated
            outside = ledger.outside._replace(runs_allowed=ledger.outside.runs_allowed + 1)
            ledger = ledger._replace(outside=outside)
        decided = self.decide(ledger, said)
        how = "cancelled" if decided.job.state == "cancelled" else "failed"
        return self._report(decided, attempt, said, "recorded", how), "recorded"

    def release(self, ledger: Ledger, attempt: int) -> Answer:
        """recorded | rejected | already_reported | unknown"""
        if not self._holds_place(ledger, attempt):
            return self._answer_of(ledger, attempt, "released")
        if ledger.job.state != "running":
            return self._report(ledger, attempt, "released", "recorded", "released"), "recorded"
        given_back = ledger._replace(job=ledger.job._replace(charged=ledger.job.charged - 1))
        decided = self.decide(given_back, "released")
        how = "cancelled" if decided.job.state == "cancelled" else "released"
        decided = self._report(decided, attempt, "released", "recorded", how)
        return _with(decided, attempt, decided.attempts[attempt - 1]._replace(charged=False)), "recorded"

    def asked(self, ledger: Ledger, attempt: int) -> Answer:
        """reported | not_reported"""
        return ledger, "reported" if ledger.attempts[attempt - 1].said else "not_reported"

    def hand_back(self, ledger: Ledger) -> Answer:
        """rung | nothing"""
        if ledger.job.state == "queued" and ledger.job.waiting == "delivery":
            return ledger._replace(rings=ledger.rings + 1), "rung"
        return ledger, "nothing"

    # A handler's own transaction: its writes and the fence, or the result, in one COMMIT.

    def complete_v1(self, ledger: Ledger, attempt: int) -> Answer:
        """accepted | BJ002 | BJ003"""
        outside, mine = ledger.outside, ledger.attempts[attempt - 1]
        if mine.said:
            if mine.verdict == "accepted" and not self.protocol.repeated_transaction_raises:
                return ledger._replace(outside=outside._replace(paid=outside.paid + 1)), "accepted"
            return ledger, "BJ002"
        if not self._holds_place(ledger, attempt) or ledger.job.deadline or ledger.job.cancelled:
            return ledger, "BJ003"
        return self._accept(ledger._replace(outside=outside._replace(paid=outside.paid + 1)), attempt), "accepted"

    def fence_v1(self, ledger: Ledger, attempt: int) -> Answer:
        """held | BJ002 | BJ003"""
        job, outside = ledger.job, ledger.outside
        if ledger.attempts[attempt - 1].said:
            return ledger, "BJ002"
        stale = job.state != "running" and self.protocol.fence_needs_running
        if stale or not self._holds_place(ledger, attempt) or job.deadline or job.cancelled:
            return ledger, "BJ003"
        gone = outside.paid_stale or job.state != "running"
        return ledger._replace(outside=outside._replace(paid=1, paid_stale=gone)), "held"

    # A coordinator's, and a person's.

    def expire(self, ledger: Ledger) -> Answer:
        """gave up | passed over"""
        job = ledger.job
        if job.state != "running" or job.lease != "over":
            return ledger, "passed over"
        closed = ledger.attempts[job.attempt - 1]._replace(closed="timed_out")
        return self.decide(_with(ledger, job.attempt, closed), "lost"), "gave up"

    def due(self, ledger: Ledger) -> Answer:
        """queued | failed | review | cancelled | passed over"""
        job = ledger.job
        if job.state == "running" and job.deadline:
            ledger = self._end_at_deadline(ledger)
            return ledger, ledger.job.state
        if job.state != "queued" or not (job.deadline or (job.waiting != "delivery" and job.ripe)):
            return ledger, "passed over"
        ledger = self._end_waiting(ledger)
        return ledger, ledger.job.state

    def cancel(self, ledger: Ledger) -> Answer:
        """cancelled | requested | refused"""
        job = ledger.job
        if job.state in FINISHED:
            return ledger, "refused"
        job = job._replace(cancelled=True)
        if job.state == "queued":
            return ledger._replace(job=_ended(job, "cancelled")), "cancelled"
        return ledger._replace(job=job), "requested"

    def decided(self, ledger: Ledger, decision: str) -> Ledger:
        """A person closes a review: retry, happened, give up; or replays a failed job."""
        job, outside = ledger.job, ledger.outside
        match decision:
            case "happened":
                ended = _ended(job, "succeeded")._replace(attempt=0)
                return self.effects.decided(ledger, "happened")._replace(job=ended._replace(unknown=False))
            case "give up":
                return ledger._replace(job=_ended(job, "failed")._replace(attempt=0, given_up=True))
            case "replay":
                allowed, again = job.charged + 1, _queued(job, "delivery")._replace(cancelled=False)
                again = again._replace(attempt=0, started=False) if self.protocol.replay_clears else again
                return _rung(ledger._replace(job=again._replace(allowed=allowed)))
            case _:
                outside = outside._replace(runs_allowed=outside.runs_allowed + 1)
                ledger = self.effects.decided(ledger, "did not happen")._replace(outside=outside)
                job = ledger.job._replace(allowed=max(job.allowed, job.charged + 1))
                if job.cancelled or job.deadline:
                    return ledger._replace(job=_ended(job, "cancelled" if job.cancelled else "failed"))
                return _rung(ledger._replace(job=_queued(job, "delivery")))

    # The rules.

    def _holds_place(self, ledger: Ledger, attempt: int) -> bool:
        """Rule R1 on the row."""
        mine = ledger.attempts[attempt - 1]
        if not granted(mine) or ledger.job.attempt != attempt or ledger.job.state in FINISHED:
            return False
        return not (self.protocol.reports_once and mine.said)

    def _accept(self, ledger: Ledger, attempt: int) -> Ledger:
        ledger = self._report(ledger, attempt, "completed", "accepted", "completed")
        return ledger._replace(job=_ended(ledger.job, "succeeded"))

    def _answer_of(self, ledger: Ledger, attempt: int, said: str) -> Answer:
        """To a report that finds no open place."""
        mine = ledger.attempts[attempt - 1]
        if not granted(mine):
            return ledger, "unknown"
        if mine.said and (self.protocol.reports_once or mine.verdict == "accepted"):
            return ledger, mine.verdict if mine.said == said else "already_reported"
        return self._report(ledger, attempt, said, "rejected", "failed"), "rejected"

    def _report(self, ledger: Ledger, attempt: int, said: str, verdict: str, closes_as: str) -> Ledger:
        mine = ledger.attempts[attempt - 1]
        closed = mine.closed or closes_as
        if not self.protocol.two_facts and mine.closed == "timed_out":
            closed = "completed" if verdict == "accepted" else "rejected"
        if self.bounds.reconciler and not mine.closed:  # its call began before it said so, however often it had asked
            tries = tuple(one._replace(limit=one.limit and attempt not in one.holders) for one in ledger.tries)
            ledger = ledger._replace(tries=tries)
        return _with(ledger, attempt, mine._replace(said=said, verdict=verdict, closed=closed))

    def decide(self, ledger: Ledger, ended: str) -> Ledger:
        """Rule R8: where the job goes when its attempt ended so: lost, refused, released, or what its handler said."""
        job, protocol = ledger.job, self.protocol
        heeded = (job.cancelled and protocol.obeys_cancel) or job.deadline
        if self._unknown(ledger, ended) and (protocol.unknown_first or not heeded):
            reviews = job.reviews + (self.bounds.reconciler and job.state != "review")
            return ledger._replace(job=job._replace(state="review", waiting="", lease="", reviews=reviews))
        if job.cancelled and protocol.obeys_cancel:
            return ledger._replace(job=_ended(job, "cancelled"))
        if job.deadline or ended == "invalid":
            return ledger._replace(job=_ended(job, "failed"))
        if ended == "released":
            back = ledger._replace(job=_queued(job, "delivery"))
            return _rung(back) if protocol.rings_on_release else back
        spent = job.charged >= job.allowed
        if spent and ended != "lost":
            return ledger._replace(job=_ended(job, "failed"))
        return ledger._replace(job=_queued(job, "last" if spent else "retry"))

    def _unknown(self, ledger: Ledger, ended: str) -> bool:
        if ended == "released" and not self.protocol.release_looks:
            return False
        if ended == "unknown" or ledger.job.unknown:
            return True
        started = ledger.job.started or self.protocol.claimed_counts_as_started
        return self.bounds.once and started and ended not in CLASSIFIED

    def _end_waiting(self, ledger: Ledger) -> Ledger:
        job = ledger.job
        if job.deadline or job.waiting == "last":
            return ledger._replace(job=_ended(job, "failed"))
        return _rung(ledger._replace(job=_queued(job, "delivery")))

    def _end_at_deadline(self, ledger: Ledger) -> Ledger:
        """Whoever touches a running job past its deadline ends its attempt, which may still report, and is rejected."""
        if ledger.job.state != "running" or not ledger.job.deadline:
            return ledger
        attempt = ledger.job.attempt
        closed = ledger.attempts[attempt - 1]._replace(closed="timed_out")
        return self.decide(_with(ledger, attempt, closed), "deadline")

    def _take_over(self, ledger: Ledger) -> Ledger:
        attempt = ledger.job.attempt
        closed = ledger.attempts[attempt - 1]._replace(closed="timed_out")
        return _with(ledger, attempt, closed)._replace(job=_queued(ledger.job, "delivery"))


def _with(ledger: Ledger, attempt: int, changed: Attempt) -> Ledger:
    attempts = ledger.attempts
    return ledger._replace(attempts=(*attempts[: attempt - 1], changed, *attempts[attempt:]))


def _queued(job: Job, waiting: str) -> Job:
    return job._replace(state="queued", waiting=waiting, ripe=waiting == "delivery", lease="")


def _ended(job: Job, state: str) -> Job:
    attempt = 0 if state == "cancelled" else job.attempt
    return job._replace(state=state, waiting="", ripe=True, lease="", attempt=attempt)


def _rung(ledger: Ledger) -> Ledger:
    return ledger._replace(rings=ledger.rings + 1)
