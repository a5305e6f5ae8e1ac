"""When to renew a lease, and how long a worker may trust one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.durations import show_duration

if TYPE_CHECKING:
    from datetime import timedelta

# A third of the lease leaves two more tries before it ends; 10 % of jitter keeps workers out of step.
_THIRD: Final = 1 / 3
_JITTER: Final = 0.1


def renew_after(lease: timedelta, random: float) -> timedelta:
    """How long after the last renewal to send the next: a third of `lease`, ± 10 %; `random` is from 0 to 1."""
    return lease * (_THIRD * (1 - _JITTER + 2 * _JITTER * random))


def check_renewal(lease: timedelta, renewal: timedelta, *, job_type: str = "") -> None:
    """Raise ConfigurationError if renewing every `renewal` leaves no second try before `lease` ends."""
    if renewal > lease / 2:
        whose = f" of job type {job_type!r}" if job_type else ""
        message = (
            f"worker.renewal = {show_duration(renewal)} is over half of the lease {show_duration(lease)}{whose}: one "
            f"lost renewal would lose the lease; set it to at most {show_duration(lease / 2)}, or leave it out "
            "(a third of each lease)"
        )
        raise ConfigurationError(message)


def trusted_until(sent_monotonic: float, remaining: timedelta) -> float:
    """Until when, on the worker's own monotonic clock in seconds, a lease may be trusted.

    Counted from *before* the request was sent: the ledger read its clock later than that.
    """
    return sent_monotonic + remaining.total_seconds()
