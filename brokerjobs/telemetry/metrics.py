"""What is measured, by what happened.  Nothing is done where nobody takes metrics; values are bounded for all others.

Counts cost some tenths of a microsecond, durations four to five, which is the SDK's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerjobs.telemetry import catalogue as c
from brokerjobs.telemetry import names
from brokerjobs.telemetry.attributes import RABBITMQ
from brokerjobs.telemetry.bounds import Bounded
from brokerjobs.telemetry.instruments import measuring

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from brokerjobs.telemetry.catalogue import Metric
    from brokerjobs.telemetry.instruments import Values
    from brokerjobs.telemetry.outcomes import Outcome

job_types: Final = Bounded(200)
"""Job types: the first 200 that come; of a worker those alone that it knows (`job_types.only`)."""
queues: Final = Bounded(200)
_error_types: Final = Bounded(50)  # of exceptions: users' names
_words: Final = Bounded(200)  # verdicts, reasons, operations: ours, and few


def submitted(job_type: str, verdict: str) -> None:
    """The ledger has answered a submission."""
    if (made := measuring.instruments) is not None:
        made.add(c.SUBMISSIONS, (job_types(job_type), _words(verdict)))


def sent(exchange: str, seconds: float, *, confirmed: int, refused: int = 0, unknown: int = 0) -> None:
    """A batch was published; how many messages became what."""
    if (made := measuring.instruments) is None:
        return
    error = "" if not refused + unknown else "unknown" if unknown else "refused"
    made.record(c.CLIENT_OPERATION_DURATION, (RABBITMQ, names.SEND, error), seconds)
    for result, count in (("confirmed", confirmed), ("refused", refused), ("unknown", unknown)):
        if count:
            made.add(c.PUBLICATIONS, (result,), count)
            failed = "" if result == "confirmed" else result
            made.add(c.SENT_MESSAGES, (RABBITMQ, names.SEND, queues(exchange), failed), count)


def arrived(route: str, count: int = 1) -> None:
    """Deliveries have come."""
    if (made := measuring.instruments) is not None:
        made.add(c.CONSUMED_MESSAGES, (RABBITMQ, names.PROCESS, queues(route)), count)


def claimed(job_type: str, queue: str, number: int, waited: float | None) -> None:
    """A claim was granted `waited` seconds after the job could be claimed."""
    if (made := measuring.instruments) is not None and waited is not None:
        kind = "first" if number == 1 else "retry"
        made.record(c.QUEUE_WAIT, (queues(queue), job_types(job_type), kind), max(0.0, waited))


def handled(job_type: str, seconds: float, error_type: str | None = None) -> None:
    """A handler has ended."""
    if (made := measuring.instruments) is not None:
        error = "" if error_type is None else _error_types(error_type)
        made.record(c.PROCESS_DURATION, (RABBITMQ, names.PROCESS, job_types(job_type), error), seconds)


def attempt_ended(job_type: str, queue: str, outcome: Outcome, seconds: float) -> None:
    """An attempt has ended, so many seconds after its claim; said by who reported it, or gave it up."""
    if (made := measuring.instruments) is not None:
        known = job_types(job_type)
        made.add(c.ATTEMPT_OUTCOMES, (known, queues(queue), outcome.value))
        made.record(c.ATTEMPT_DURATION, (known, outcome.value), seconds)


def retried(job_type: str, failure_class: str, error_type: str) -> None:
    """A failure after which the job is tried again."""
    if (made := measuring.instruments) is not None:
        made.add(c.RETRIES, (job_types(job_type), _words(failure_class), _error_types(error_type)))


def rejected(job_type: str, reason: str) -> None:
    """A report was rejected."""
    if (made := measuring.instruments) is not None:
        made.add(c.REJECTIONS, (job_types(job_type), _words(reason)))


def job_ended(job_type: str, outcome: str, seconds: float) -> None:
    """A job has finished as `succeeded`, `failed` or `cancelled`, so many seconds after its submission."""
    if (made := measuring.instruments) is not None:
        made.record(c.JOB_DURATION, (job_types(job_type), _words(outcome)), seconds)


def review_opened(job_type: str) -> None:
    """A job went into review."""
    if (made := measuring.instruments) is not None:
        made.add(c.REVIEW_OPENINGS, (job_types(job_type),))


def renewed(job_type: str, margin: float) -> None:
    """A lease was kept; `margin`: seconds that were left of it, below zero if it had run out."""
    if (made := measuring.instruments) is not None:
        made.add(c.RENEWALS, ("kept" if margin >= 0 else "late",))
        made.record(c.LEASE_MARGIN, (job_types(job_type),), max(0.0, margin))  # no histogram takes less


def not_renewed(result: str, count: int = 1) -> None:
    """Renewals that kept nothing: `lost`, or `failed` without an answer."""
    if (made := measuring.instruments) is not None:
        made.add(c.RENEWALS, (_words(result),), count)


def ledger_called(operation: str, seconds: float, error: BaseException | None = None) -> None:
    """One call of the ledger, with a batch or not."""
    if (made := measuring.instruments) is not None:
        made.record(c.LEDGER_DURATION, (_words(operation), "" if error is None else type(error).__name__), seconds)


def settled(settlement: str, count: int = 1) -> None:
    """Deliveries were settled: `ack`, `reject`, or `lost`."""
    if (made := measuring.instruments) is not None:
        made.add(c.SETTLEMENTS, (_words(settlement),), count)


def slots(places: Mapping[str, tuple[int, int]]) -> None:
    """The places of each pool, and how many are taken; said at every heartbeat."""
    if (made := measuring.instruments) is not None:
        made.gauge(c.SLOT_LIMIT, {(_words(pool),): limit for pool, (limit, _) in places.items()})
        made.gauge(c.SLOT_USAGE, {(_words(pool),): used for pool, (_, used) in places.items()})


def worker_seen(*, loop_lag: float, clock_offset: float | None, oldest_unsettled: Mapping[str, float]) -> None:
    """What a worker says of itself, in seconds; `oldest_unsettled` by queue."""
    if (made := measuring.instruments) is not None:
        made.gauge(c.LOOP_LAG, {(): loop_lag})
        made.gauge(c.CLOCK_OFFSET, {} if clock_offset is None else {(): clock_offset})
        made.gauge(c.OLDEST_UNSETTLED, {(queues(queue),): age for queue, age in oldest_unsettled.items()})


def monitored(readings: Mapping[Metric, Iterable[tuple[Values, float]]]) -> None:
    """What the elected monitor found: for each of its metrics the values of its attributes, and the number.

    At most 500 series of a metric are told, the first ones.
    """
    if (made := measuring.instruments) is not None:
        made.monitored({metric: dict(list(found)[:_SERIES_AT_MOST]) for metric, found in readings.items()})


def resigned() -> None:
    """This process is the monitor no more: its gauges end, so that there is one copy of them."""
    if (made := measuring.instruments) is not None:
        made.resigned()


_SERIES_AT_MOST: Final = 500
