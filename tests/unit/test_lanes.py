"""Turns of the lanes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.rules.lanes import WEIGHTS, Lane, Turns

if TYPE_CHECKING:
    from collections.abc import Collection

ALL: tuple[Lane, ...] = ("high", "normal", "low")


def turn(turns: Turns, waiting: Collection[Lane]) -> Lane:
    lane = turns.order(waiting)[0]
    turns.took(lane, waiting)
    return lane


def test_turns__are_8_to_3_to_1_in_any_12_and_evenly_spread() -> None:
    turns = Turns()
    taken = [turn(turns, ALL) for _ in range(1200)]
    for start in range(1188):
        part = Counter(taken[start : start + 12])
        assert (part["high"], part["normal"], part["low"]) == (8, 3, 1)
    assert "".join(lane[0] for lane in taken[:12]) == "hnhhlhnhhhnh"


def test_lane__in_which_nothing_waits_costs_nothing() -> None:
    turns = Turns()
    assert [turn(turns, ["low"]) for _ in range(5)] == ["low"] * 5
    assert Counter(turn(turns, ["normal", "low"]) for _ in range(400)) == {"normal": 300, "low": 100}


def test_lane__saves_no_turns_up_while_nothing_waits_in_it() -> None:
    turns = Turns()
    for _ in range(1000):
        turn(turns, ["normal"])
    taken = [turn(turns, ALL) for _ in range(12)]
    assert Counter(taken) == {"high": 8, "normal": 3, "low": 1}


@given(st.lists(st.sets(st.sampled_from(ALL), min_size=1).map(sorted), max_size=300))
def test_lane__waits_no_longer_than_two_rounds(sets: list[list[Lane]]) -> None:
    """Whatever comes and goes in the others: a lane in which something waits has its turn."""
    turns, without = Turns(), dict.fromkeys(ALL, 0)
    for waiting in sets:
        lane = turn(turns, waiting)
        for one in waiting:
            without[one] = 0 if one == lane else without[one] + 1
            assert without[one] <= 2 * sum(WEIGHTS.values()) / WEIGHTS[one], f"{one} starves"
