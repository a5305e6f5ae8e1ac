from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.rules.durations import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("5m", 300), ("250ms", 0.25), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("1.5s", 1.5),
        (" 30s ", 30), ("30", 30), ("0.5", 0.5), (30, 30), (0.25, 0.25), (0, 0), ("0", 0),
        ("PT30S", 30), ("PT1H30M", 5400), ("P1D", 86400), ("P1DT0.5S", 86400.5), (timedelta(seconds=3), 3),
    ],
)  # fmt: skip
def test_parse_duration__reads_what_people_write(text: Any, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "", "s", "30 s", "-5s", "1y", "5w", "1m1", "PT", "P", "P1DT", "P1Y", "P1M", "1e9s", "nan", "inf", "30S", "400d",
        "1" * 400, -1, float("nan"), float("inf"), 1e12, True, None,
    ],
)  # fmt: skip
def test_parse_duration__refuses_everything_else(text: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is not between zero and one year"):
        parse_duration(text)


@given(st.timedeltas(timedelta(0), timedelta(days=365)))
def test_show_duration__is_read_back(value: timedelta) -> None:
    assert abs(parse_duration(show_duration(value)) - value) <= timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(0), "0s"), (timedelta(minutes=10), "10m"), (timedelta(hours=1.5), "1h30m"),
        (timedelta(milliseconds=250), "250ms"), (timedelta(days=1, seconds=1.5), "1d1s500ms"),
    ],
)  # fmt: skip
def test_show_duration__is_short(value: timedelta, text: str) -> None:
    assert show_duration(value) == text
