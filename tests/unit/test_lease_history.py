"""What an attempt that has ended says of leases."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.rules.lease_history import Fate, all_but, share_of_lease, spread
from tests.unit.past_attempts import attempt, lost


def test_delay__is_the_longest_silence_beyond_the_interval() -> None:
    assert attempt(silent=24.0).delay(10) == pytest.approx(14)
    assert attempt(life=48.0, granted=30.0, silent=11.0).delay(10) == pytest.approx(8), "the report was a sign of life"
    assert attempt(silent=9.0).delay(10) == 0


def test_delay__is_not_known_of_what_never_renewed_or_was_not_told() -> None:
    assert attempt(life=3.0).delay(10) is None
    assert attempt(renewals=None, smallest_margin=None).delay(10) is None
    assert attempt(life=48.0, granted=30.0, renewals=None, silent=None).delay(10) is None
    assert attempt(life=14.0, granted=0.0, renewals=0, silent=None).delay(10) == pytest.approx(4), (
        "a renewal was missing"
    )


def test_delay__leaves_out_the_silence_after_the_time_limit() -> None:
    beyond = attempt(life=640.0, granted=590.0, renewals=59, silent=10.2)

    assert beyond.renewing_stopped(10)
    assert beyond.delay(10) == pytest.approx(0.2)


def test_fate__tells_false_expiries_from_dead_workers_and_passed_limits() -> None:
    assert attempt().fate(10) is Fate.ENDED
    assert lost().fate(10) is Fate.FALSE_EXPIRY
    assert lost(silent=None).fate(10) is Fate.SILENT
    assert lost(granted=590.0).fate(10) is Fate.PAST_LIMIT
    assert lost(granted=590.0, silent=None).fate(10) is Fate.PAST_LIMIT


def test_share_of_lease__is_that_of_most_attempts() -> None:
    stood_still = attempt(life=30.0, granted=28.0, renewals=1)

    assert share_of_lease([attempt(), attempt(), stood_still]) == pytest.approx(1 / 3)
    assert share_of_lease([attempt(granted=20.0, renewals=4, life=25.0)]) == pytest.approx(1 / 6)
    assert share_of_lease([attempt(life=3.0), lost()]) is None
    assert share_of_lease([attempt(granted=5e-324, renewals=1)]) == 1e-6


def test_spread__gives_no_percentile_that_so_few_values_cannot_have() -> None:
    assert asdict(spread([])) == {"count": 0, "p50": None, "p99": None, "p999": None, "longest": None}
    few, many = spread([3.0, 1.0, 2.0]), spread([float(n) for n in range(1, 1001)])

    assert (few.p50, few.p99, few.longest) == (2, None, 3)
    assert (many.p50, many.p99, many.p999, many.longest) == (500, 990, 999, 1000)
    assert spread([1.0] * 999).p999 is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 0.99))
def test_all_but__a_share_lies_above_it(values: list[float], share: float) -> None:
    found = all_but(values, share)

    assert found in values
    assert sum(value > found for value in values) <= share * len(values)


def test_handlers__are_timed_by_their_worker_unless_its_clock_was_set_back() -> None:
    assert attempt(life=20.0, handler=19.0).duration == 19
    assert attempt(life=20.0, handler=-4.0).duration == 20
    assert attempt(life=20.0, handler=None).duration == 20
