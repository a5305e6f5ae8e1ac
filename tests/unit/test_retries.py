from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.retries import RetryPolicy

YEAR = timedelta(days=365)

durations = st.timedeltas(timedelta(0), YEAR)


@st.composite
def policies(draw: st.DrawFn) -> RetryPolicy:
    first, longest = sorted([draw(durations), draw(durations)])
    return RetryPolicy(
        attempts=draw(st.integers(1, 100)),
        elapsed=draw(durations),
        first_delay=first,
        factor=draw(st.floats(1, 100)),
        max_delay=longest,
    )


def test_delay__grows_by_the_factor_up_to_the_longest() -> None:
    policy = RetryPolicy()

    assert [policy.delay(charged, 1.0).total_seconds() for charged in (1, 2, 3, 10, 11, 12)] == [
        1, 2, 4, 512, 600, 600,
    ]  # fmt: skip


def test_delay__is_random_down_to_nothing() -> None:
    assert RetryPolicy().delay(4, 0.25) == timedelta(seconds=2)
    assert RetryPolicy().delay(4, 0.0) == timedelta(0)


@given(policies(), st.integers(1, 10**6), st.floats(0, 1))
def test_delay__keeps_the_bounds_of_full_jitter(policy: RetryPolicy, charged: int, drawn: float) -> None:
    delay = policy.delay(charged, drawn)

    assert timedelta(0) <= delay <= policy.max_delay
    assert delay <= policy.delay(charged, 1.0) <= policy.delay(charged + 1, 1.0)
    assert abs(policy.delay(1, 1.0) - policy.first_delay) <= timedelta(microseconds=1)


@pytest.mark.parametrize("charged", [10**6, 10**100])
def test_delay__does_not_overflow(charged: int) -> None:
    assert RetryPolicy(factor=100.0).delay(charged, 1.0) == timedelta(minutes=10)
    assert RetryPolicy(factor=1.0).delay(charged, 1.0) == timedelta(seconds=1)
    assert RetryPolicy(first_delay=timedelta(0)).delay(charged, 1.0) == timedelta(0)


def test_delay__is_spread_evenly() -> None:
    draw = random.Random(7)
    seconds = [RetryPolicy().delay(4, draw.random()).total_seconds() for _ in range(4000)]

    # Thousand in each quarter of 8 s; the standard deviation of such a count is 27.
    assert all(850 < sum(low <= one < low + 2 for one in seconds) < 1150 for low in (0, 2, 4, 6))


@pytest.mark.parametrize(("charged", "drawn"), [(0, 0.5), (-1, 0.5), (1, 1.1), (1, -0.1), (1, float("nan"))])
def test_delay__refuses_what_is_no_attempt_or_no_chance(charged: int, drawn: float) -> None:
    with pytest.raises(ValueError, match="charged starts at 1"):
        RetryPolicy().delay(charged, drawn)


@given(policies())
def test_retry_policy__survives_json(policy: RetryPolicy) -> None:
    assert RetryPolicy.from_data(json.loads(json.dumps(policy.as_data()))) == policy


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("attempts", 0, r"attempts=0 is not from 1 to 100"),
        ("attempts", 101, r"attempts=101 is not from 1 to 100: .*needs a person"),
        ("attempts", 2**31, r"attempts=2147483648 is not"),
        ("attempts", True, r"attempts=True is not a whole number"),
        ("attempts", 2.0, r"attempts=2.0 is not a whole number"),
        ("factor", 0.5, r"factor=0.5 is not from 1 to 100: below 1 delays would shrink"),
        ("factor", float("nan"), r"factor=nan is not from 1 to 100"),
        ("factor", float("inf"), r"factor=inf is not"),
        ("factor", "2", r"factor='2' is not a number"),
        ("elapsed", timedelta(days=366), r"elapsed=366 days, 0:00:00 is not from 0 to 365 days: the ledger"),
        ("first_delay", timedelta(seconds=-1), r"first_delay=-1 day, 23:59:59 is not from 0 to 365 days"),
        ("max_delay", 600, r"max_delay=600 is not a timedelta"),
        ("first_delay", timedelta(hours=1), r"first_delay=1:00:00 is over max_delay=0:10:00: it would never apply"),
    ],
)
def test_retry_policy__names_field_value_bound_and_reason(field: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        RetryPolicy(**{field: value})

    assert len(caught.value.problems) == 1


def test_retry_policy__says_all_problems_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        RetryPolicy(attempts=0, factor=0.0)

    assert len(caught.value.problems) == 2
