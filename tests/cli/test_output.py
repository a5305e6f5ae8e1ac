"""Texts made safe for terminals, and times on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from brokerjobs.cli import moments, output
from brokerjobs.cli.failures import UsageError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 漢 🙂", "plain ä 漢 🙂"),
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x00\x07\x7f\x9b\x85", "\\x00\\x07\\x7f\\x9b\\x85"),
        ("\u202eevil\u2066\u200f\u061c", "\\u202eevil\\u2066\\u200f\\u061c"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\ud800", "\\ud800"),
    ],
)
def test_escaped__leaves_nothing_that_moves_a_cursor(text: str, shown: str) -> None:
    assert output.escaped(text) == shown


def test_json_escaped__is_the_same_value() -> None:
    value = {"k\x1b": "\x9b\u202e\u2028\x7f ä 漢 🙂 \\", "n": [1.5, None, True]}

    text = output.json_escaped(json.dumps(value, ensure_ascii=False))

    assert json.loads(text) == value
    assert "ä 漢 🙂" in text
    assert [one for one in text if one in "\x1b\x9b\u202e\u2028\x7f"] == []


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("5m", timedelta(minutes=5)),
        ("PT1H", timedelta(hours=1)),
        ("90", timedelta(seconds=90)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 14:00:00+02:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_moment__is_a_time_or_a_time_from_now(text: str, moment: datetime | timedelta) -> None:
    assert moments.moment_of(text, "--at") == moment


@pytest.mark.parametrize("text", ["soon", "", "-5m", "2026-01-31T12:00:00", "2026-13-01T00:00:00Z", "400d"])
def test_moment__that_cannot_be_names_its_flag(text: str) -> None:
    with pytest.raises(UsageError, match="--deadline"):
        moments.moment_of(text, "--deadline")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0ms"),
        (0.0124, "12ms"),
        (0.9999, "1.0s"),
        (1.25, "1.2s"),
        (9.97, "10s"),
        (14.4, "14s"),
        (89.6, "1m30s"),
        (3599.7, "1h"),
        (7500, "2h5m"),
        (90_000, "1d1h"),
        (-30, "-30s"),
    ],
)
def test_rough__has_the_largest_units(seconds: float, shown: str) -> None:
    assert moments.rough(timedelta(seconds=seconds)) == shown
