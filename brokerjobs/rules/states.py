"""Which moves a job may make, and how an attempt is shown.

    queued ──claim──▶ running ──result accepted──▶ succeeded
      ▲  ▲                │ ├──temporary failure or lost──▶ queued (retry)
      │  │                │ ├──invalid, policy, exhausted, deadline──▶ failed
      │  └─release────────┘ ├──unknown outcome──▶ review ──decision──▶ queued, succeeded, failed
      └──replay───────────│── failed            └──cancel seen──▶ cancelled

The ledger's SQL repeats these guards with the same strings; a test drives every pair on a real database.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from brokerjobs.rules.verdicts import ReportVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobState(StrEnum):
    """Where a job is; its moves are in `JOB_MOVES`."""

    QUEUED = "queued"  # -> queued, running, succeeded, failed, cancelled
    RUNNING = "running"  # -> queued, review, succeeded, failed, cancelled
    REVIEW = "review"  # -> queued, succeeded, failed, cancelled
    SUCCEEDED = "succeeded"  # final
    FAILED = "failed"  # -> queued (replay), succeeded (adopt)
    CANCELLED = "cancelled"  # final


class Waiting(StrEnum):
    """What a queued job waits for; there is no bare "queued"."""

    DELIVERY = "delivery"
    SCHEDULE = "schedule"
    RETRY = "retry"
    PLACEMENT = "placement"
    RESOURCE = "resource"
    PAUSE = "pause"


class ClosedAs(StrEnum):
    """How the ledger closed an attempt; written once."""

    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"  # its lease expired; the only close whose report may still be empty


class ReportAs(StrEnum):
    """What an attempt's worker finally said; written once."""

    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"


class AttemptShown(StrEnum):
    """How an attempt is shown: computed from its two facts, never stored."""

    CLAIMED = "claimed"
    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    REJECTED_STALE = "rejected_stale"


class ArtifactState(StrEnum):
    """What is known of an artifact; its moves are in `ARTIFACT_MOVES`."""

    STAGING = "staging"  # -> ready, discarded
    READY = "ready"  # -> acknowledged, hash_mismatch, expired_unacknowledged, discarded
    ACKNOWLEDGED = "acknowledged"  # final: a consumer has a safe copy
    HASH_MISMATCH = "hash_mismatch"  # -> acknowledged, discarded
    EXPIRED_UNACKNOWLEDGED = "expired_unacknowledged"  # -> acknowledged: a consumer may have had its copy before
    DISCARDED = "discarded"  # final: an upload that was given up, or the output of an attempt that was not accepted


_Q, _RUN, _REV = JobState.QUEUED, JobState.RUNNING, JobState.REVIEW
_OK, _BAD, _OFF = JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED

# Every allowed move with the reasons for which it is made; a pair that is not here is forbidden.
JOB_MOVES: Final[Mapping[tuple[JobState, JobState], tuple[str, ...]]] = MappingProxyType(
    {
        (_Q, _RUN): ("claim",),
        (_Q, _Q): ("another wait",),
        (_Q, _OK): ("late success",),
        (_Q, _BAD): ("deadline", "exhausted", "invalid", "unplaceable"),
        (_Q, _OFF): ("cancel",),
        (_RUN, _OK): ("result accepted",),
        (_RUN, _Q): ("retry", "release", "snooze", "not here"),
        (_RUN, _REV): ("unknown outcome",),
        (_RUN, _BAD): ("invalid", "policy", "exhausted", "deadline"),
        (_RUN, _OFF): ("cancel seen",),
        (_REV, _OK): ("late success", "it happened"),
        (_REV, _Q): ("it did not happen", "missing outcome"),
        (_REV, _BAD): ("give up", "retry with the deadline passed"),
        (_REV, _OFF): ("retry with a cancel noted",),
        (_BAD, _Q): ("replay",),
        (_BAD, _OK): ("adopt",),
    }
)

_NEW, _READY, _HAD = ArtifactState.STAGING, ArtifactState.READY, ArtifactState.ACKNOWLEDGED
_OTHER, _LEFT, _GONE = (
    ArtifactState.HASH_MISMATCH,
    ArtifactState.EXPIRED_UNACKNOWLEDGED,
    ArtifactState.DISCARDED,
)
ARTIFACT_MOVES: Final[Mapping[tuple[ArtifactState, ArtifactState], str]] = MappingProxyType(
    {
        (_NEW, _READY): "the upload is whole",
        (_NEW, _GONE): "the upload was given up",
        (_READY, _HAD): "a consumer has a copy",
        (_READY, _OTHER): "the staged copy is another one, or missing",
        (_READY, _LEFT): "nobody acknowledged it in time",
        (_READY, _GONE): "its attempt cannot be accepted any more",
        (_OTHER, _HAD): "a consumer has a copy all the same",
        (_OTHER, _GONE): "its attempt cannot be accepted any more",
        (_LEFT, _HAD): "a consumer had a copy before",
    }
)

# Finished: no attempt is wanted any more.  Final: no move leaves it (a failed job can be replayed or adopted).
FINISHED: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
FINAL: Final = frozenset({JobState.SUCCEEDED, JobState.CANCELLED})


def is_allowed(before: JobState, after: JobState) -> bool:
    """Whether a job may move from `before` to `after`."""
    return (before, after) in JOB_MOVES


def shown_attempt(closed_as: ClosedAs | None, report_verdict: ReportVerdict | None, *, started: bool) -> AttemptShown:
    """The shown state of an attempt, from how it was closed, what became of its report, and whether it started."""
    if report_verdict is ReportVerdict.ACCEPTED:
        return AttemptShown.COMPLETED
    if report_verdict is ReportVerdict.REJECTED:
        return AttemptShown.REJECTED_STALE
    if closed_as is not None:
        return AttemptShown(closed_as.value)
    return AttemptShown.ACTIVE if started else AttemptShown.CLAIMED
