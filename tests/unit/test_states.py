from __future__ import annotations

from itertools import product

import pytest

from brokerjobs.rules.states import (
    FINAL,
    FINISHED,
    JOB_MOVES,
    AttemptShown,
    ClosedAs,
    JobState,
    ReportAs,
    Waiting,
    is_allowed,
    shown_attempt,
)
from brokerjobs.rules.verdicts import (
    AcknowledgeVerdict,
    ClaimVerdict,
    IntentVerdict,
    MismatchVerdict,
    ObjectVerdict,
    OutcomeVerdict,
    ReadyVerdict,
    RejectReason,
    RenewVerdict,
    ReportVerdict,
    StageVerdict,
    StartVerdict,
    SubmitVerdict,
)

# Written out again, so that a change of the table is seen as one.
MOVES = """
queued -> running: claim
queued -> queued: another wait
queued -> succeeded: late success
queued -> failed: deadline, exhausted, invalid, unplaceable
queued -> cancelled: cancel
running -> succeeded: result accepted
running -> queued: retry, release, snooze, not here
running -> review: unknown outcome
running -> failed: invalid, policy, exhausted, deadline
running -> cancelled: cancel seen
review -> succeeded: late success, it happened
review -> queued: it did not happen, missing outcome
review -> failed: give up, retry with the deadline passed
review -> cancelled: retry with a cancel noted
failed -> queued: replay
failed -> succeeded: adopt
"""


def test_job_moves__are_those_of_the_agreed_table() -> None:
    written = {f"{before} -> {after}: {', '.join(why)}" for (before, after), why in JOB_MOVES.items()}

    assert written == set(MOVES.strip().splitlines())


@pytest.mark.parametrize(("before", "after"), list(product(JobState, JobState)))
def test_is_allowed__only_for_moves_of_the_table(before: JobState, after: JobState) -> None:
    assert is_allowed(before, after) == (f"\n{before} -> {after}: " in MOVES)


def test_final__no_move_leaves_it() -> None:
    left = {before for before, _ in JOB_MOVES}

    assert {state for state in JobState if state not in left} == FINAL
    assert {JobState.FAILED} == FINISHED - FINAL


def test_words__are_those_that_sql_returns() -> None:
    words = {kind.__name__: " ".join(kind) for kind in (JobState, Waiting, ClosedAs, ReportAs, AttemptShown)}

    assert words == {
        "JobState": "queued running review succeeded failed cancelled",
        "Waiting": "delivery schedule retry placement resource pause",
        "ClosedAs": "completed failed released cancelled timed_out",
        "ReportAs": "completed failed released",
        "AttemptShown": "claimed active completed failed released cancelled timed_out rejected_stale",
    }


def test_verdicts__are_those_that_sql_returns() -> None:
    kinds = (
        SubmitVerdict,
        ClaimVerdict,
        StartVerdict,
        RenewVerdict,
        ReportVerdict,
        IntentVerdict,
        OutcomeVerdict,
        StageVerdict,
        ReadyVerdict,
        AcknowledgeVerdict,
        MismatchVerdict,
        ObjectVerdict,
        RejectReason,
    )

    assert {kind.__name__: " ".join(kind) for kind in kinds} == {
        "SubmitVerdict": "created existing conflict key_in_flight expired_record unknown_type invalid",
        "ClaimVerdict": (
            "granted locked again unknown_job wrong_route no_handler finished held not_due paused resource review lost"
        ),
        "StartVerdict": "started lost cancel_requested locked",
        "RenewVerdict": "kept lost cancel_requested locked",
        "ReportVerdict": "accepted recorded rejected already_reported locked",
        "IntentVerdict": "granted happened unknown lost too_long locked",
        "OutcomeVerdict": "recorded contradicts no_intent locked",
        "StageVerdict": "staged lost name_used unknown_job",
        "ReadyVerdict": "ready differs discarded name_used unknown",
        "AcknowledgeVerdict": "acknowledged hash_differs not_ready not_accepted unknown",
        "MismatchVerdict": "noted matches removed not_accepted unknown",
        "ObjectVerdict": "known removed orphan",
        "RejectReason": (
            "newer_attempt resource_taken job_succeeded job_failed job_cancelled deadline unknown_effect "
            "artifact_not_ready released decided unknown_attempt unknown_job already_reported"
        ),
    }


@pytest.mark.parametrize(
    ("closed_as", "verdict", "started", "shown"),
    [
        (None, None, False, AttemptShown.CLAIMED),
        (None, None, True, AttemptShown.ACTIVE),
        (ClosedAs.COMPLETED, ReportVerdict.ACCEPTED, True, AttemptShown.COMPLETED),
        (ClosedAs.TIMED_OUT, ReportVerdict.ACCEPTED, True, AttemptShown.COMPLETED),
        (ClosedAs.TIMED_OUT, ReportVerdict.REJECTED, True, AttemptShown.REJECTED_STALE),
        (ClosedAs.TIMED_OUT, ReportVerdict.RECORDED, True, AttemptShown.TIMED_OUT),
        (ClosedAs.TIMED_OUT, None, True, AttemptShown.TIMED_OUT),
        (ClosedAs.FAILED, ReportVerdict.RECORDED, True, AttemptShown.FAILED),
        (ClosedAs.RELEASED, ReportVerdict.RECORDED, False, AttemptShown.RELEASED),
        (ClosedAs.CANCELLED, ReportVerdict.RECORDED, True, AttemptShown.CANCELLED),
    ],
)
def test_shown_attempt__is_computed_from_close_and_report(
    closed_as: ClosedAs | None, verdict: ReportVerdict | None, started: bool, shown: AttemptShown
) -> None:
    assert shown_attempt(closed_as, verdict, started=started) is shown


def test_shown_attempt__has_an_answer_for_every_pair() -> None:
    pairs = product([None, *ClosedAs], [None, *ReportVerdict], [False, True])

    assert {type(shown_attempt(closed, verdict, started=started)) for closed, verdict, started in pairs} == {
        AttemptShown
    }
