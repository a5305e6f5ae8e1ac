"""The terms that a job type declares and that are frozen into each job at submit."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import need_problems, needs
from brokerjobs.rules.durations import YEAR, show_duration
from brokerjobs.rules.names import queue_problem
from brokerjobs.rules.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

# Below this a lease is shorter than a busy database's round trip; above it recovery takes more than a day.
MIN_LEASE: Final = timedelta(milliseconds=100)
MAX_LEASE: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms of a job type; `repeatable` (may a *started* attempt be done again blindly?) has no default.

    Raises ConfigurationError for values out of bounds.
    """

    repeatable: bool
    queue: str = "default"
    lease: timedelta = timedelta(seconds=30)
    time_limit: timedelta = timedelta(minutes=10)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    placement_deadline: timedelta = timedelta(hours=24)
    needs: Sequence[needs.Need] = ()

    def __post_init__(self) -> None:
        if problems := tuple(_problems(self)):
            message = "the terms of the job type are out of bounds:"
            raise ConfigurationError(message, problems=problems)
        object.__setattr__(self, "needs", needs.canonical(self.needs))

    @property
    def needs_hash(self) -> str | None:
        """What tells its route apart from those of its queue with other needs; None if any worker does."""
        return needs.needs_hash(self.needs)

    def as_data(self) -> dict[str, Any]:
        """The terms as JSON values, durations in seconds: the ledger's form."""
        return {
            "repeatable": self.repeatable,
            "queue": self.queue,
            "lease": self.lease.total_seconds(),
            "time_limit": self.time_limit.total_seconds(),
            "retry": self.retry.as_data(),
            "placement_deadline": self.placement_deadline.total_seconds(),
            "needs": needs.as_data(self.needs),
            "needs_hash": self.needs_hash,
        }


def differences(first: Terms, second: Terms) -> tuple[str, ...]:
    """One line for each term in which `second` differs from `first`."""
    lines: list[str] = []
    for one in fields(Terms):
        before, after = getattr(first, one.name), getattr(second, one.name)
        if before != after:
            lines.append(f"{one.name}: {_shown(before)}, then {_shown(after)}")
    return tuple(lines)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[object, ...]", value))) or "none"
    return show_duration(value) if isinstance(value, timedelta) else repr(value)


def _problems(terms: Terms) -> list[str]:
    given: dict[str, object] = {one.name: getattr(terms, one.name) for one in fields(terms)}
    problems: list[str] = []
    if not isinstance(given["repeatable"], bool):
        problems.append(f"repeatable={given['repeatable']!r} is neither True nor False")
    queue = given["queue"]
    if not isinstance(queue, str):
        problems.append(f"queue={queue!r} is not a text")
    elif problem := queue_problem(queue):
        problems.append(problem)
    if not isinstance(given["retry"], RetryPolicy):
        problems.append(f"retry={given['retry']!r} is not a RetryPolicy")
    problems += need_problems.problems(given["needs"])
    microsecond = timedelta(microseconds=1)
    for name, low, high, why in (
        ("lease", MIN_LEASE, MAX_LEASE, "shorter is lost to a slow round trip, longer makes recovery slow"),
        ("time_limit", microsecond, YEAR, "it is always finite, so that a hung handler ends"),
        ("placement_deadline", microsecond, YEAR, "a job that nobody can run must end"),
    ):
        value = given[name]
        if not isinstance(value, timedelta):
            problems.append(f"{name}={value!r} is not a timedelta")
        elif not low <= value <= high:
            problems.append(f"{name}={value} is not from {show_duration(low)} to {show_duration(high)}: {why}")
    return problems
