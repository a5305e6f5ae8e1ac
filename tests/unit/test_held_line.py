"""How long a line is held, and when it opens."""

from __future__ import annotations

import pytest

from brokerjobs.rules.held_line import HeldLine


def test_line__that_nobody_holds_is_open() -> None:
    assert HeldLine().may_pass(0, 1)
    assert HeldLine().opens_at(1) is None


def test_line__is_held_for_two_medians_then_open_for_one_from_the_first_that_passes() -> None:
    line = HeldLine()
    line.begin(100)
    assert (line.may_pass(103.9, 2), line.opens_at(2)) == (False, 104)
    assert line.may_pass(104, 2)
    assert line.may_pass(150, 2), "nobody has passed yet"
    line.passed(150, 2)
    assert line.may_pass(151.9, 2)
    assert not line.may_pass(152, 2)
    assert line.opens_at(2) == 156


def test_line__is_held_longer_from_the_fifth_time_on() -> None:
    line = HeldLine()
    line.begin(0)
    now, held = 0.0, list[float]()
    for _ in range(7):
        opens = line.opens_at(1.0)
        assert opens is not None
        held.append(opens - now)
        assert not line.may_pass(opens - 0.01, 1)
        assert line.may_pass(opens, 1)
        line.passed(opens, 1)
        now = opens + 1
        assert not line.may_pass(now, 1)
    assert held == pytest.approx([2, 2, 2, 2, 4, 8, 16])


def test_line__that_the_next_one_holds_at_once_opens_no_later() -> None:
    line = HeldLine()
    line.begin(0)
    line.begin(1.5)
    assert line.may_pass(2, 1)


def test_line__that_nobody_held_meanwhile_begins_anew() -> None:
    line = HeldLine()
    line.begin(0)
    line.end()
    line.begin(1.5)
    assert not line.may_pass(2, 1)
