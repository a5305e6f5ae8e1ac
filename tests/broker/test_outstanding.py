from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.broker.outstanding import Outstanding, Settlement


def outstanding(*tags: int) -> Outstanding:
    made = Outstanding()
    for tag in tags:
        made.add(tag)
    return made


def test_settle__uses_one_frame_for_a_prefix() -> None:
    assert outstanding(1, 2, 3, 4).settle([3, 1, 2]) == Settlement(through=3, single=[])


def test_settle__reaches_over_no_hole() -> None:
    tags = outstanding(1, 2, 3, 4, 5)

    assert tags.settle([1, 3, 5]) == Settlement(through=1, single=[3, 5])
    assert tags.settle([2, 4]) == Settlement(through=4, single=[])
    assert len(tags) == 0


def test_settle__leaves_out_what_is_settled_or_never_came() -> None:
    tags = outstanding(1, 2, 3)
    tags.settle([2])

    assert tags.settle([2, 9]) == Settlement(through=0, single=[])
    assert len(tags) == 2


def test_add__refuses_to_go_back() -> None:
    tags = outstanding(1, 2)
    tags.settle([1, 2])

    with pytest.raises(ValueError, match="delivery 2 arrived after delivery 2"):
        tags.add(2)


@given(st.integers(1, 30), st.lists(st.sets(st.integers(1, 35)), max_size=8))
def test_settle__settles_exactly_what_it_is_given(count: int, calls: list[set[int]]) -> None:
    tags = outstanding(*range(1, count + 1))
    at_broker = set(range(1, count + 1))
    for call in calls:
        expected = at_broker - call
        through, single = tags.settle(call)

        # As the broker does it: a tag that it does not know closes the channel.
        assert not through or through in at_broker
        assert set(single) <= at_broker
        at_broker = {tag for tag in at_broker if tag > through} - set(single)

        assert at_broker == expected
        assert len(tags) == len(expected)
