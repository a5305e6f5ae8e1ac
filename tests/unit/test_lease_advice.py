"""What recorded attempts speak for: leases, renewal intervals, time limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.rules.durations import YEAR
from brokerjobs.rules.lease_advice import LEAST_LEASE, NEEDED, Current, Verdict, advise, rounded_up
from brokerjobs.rules.lease_choices import Detection, Replay, would_expire
from brokerjobs.rules.lease_history import THIRD, PastAttempt
from brokerjobs.rules.terms import MAX_LEASE, MIN_LEASE
from tests.unit.past_attempts import attempt, lost

CURRENT = Current(lease=30.0, time_limit=600.0, repeatable=True)


# What a lease would have meant.


def test_replay__of_the_lease_that_they_had_is_what_happened() -> None:
    replay = Replay(
        [attempt(), attempt(silent=29.9), lost(), lost(silent=None), attempt(life=3.0)], THIRD, Detection(1, 2)
    )

    found = replay.lease("current", 30, 10)

    assert (found.false_expiries, found.possible, found.unknown) == (1, 0, 0)
    assert (found.recovery_mean_seconds, found.recovery_longest_seconds) == (30 - 5 + 1, 32)
    assert found.renewals_per_attempt == (4 + 4 + 6 + 2 + 0) / 5
    assert found.renewals_per_second == 100


def test_replay__of_a_shorter_lease_has_those_whose_renewals_came_too_late_for_it() -> None:
    replay = Replay(
        [attempt(silent=16.0), attempt(silent=11.0), attempt(life=5.0), attempt(life=9.0)], THIRD, Detection(1, 1)
    )

    found = replay.lease("shorter", 6, 2)

    assert found.false_expiries == 1, "a delay of 6 s and an interval of 2 s; one of 1 s is kept"
    assert found.unknown == 1, "9 s without a renewal: nothing is known of its delays; 5 s need none"


def test_would_expire__says_where_the_record_does_not_tell() -> None:
    late = lost(granted=20.0, silent=60.0)  # silent for 30 s at least, 60 at most

    assert would_expire(late, 30, 10, 10) is True
    assert would_expire(late, 45, 15, 10) is None
    assert would_expire(late, 80, 80 / 3, 10) is False
    assert would_expire(attempt(renewals=None, smallest_margin=None), 30, 10, 10) is None
    assert would_expire(attempt(life=29.0, renewals=None, smallest_margin=None), 30, 10, 10) is False


# What is advised.


def test_advice__of_quiet_attempts_is_the_least_lease_that_outlasts_an_unnoticed_outage() -> None:
    advice = advise(CURRENT, [attempt() for _ in range(NEEDED)])

    assert (advice.lease.verdict, advice.lease.seconds) == (Verdict.SHORTEN, 8)
    assert pytest.approx(7.5) == LEAST_LEASE
    assert advice.renewal_seconds == pytest.approx(8 / 3)
    assert [(one.name, one.lease_seconds) for one in advice.choices] == [
        ("current", 30), ("advised", 8), ("shorter", 4), ("longer", 16),
    ]  # fmt: skip
    assert [one.false_expiries for one in advice.choices] == [0, 0, 0, 0]
    assert advice.renewal_is_seen
    assert not advice.detection_is_seen


def test_advice__takes_twice_the_delay_of_all_but_the_tolerated() -> None:
    usual = [attempt(silent=18.0) for _ in range(998)]  # 8 s late: 12 s of lease without anything to spare

    tolerated = advise(CURRENT, [*usual, attempt(silent=25.0), attempt()])
    twice = advise(CURRENT, [*usual, attempt(silent=25.0), attempt(silent=25.0)])
    person = advise(replace(CURRENT, repeatable=False), [*usual, attempt(silent=25.0), attempt()])

    assert (tolerated.lease.verdict, tolerated.lease.seconds) == (Verdict.KEEP, 30)
    assert (twice.lease.verdict, twice.lease.seconds) == (Verdict.LENGTHEN, 45), "two in a thousand were 15 s late"
    assert person.lease.seconds == 45, "a false expiry costs a person's decision"


def test_advice__doubles_a_lease_that_was_lost_too_often_and_no_more_at_once() -> None:
    advice = advise(CURRENT, [attempt() for _ in range(NEEDED)] + [lost(silent=5000.0)])

    assert (advice.lease.verdict, advice.lease.seconds) == (Verdict.LENGTHEN, 60)
    assert advice.choices[0].false_expiries == 1
    assert advice.choices[1].possible == 1
    assert advice.unrecorded.false_expiries == 1


def test_advice__is_no_lease_beyond_what_a_type_may_have() -> None:
    day = MAX_LEASE.total_seconds()
    quiet = [attempt(lease=day, time_limit=10 * day) for _ in range(NEEDED)]
    stopped = lost(lease=day, time_limit=10 * day, silent=3 * day, closed=day + 21)

    advice = advise(replace(CURRENT, lease=day), [*quiet, stopped])

    assert (advice.lease.verdict, advice.lease.seconds) == (Verdict.KEEP, day)


def test_advice__keeps_no_lease_that_was_lost_too_often_though_it_is_near_enough() -> None:
    current = replace(CURRENT, lease=28.0)
    quiet = [attempt(lease=28.0) for _ in range(NEEDED)]

    advice = advise(current, [*quiet, lost(lease=28.0, silent=28.6, closed=48.5)])

    assert (advice.lease.verdict, advice.lease.seconds) == (Verdict.LENGTHEN, 30)


def test_advice__of_attempts_that_never_renewed_lets_them_end_without() -> None:
    advice = advise(replace(CURRENT, lease=90.0), [attempt(life=9.0) for _ in range(NEEDED)])

    assert (advice.lease.verdict, advice.lease.seconds) == (Verdict.SHORTEN, 20)
    assert advise(CURRENT, [attempt(life=9.0) for _ in range(NEEDED)]).lease.verdict is Verdict.KEEP, "near enough"
    assert advice.unrecorded.never_renewed == NEEDED
    assert advice.round_trip.count == advice.delay.count == 0
    assert not advice.renewal_is_seen


@pytest.mark.parametrize("count", [0, 1, NEEDED - 1])
def test_advice__of_too_few_attempts_is_none_and_says_how_many_are_needed(count: int) -> None:
    advice = advise(CURRENT, [attempt() for _ in range(count)])

    for one in (advice.lease, advice.time_limit):
        assert (one.verdict, one.seconds, one.has, one.needs) == (Verdict.TOO_LITTLE_DATA, None, count, NEEDED)
    assert advice.renewal_seconds is None
    assert [one.name for one in advice.choices] == ["current", "shorter", "longer"]


def test_advice__counts_no_attempt_of_which_nothing_is_told() -> None:
    untold = [attempt(renewals=None, smallest_margin=None) for _ in range(NEEDED)]

    advice = advise(CURRENT, [*untold, lost(silent=None)])

    assert (advice.lease.has, advice.unrecorded.not_told, advice.unrecorded.silent) == (0, NEEDED, 1)
    assert advice.time_limit.seconds is not None, "their durations are told"


def test_detection__is_how_long_after_its_end_a_lease_was_given_up() -> None:
    slow = lost(silent=None, closed=54.0)  # four seconds

    advice = advise(CURRENT, [attempt(), lost(silent=None), lost(silent=None), slow])

    assert advice.detection_is_seen
    assert advice.choices[0].recovery_mean_seconds == 30 - 5 + 0.5
    assert advice.choices[0].recovery_longest_seconds == 34


def test_time_limit__takes_five_times_what_all_but_the_tolerated_took() -> None:
    advice = advise(CURRENT, [attempt(life=20.0) for _ in range(NEEDED)])

    assert (advice.time_limit.verdict, advice.time_limit.seconds) == (Verdict.SHORTEN, 120)
    assert [(one.name, one.time_limit_seconds, one.cut) for one in advice.limits] == [
        ("current", 600, 0), ("advised", 120, 0), ("shorter", 60, 0), ("longer", 240, 0),
    ]  # fmt: skip


def test_time_limit__is_at_least_twice_what_has_completed_and_not_below_the_lease() -> None:
    rare = [attempt(life=20.0) for _ in range(1999)] + [attempt(life=100.0, handler=100.0)]
    quick = [attempt(life=0.1) for _ in range(NEEDED)]

    assert advise(CURRENT, rare).time_limit.seconds == 240
    assert advise(CURRENT, quick).time_limit.seconds == advise(CURRENT, quick).lease.seconds == 8


@pytest.mark.parametrize(("life", "wanted"), [(400.0, 2700), (20.0, 120)])
def test_time_limit__that_was_reached_was_too_short_only_if_others_nearly_reached_it(
    life: float, wanted: float
) -> None:
    ended = attempt(life=600.0, completed=False, limited=True)

    advice = advise(CURRENT, [attempt(life=life) for _ in range(NEEDED)] + [ended, ended])

    assert advice.time_limit.seconds == wanted
    assert advice.unrecorded.limited == 2


# Whatever the history is.

seconds = st.floats(0, 1e5, allow_nan=False)


@st.composite
def histories(draw: st.DrawFn) -> list[PastAttempt]:
    """As ledgers may have them, also those that cannot be."""
    one = st.builds(
        PastAttempt,
        lease=st.floats(0.1, 86400),
        time_limit=st.floats(1e-3, 1e6),
        granted=seconds,
        closed=seconds,
        reported=st.none() | seconds,
        lost=st.booleans(),
        handler=st.none() | st.floats(-10, 1e5),
        renewals=st.none() | st.integers(0, 1000),
        smallest_margin=st.none() | st.floats(-1e4, 1e5),
        longest_round_trip=st.none() | seconds,
        completed=st.booleans(),
        limited=st.booleans(),
    )
    return draw(st.lists(one, max_size=12)) * draw(st.sampled_from([1, 40]))


currents = st.builds(
    Current,
    lease=st.floats(MIN_LEASE.total_seconds(), MAX_LEASE.total_seconds()),
    time_limit=st.floats(1e-6, YEAR.total_seconds()),
    repeatable=st.booleans(),
)


@given(currents, histories())
def test_advice__stays_within_the_bounds_of_terms(current: Current, attempts: list[PastAttempt]) -> None:
    advice = advise(current, attempts)

    for choice in advice.choices:
        assert MIN_LEASE.total_seconds() <= choice.lease_seconds <= MAX_LEASE.total_seconds()
        if choice.name != "current":
            assert choice.renewal_seconds <= choice.lease_seconds / 2
        assert choice.false_expiries + choice.possible + choice.unknown <= len(attempts)
    if advice.lease.seconds is not None:
        assert MIN_LEASE.total_seconds() <= advice.lease.seconds <= MAX_LEASE.total_seconds()
        assert advice.renewal_seconds is not None
        assert advice.renewal_seconds <= advice.lease.seconds / 2
    for limit in advice.limits:
        assert 0 < limit.time_limit_seconds <= YEAR.total_seconds()
    assert sum(advice.fates.values()) == advice.attempts == len(attempts)
    assert len({one.lease_seconds for one in advice.choices}) == len(advice.choices)


@given(histories(), st.floats(0.1, 4e4), st.floats(1.0, 2.0), st.floats(0.05, 0.5))
def test_replay__of_a_longer_lease_never_loses_more(
    attempts: list[PastAttempt], lease: float, times: float, share: float
) -> None:
    replay = Replay(attempts, THIRD, Detection(1, 1))
    short, long = (replay.lease("", one, one * share) for one in (lease, lease * times))

    assert long.false_expiries <= short.false_expiries
    assert long.false_expiries + long.possible <= short.false_expiries + short.possible
    assert long.unknown <= short.unknown
    assert long.renewals_per_attempt <= short.renewals_per_attempt
    assert long.recovery_mean_seconds >= short.recovery_mean_seconds


@given(st.floats(0, 31536000))
def test_rounded_up__is_a_duration_that_is_no_shorter_and_not_much_longer(value: float) -> None:
    found = rounded_up(value)

    assert value <= found <= max(1.0, 2.2 * value)
