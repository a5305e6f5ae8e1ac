"""What waits in a worker, and how old it says that this is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests import deliveries
from tests.deliveries import delivery

if TYPE_CHECKING:
    from brokerjobs.worker.inbox import Inbox


@pytest.fixture
def inbox() -> Inbox:
    return deliveries.inbox()


def test_take__gives_the_oldest_first(inbox: Inbox) -> None:
    first, second, third = delivery(3), delivery(2), delivery(1)
    for one in (first, second, third):
        inbox.put(one)

    assert inbox.take(2) == [first, second]
    assert (len(inbox), inbox.take(5), inbox.take(5)) == (1, [third], [])


def test_take_overdue__gives_only_what_has_waited_so_long(inbox: Inbox) -> None:
    old, older, young = delivery(60), delivery(50), delivery(5)
    for one in (old, older, young):
        inbox.put(one)

    assert inbox.take_overdue(30, 1) == [old]
    assert inbox.take_overdue(30, 10) == [older]
    assert inbox.take_overdue(30, 10) == []
    assert len(inbox) == 1


def test_oldest_unclaimed__is_none_of_an_empty_inbox(inbox: Inbox) -> None:
    assert inbox.oldest_unclaimed() is None
    assert inbox.waited() == 0


def test_oldest_unclaimed__counts_what_is_in_hand_until_the_ledger_has_answered(inbox: Inbox) -> None:
    """The job waits for a delivery all that time: its doorbell is not lost."""
    for age in (60, 30):
        inbox.put(delivery(age))
    taken = inbox.take(1)
    assert 60 <= (inbox.oldest_unclaimed() or 0) < 70

    inbox.answered(taken)

    assert 30 <= (inbox.oldest_unclaimed() or 0) < 40


def test_answered__puts_back_in_front_what_had_no_answer(inbox: Inbox) -> None:
    first, second, third = delivery(30), delivery(20), delivery(10)
    for one in (first, second, third):
        inbox.put(one)
    inbox.answered(inbox.take(2), [second])

    assert 20 <= (inbox.oldest_unclaimed() or 0) < 29
    assert inbox.take(5) == [second, third]


async def test_some__waits_while_there_is_nothing(inbox: Inbox) -> None:
    inbox.put(delivery())
    await inbox.some()
    taken = inbox.take(1)
    waiting = asyncio.create_task(inbox.some())
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.answered(taken, taken)

    ended, _ = await asyncio.wait({waiting}, timeout=5)
    assert ended == {waiting}
