"""How an attempt ended, in one word: for spans, metrics and logs."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from brokerjobs.rules.states import JobState, ReportAs
from brokerjobs.rules.verdicts import ReportVerdict


class Outcome(StrEnum):
    """The outcomes of attempts; tail samplers keep by these, not by an error status alone."""

    ACCEPTED = "accepted"  # its result is the job's
    RETRY = "retry"  # it failed, and its job will be tried again
    FAILED = "failed"  # it failed, and its job with it
    REVIEW = "review"  # what became of it is unknown: its job is in review
    CANCELLED = "cancelled"  # it ended since its job was to be cancelled
    RELEASED = "released"  # it was given back: drain, snooze or not here
    REJECTED = "rejected"  # its report came too late, or was refused: kept as evidence
    TIMED_OUT = "timed_out"  # its lease ran out
    LOST = "lost"  # its lease was gone before its handler began: nothing was done
    LEFT = "left"  # its worker ended without it: what becomes of it is said by whoever finds its lease over


MEANINGS: Final = {
    Outcome.ACCEPTED: "its result is the job's",
    Outcome.RETRY: "it failed, and its job will be tried again",
    Outcome.FAILED: "it failed, and its job with it",
    Outcome.REVIEW: "what became of it is unknown: its job is in review",
    Outcome.CANCELLED: "it ended since its job was to be cancelled",
    Outcome.RELEASED: "it was given back: drain, snooze or not here",
    Outcome.REJECTED: "its report came too late or was refused: kept as evidence, with the reason",
    Outcome.TIMED_OUT: "its lease ran out; said by whoever gave it up, or by a failure that came after that",
    Outcome.LOST: "its lease was gone before its handler began: nothing was done",
    Outcome.LEFT: "its worker ended and left it to its lease; on spans alone",
}

ERRORS: Final = frozenset({Outcome.RETRY, Outcome.FAILED, Outcome.REVIEW, Outcome.REJECTED, Outcome.TIMED_OUT})
"""Those whose spans have the status ERROR."""


def outcome_of(said: str, verdict: str, state: str | None, *, late: bool = False) -> Outcome:
    """The outcome of an attempt that said `said` (ReportAs), from the ledger's verdict and the job's state after it.

    All are the ledger's words, of rules.states and rules.verdicts; a verdict that is none here counts as rejected.
    """
    match verdict:
        case ReportVerdict.ACCEPTED:
            return Outcome.ACCEPTED
        case ReportVerdict.RECORDED if late:
            return Outcome.TIMED_OUT  # it was given up before, and its failure has changed nothing
        case ReportVerdict.RECORDED:
            return _recorded(said, state)
        case _:
            return Outcome.REJECTED


def _recorded(said: str, state: str | None) -> Outcome:
    match state:
        case JobState.REVIEW:
            return Outcome.REVIEW
        case JobState.CANCELLED:
            return Outcome.CANCELLED
        case JobState.QUEUED:
            return Outcome.RELEASED if said == ReportAs.RELEASED else Outcome.RETRY
        case _:
            return Outcome.FAILED
