from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
import tenacity
from tenacity import wait

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.retries import RetryPolicy

YEAR = timedelta(days=365)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("wait", "first", "factor", "longest"),
    [
        (wait.wait_none(), seconds(0), 1.0, seconds(0)),
        (wait.wait_fixed(seconds(3)), seconds(3), 1.0, seconds(3)),
        (wait.wait_random(0, 5), seconds(5), 1.0, seconds(5)),
        (wait.wait_exponential(multiplier=2, max=60, exp_base=3), seconds(2), 3.0, seconds(60)),
        (wait.wait_exponential(), seconds(1), 2.0, YEAR),
        (wait.wait_exponential(multiplier=100, max=10), seconds(10), 2.0, seconds(10)),
        (wait.wait_random_exponential(multiplier=0.5, max=60), seconds(0.5), 2.0, seconds(60)),
        (wait.wait_exponential_jitter(multiplier=2, max=30, jitter=4), seconds(2), 2.0, seconds(30)),
    ],
)
def test_from_tenacity__takes_the_waits_that_can_be_said(
    wait: object, first: timedelta, factor: float, longest: timedelta
) -> None:
    assert RetryPolicy.from_tenacity(wait=wait) == RetryPolicy(first_delay=first, factor=factor, max_delay=longest)


@pytest.mark.parametrize(
    "wait",
    [wait.wait_exponential(multiplier=2, max=60, exp_base=3), wait.wait_fixed(7), wait.wait_random_exponential(max=9)],
)
def test_from_tenacity__never_waits_longer_than_tenacity_would(wait: Any) -> None:
    policy = RetryPolicy.from_tenacity(wait=wait)
    retrying = tenacity.Retrying()

    for attempt in range(1, 9):
        state = tenacity.RetryCallState(retrying, None, (), {})
        state.attempt_number = attempt
        longest = max(wait(state) for _ in range(400))
        bound = policy.delay(attempt, 1.0).total_seconds()
        assert longest <= bound
        assert bound < longest * 1.2 + 0.001  # the largest of 400 draws lies that close to its bound


@pytest.mark.parametrize(
    ("stop", "bounds"),
    [
        (tenacity.stop_after_attempt(7), {"attempts": 7}),
        (tenacity.stop_after_delay(seconds(90)), {"elapsed": seconds(90)}),
        (tenacity.stop_before_delay(90), {"elapsed": seconds(90)}),
        (tenacity.stop_after_attempt(7) | tenacity.stop_after_delay(90), {"attempts": 7, "elapsed": seconds(90)}),
        (tenacity.stop_any(*[tenacity.stop_after_attempt(n) for n in (4, 2, 3)]), {"attempts": 2}),
    ],
)
def test_from_tenacity__takes_the_stops_that_can_be_said(stop: object, bounds: dict[str, Any]) -> None:
    assert RetryPolicy.from_tenacity(stop=stop) == RetryPolicy(**bounds)


def test_from_tenacity__of_nothing_is_the_default() -> None:
    assert RetryPolicy.from_tenacity() == RetryPolicy()


class Own(wait.wait_fixed):
    pass


NAMESAKE = type("wait_fixed", (wait.wait_fixed,), {"__module__": "shop.retries"})


def test_from_tenacity__reads_the_first_delay_where_older_releases_have_it() -> None:
    """Before it was named `multiplier`, as in the other waits."""
    has = {"initial": 3, "exp_base": 2, "max": 30, "jitter": 1}
    older = type("wait_exponential_jitter", (), {"__module__": "tenacity.wait", **has})()

    assert RetryPolicy.from_tenacity(wait=older) == RetryPolicy(
        first_delay=seconds(3), factor=2.0, max_delay=seconds(30)
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"wait": seconds}, r"wait=builtins.function is none of them; accepted are wait_none, wait_fixed, "),
        ({"wait": 5}, "wait=builtins.int is none of them"),
        ({"wait": Own(1)}, r"wait=.*Own is none of them"),
        ({"wait": NAMESAKE(1)}, r"wait=shop\.retries\.wait_fixed is none of them"),
        ({"wait": wait.wait_fixed(1) + wait.wait_random(0, 1)}, "wait=wait_combine is none of them"),
        ({"wait": wait.wait_chain(wait.wait_fixed(1), wait.wait_fixed(9))}, "wait=wait_chain is none of them"),
        ({"wait": wait.wait_incrementing()}, "wait=wait_incrementing is none of them"),
        ({"wait": wait.wait_random(1, 2)}, "wait=wait_random waits 1 s at least, but jitter draws from zero on"),
        ({"wait": wait.wait_exponential(min=4)}, "wait=wait_exponential waits 4 s at least"),
        ({"stop": tenacity.stop_never}, "stop=_stop_never never stops, but every job ends"),
        ({"stop": tenacity.stop_all(tenacity.stop_after_attempt(2))}, "stop=stop_all stops when all of several"),
        ({"stop": tenacity.stop_when_event_set(threading.Event())}, "stop=stop_when_event_set is none of them"),
        ({"stop": tenacity.stop_after_attempt(2) | tenacity.stop_never}, "stop=stop_any never stops"),
        ({"stop": tenacity.stop_after_attempt(101)}, "attempts=101 is not from 1 to 100"),
        ({"stop": tenacity.stop_after_delay(float("inf"))}, "stop=stop_after_delay stops after inf s"),
        ({"stop": tenacity.stop_after_delay(400 * 86400)}, "elapsed=400 days, 0:00:00 is not from 0 to 365 days"),
        ({"wait": wait.wait_exponential(exp_base=0.5)}, "factor=0.5 is not from 1 to 100"),
    ],
)
def test_from_tenacity__refuses_the_rest_and_says_what_is_accepted(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        RetryPolicy.from_tenacity(**given)


def test_from_tenacity__says_all_problems_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        RetryPolicy.from_tenacity(wait=wait.wait_incrementing(), stop=tenacity.stop_never)

    assert len(caught.value.problems) == 2
