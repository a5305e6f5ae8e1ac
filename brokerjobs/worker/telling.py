"""What telemetry is told of a report: a span below its attempt's, and how often, and after how long, it ended so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerjobs.rules.states import JobState
from brokerjobs.telemetry import metrics
from brokerjobs.telemetry.attempts import seconds_since_made
from brokerjobs.telemetry.facts import facts
from brokerjobs.telemetry.instruments import measuring
from brokerjobs.telemetry.outcomes import Outcome, outcome_of

if TYPE_CHECKING:
    from brokerjobs.rules.failures import Failure
    from brokerjobs.rules.states import ReportAs
    from brokerjobs.telemetry.events import Event
    from brokerjobs.telemetry.shapes import Answer
    from brokerjobs.worker.attempt import Attempt

_FINISHED: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


def about(event: Event, attempt: Attempt) -> dict[str, object]:
    """What `extra=` of a log line takes, so that it carries event and attempt whatever context it is said in."""
    return facts(event, attempt.claimed, attempt.span.traceparent)


def told(attempt: Attempt, said: ReportAs, began: int, answer: Answer, failure: Failure | None = None) -> None:
    """The ledger has answered a report, which `began` then (`tracing.now()`)."""
    lease = attempt.lease_figures()
    attempt.span.lease(lease.renewals, lease.smallest_margin_seconds)
    attempt.span.reported(said, began, answer, failure)
    if measuring.instruments is not None:
        _count(attempt, outcome_of(said, answer.verdict, answer.state, late=bool(answer.late)), answer, failure)


def _count(attempt: Attempt, outcome: Outcome, answer: Answer, failure: Failure | None) -> None:
    job_type = attempt.job_type.name
    if outcome is Outcome.TIMED_OUT:  # whoever gave it up has counted it
        return
    metrics.attempt_ended(job_type, attempt.job_type.terms.queue, outcome, attempt.age_seconds)
    if outcome is Outcome.REJECTED:
        metrics.rejected(job_type, answer.reason or answer.verdict)
    elif outcome is Outcome.RETRY and failure is not None:
        metrics.retried(job_type, failure.failure_class, failure.error_type)
    since = seconds_since_made(attempt.claimed.job_id)
    if since is not None and outcome is not Outcome.REJECTED and answer.state in _FINISHED:
        metrics.job_ended(job_type, str(answer.state), since)
