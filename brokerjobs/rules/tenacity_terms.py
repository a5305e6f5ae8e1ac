"""What tenacity's objects say about retries, as the bounds of a RetryPolicy.

They are known by their names and read by their attributes, so that nothing has to be imported: these are the classes of
tenacity 8.2 to 9.  Whoever subclasses one has changed what it does, and is refused like any other function of time.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.durations import YEAR

if TYPE_CHECKING:
    from collections.abc import Callable

    Bounds = dict[str, Any]

WAITS: Final = (
    "wait_none, wait_fixed, wait_random (from zero), wait_exponential, wait_random_exponential, wait_exponential_jitter"
)
STOPS: Final = "stop_after_attempt, stop_after_delay, stop_before_delay, and several of them joined by `|`"


class _Unsaid(Exception):
    """What an object asks for cannot be said as bounds."""


def bounds_of(wait: object, stop: object) -> Bounds:
    """Arguments of RetryPolicy for these objects of tenacity; None says nothing.

    Raises ConfigurationError, which names what cannot be taken and what can.
    """
    found: Bounds = {}
    problems: list[str] = []
    for name, given, read, accepted in (("wait", wait, _wait, WAITS), ("stop", stop, _stop, STOPS)):
        if given is not None:
            try:
                found |= read(given)
            except _Unsaid as error:
                problems.append(f"{name}={_name(given)}{error}; accepted are {accepted}")
    if problems:
        message = (
            "RetryPolicy.from_tenacity takes what can be stored as numbers, and run where your code is not at hand:"
        )
        raise ConfigurationError(message, problems=tuple(problems))
    return found


def _wait(given: object) -> Bounds:
    read: Callable[[Any], Bounds] | None = _WAITS.get(_name(given))
    if read is None:
        raise _Unsaid(" is none of them")
    return read(given)


def _fixed(wait: Any) -> Bounds:
    return _delays(wait.wait_fixed, 1.0, wait.wait_fixed)


def _random(wait: Any) -> Bounds:
    if wait.wait_random_min > 0:
        raise _Unsaid(f" waits {wait.wait_random_min:g} s at least, but jitter draws from zero on")
    return _delays(wait.wait_random_max, 1.0, wait.wait_random_max)


def _exponential(wait: Any) -> Bounds:
    if getattr(wait, "min", 0) > 0:
        raise _Unsaid(f" waits {wait.min:g} s at least, but jitter draws from zero on")
    # The first delay is the attribute `initial` of wait_exponential_jitter in older releases.
    first = wait.multiplier if hasattr(wait, "multiplier") else wait.initial
    return _delays(first, wait.exp_base, wait.max)


def _delays(first: float, factor: float, longest: float) -> Bounds:
    longest = min(longest, YEAR.total_seconds())  # tenacity's own "no maximum" is 2 ** 62 seconds
    return {
        "first_delay": timedelta(seconds=min(first, longest)),
        "factor": float(factor),
        "max_delay": timedelta(seconds=longest),
    }


_WAITS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "wait_none": _fixed,
    "wait_fixed": _fixed,
    "wait_random": _random,
    "wait_exponential": _exponential,
    "wait_random_exponential": _exponential,
    "wait_exponential_jitter": _exponential,
}


def _stop(given: Any) -> Bounds:
    match _name(given):
        case "stop_after_attempt":
            return {"attempts": given.max_attempt_number}
        case "stop_after_delay" | "stop_before_delay":
            return {"elapsed": timedelta(seconds=_finite(given.max_delay))}
        case "stop_any":
            found: Bounds = {}
            for one in given.stops:
                for bound, value in _stop(one).items():  # whichever comes first ends it
                    found[bound] = min(value, found.get(bound, value))
            return found
        case "stop_all":
            raise _Unsaid(" stops when all of several say so, but here whichever bound comes first ends a job")
        case "_stop_never":
            raise _Unsaid(" never stops, but every job ends: 100 attempts and 365 days at most")
        case _:
            raise _Unsaid(" is none of them")


def _finite(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise _Unsaid(f" stops after {seconds} s, but every job ends: 365 days at most")
    return seconds


def _name(given: object) -> str:
    """The name of tenacity's own class, else one that no class of it has."""
    kind = type(given)
    known = kind.__module__ in {"tenacity", "tenacity.wait", "tenacity.stop"}
    return kind.__name__ if known else f"{kind.__module__}.{kind.__qualname__}"
