"""How often, for how long and after what delay a job is tried again: data, frozen into each job."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import tenacity_terms
from brokerjobs.rules.durations import YEAR

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ATTEMPTS: Final = 100
MAX_FACTOR: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Bounds on the attempts of a job; whichever is reached first ends it as exhausted.

    `elapsed` counts from the first claim, so that a backlog does not eat it.  The delay before the next
    attempt grows exponentially with full jitter.  Raises ConfigurationError for a value out of bounds.
    """

    attempts: int = 5
    elapsed: timedelta = timedelta(hours=24)
    first_delay: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    max_delay: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        if problems := tuple(_problems(self)):
            message = "RetryPolicy is out of bounds:"
            raise ConfigurationError(message, problems=problems)

    def delay(self, charged: int, random: float) -> timedelta:
        """The delay after the `charged`-th charged attempt (1, 2, …); `random` is drawn evenly from 0 to 1.

        random * min(max_delay, first_delay * factor ** (charged - 1)): "full jitter" (AWS Architecture Blog,
        "Exponential Backoff And Jitter").
        """
        if charged < 1 or not 0 <= random <= 1:
            message = f"delay(charged={charged!r}, random={random!r}): charged starts at 1, random is from 0 to 1"
            raise ValueError(message)
        return self._longest_delay(charged - 1) * random

    def _longest_delay(self, doublings: int) -> timedelta:
        first, longest = self.first_delay, self.max_delay
        # Compared as logarithms: factor ** 10**6 overflows, and nobody may need it.
        if first and doublings * math.log(self.factor) < math.log(longest / first):
            return min(longest, first * self.factor**doublings)
        return longest if first else first

    @classmethod
    def from_tenacity(cls, *, wait: object = None, stop: object = None) -> RetryPolicy:
        """The policy that these objects of tenacity say; a bound that neither says keeps its default.

        What a `wait` says is the longest delay before each attempt, and the delay is drawn evenly from zero to that, as
        with every policy.  Raises ConfigurationError for what cannot be stored as numbers: functions, classes of your
        own, chains and sums of waits, least delays, and what never stops.
        """
        return cls(**tenacity_terms.bounds_of(wait, stop))

    def as_data(self) -> dict[str, Any]:
        """The policy as JSON values, durations in seconds: the ledger's form."""
        return {
            "attempts": self.attempts,
            "elapsed": self.elapsed.total_seconds(),
            "first_delay": self.first_delay.total_seconds(),
            "factor": self.factor,
            "max_delay": self.max_delay.total_seconds(),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RetryPolicy:
        """The policy that `as_data` gave; raises ConfigurationError if it is out of bounds."""
        return cls(
            attempts=data["attempts"],
            elapsed=timedelta(seconds=data["elapsed"]),
            first_delay=timedelta(seconds=data["first_delay"]),
            factor=data["factor"],
            max_delay=timedelta(seconds=data["max_delay"]),
        )


def _problems(policy: RetryPolicy) -> list[str]:
    given: dict[str, object] = {field.name: getattr(policy, field.name) for field in fields(policy)}
    problems: list[str] = []
    attempts, factor = given.pop("attempts"), given.pop("factor")
    if isinstance(attempts, bool) or not isinstance(attempts, int):
        problems.append(f"attempts={attempts!r} is not a whole number")
    elif not 1 <= attempts <= MAX_ATTEMPTS:
        problems.append(
            f"attempts={attempts!r} is not from 1 to {MAX_ATTEMPTS}: the first run is an attempt too, and a job that "
            f"fails {MAX_ATTEMPTS} times needs a person"
        )
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        problems.append(f"factor={factor!r} is not a number")
    elif not 1 <= factor <= MAX_FACTOR:  # NaN is out of every bound
        problems.append(f"factor={factor!r} is not from 1 to {MAX_FACTOR:g}: below 1 delays would shrink in a storm")
    for name, value in given.items():
        if not isinstance(value, timedelta):
            problems.append(f"{name}={value!r} is not a timedelta")
        elif not timedelta(0) <= value <= YEAR:
            problems.append(f"{name}={value!s} is not from 0 to 365 days: the ledger waits a year at most")
    if not problems and policy.first_delay > policy.max_delay:
        problems.append(f"first_delay={policy.first_delay} is over max_delay={policy.max_delay}: it would never apply")
    return problems
