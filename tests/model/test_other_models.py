"""The small models beside that of one job: exclusive resources, waiters, the outbox, and rings that were lost."""

from __future__ import annotations

import pytest

from tests.model.outbox import RelayMark, RingRows
from tests.model.reconcile import Load, Queue
from tests.model.resource import ExclusiveResource, WakingWaiters
from tests.model.search import Search

TWO_LIVE = "two attempts with live leases hold the resource"
STALE = "a result is accepted although a newer holder has taken the resource"


@pytest.mark.parametrize("in_two_steps", [False, True])
def test_resource__is_safe_if_freed_by_a_committed_close_and_checked_at_acceptance(in_two_steps: bool) -> None:
    rules = ExclusiveResource("holder closed", result_carries_number=True, claims_in_two_steps=in_two_steps)

    found = Search(rules).run()

    assert (found.breaches, found.stuck) == ({}, None)
    assert found.states > 200


@pytest.mark.parametrize(
    ("rules", "promise"),
    [
        (ExclusiveResource("holder closed", result_carries_number=False), STALE),
        (ExclusiveResource("lease over", result_carries_number=False, claims_in_two_steps=True), STALE),
        (ExclusiveResource("lease over", result_carries_number=True, claims_in_two_steps=True), TWO_LIVE),
    ],
)
def test_resource__is_not_safe_with_less(rules: ExclusiveResource, promise: str) -> None:
    assert promise in Search(rules).run().breaches


def test_waiters__are_woken_while_the_scheduler_ticks() -> None:
    assert Search(WakingWaiters(ticks=True, losses=1)).run().stuck is None


@pytest.mark.parametrize("losses", [0, 1])
def test_waiters__are_stranded_without_ticks(losses: int) -> None:
    """A waiter is cancelled after its ring, or the ring is lost."""
    stuck = Search(WakingWaiters(ticks=False, losses=losses)).run().stuck

    assert stuck is not None
    assert len(stuck) == 2


def test_relay__passes_nobody_by_with_a_transaction_as_its_mark() -> None:
    found = Search(RelayMark("transaction")).run()

    assert found.stuck is None
    assert found.states > 50


def test_relay__passes_late_commits_by_with_a_number_as_its_mark() -> None:
    stuck = Search(RelayMark("number")).run().stuck

    assert stuck is not None
    told = [str(step) for step in stuck]
    assert (told[0], told[-1]) == ("ring 0 is written", "the scan publishes what it sees")
    assert "ring 0 is committed" not in told  # it comes now, and lies before the mark


def test_rings__have_a_row_each() -> None:
    assert Search(RingRows(one_a_job=False)).run().stuck is None


def test_rings__are_lost_with_one_row_a_job() -> None:
    """The relay will mark the one ring, and with it forget the next."""
    stuck = Search(RingRows(one_a_job=True)).run().stuck

    assert stuck is not None
    assert [str(step) for step in stuck] == ["the relay publishes ring 0", "claim", "release"]


BACKLOG = Load(jobs=20_000)
STANDING = Load(jobs=5_000, arrivals=500)


def test_reconcile__by_probe_rings_what_was_lost_and_nothing_else() -> None:
    outcome = Queue("probe", BACKLOG).run()

    assert outcome.found == len(outcome.lost) > 100
    assert (outcome.rung_again, outcome.useless) == (len(outcome.lost), 0)


def test_reconcile__by_probe_finds_lost_rings_under_a_standing_backlog() -> None:
    outcome = Queue("probe", STANDING).run()

    assert outcome.found > 0.9 * len(outcome.lost)
    assert outcome.useless == 0


def test_reconcile__by_age_rings_a_backlog_again_and_again() -> None:
    outcome = Queue("age", Load(jobs=10_000, arrivals=240, rate=250, horizon=400)).run()

    assert outcome.longest_queue > 5 * 10_000


def test_reconcile__by_an_empty_queue_finds_nothing_under_a_standing_backlog() -> None:
    outcome = Queue("idle", STANDING).run()

    assert (outcome.found, outcome.rung_again) == (0, 0)
