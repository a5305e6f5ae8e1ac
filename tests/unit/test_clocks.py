from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.ledger.clock_watch import ClockWatch
from brokerjobs.rules.clocks import skew_of

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED = datetime(2026, 1, 1, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return ASKED + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("round_trip", "ledger_at", "seconds", "uncertainty"),
    [(0, 0, 0, 0), (2, 1, 0, 1), (2, 0, 1, 1), (0.5, -599.75, 600, 0.25), (0.5, 600.25, -600, 0.25)],
)
def test_skew__is_counted_from_the_middle_of_the_round_trip(
    round_trip: float, ledger_at: float, seconds: float, uncertainty: float
) -> None:
    skew = skew_of(ASKED, round_trip, later(ledger_at))

    assert (skew.seconds, skew.uncertainty) == (seconds, uncertainty)


def test_skew__is_over_a_limit_for_certain_or_not() -> None:
    second = timedelta(seconds=1)

    assert not skew_of(ASKED, 10, later(-1)).is_over(second), "the answer may have come late"
    assert not skew_of(ASKED, 0, later(-1)).is_over(second)
    assert skew_of(ASKED, 0, later(-1.001)).is_over(second)
    assert skew_of(ASKED, 0, later(1.001)).is_over(second)


def test_watch__says_each_change_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = ClockWatch(timedelta(seconds=1))
    look: Callable[[float], None] = lambda ledger_at: watch.look(ASKED, 0.01, later(ledger_at))  # noqa: E731

    with caplog.at_level(logging.INFO):
        for ledger_at in (0, 0.5, 600, 601, -600, 0, 0):
            look(ledger_at)

    assert [record.getMessage()[:62] for record in caplog.records] == [
        "the clock of this host is 600.0 s behind the ledger's, over th",
        "the clock of this host is within 1s of the ledger's again",
    ]
    assert "worker.clock_skew" in caplog.text
    assert watch.skew_seconds == 0.005
