"""What `status` makes of the ledger's figures: from which one on a line appears, how bad it is, and which is named."""

from __future__ import annotations

from typing import Any

import pytest

from brokerjobs.cli.checkup.findings import Level
from brokerjobs.cli.condition import Line, condition_of

LED = [{"name": name, "seconds_left": 3.0} for name in ("relay", "reaper", "scheduler", "routes")]
WELL: dict[str, Any] = {
    "services": LED,
    "outbox": {"messages": 0, "oldest_seconds": None},
    "past_deadline": {"jobs": 0},
    "running": {"jobs": 0, "expired": 0, "oldest_expired_seconds": None, "example": None},
    "queued": 0,
    "waiting": [],
    "unplaceable": [],
    "reviews": {"open": 0},
    "dead": {"jobs": 0, "largest": None},
    "storms": [],
    "workers": {"online": 1, "gone": 0, "leaked": 0, "draining": 0},
    "quarantined": {"messages": 0},
    "paused": [],
    "paused_queues": [],
    "artifacts": {"hash_mismatch": 0, "expired_unacknowledged": 0, "example": None, "orphans": 7},
    "stores": [],
}
STORE: dict[str, Any] = {
    "store": "s3://b",
    "artifacts": 9,
    "unswept": 0,
    "unswept_seconds": None,
    "unremoved": 0,
    "unremoved_seconds": None,
    "orphans": 3,
}
FINE: dict[str, Any] = {
    "route": "shop.q.a",
    "jobs": 2,
    "oldest_seconds": 400,
    "example": "J",
    "never_rung": 0,
    "workers": 1,
    "consuming": 1,
    "declared": True,
    "trouble": None,
}


def lines(**other: Any) -> list[Line]:
    return condition_of(WELL | other).lines


def line(**other: Any) -> Line:
    (one,) = lines(**other)
    return one


def test_condition__of_such_figures_is_well() -> None:
    assert condition_of(WELL).lines == []
    assert condition_of(WELL).well


def test_condition__a_backlog_of_messages_is_told_of_after_half_a_minute() -> None:
    assert lines(outbox={"messages": 7, "oldest_seconds": 30}) == []
    late = line(outbox={"messages": 7, "oldest_seconds": 31})
    assert (late.about, late.level, late.next) == ("outbox", Level.FAIL, "brokerjobs doctor")
    assert late.message == "7 messages wait to be published, the oldest for 31s"


def test_condition__a_lease_that_nobody_takes_is_told_of_after_a_minute() -> None:
    running = {"jobs": 3, "expired": 2, "example": "J"}
    assert lines(running={**running, "oldest_expired_seconds": 60}) == []
    late = line(running={**running, "oldest_expired_seconds": 61})
    assert late.message == "2 expired leases are not yet taken, the oldest ended 1m1s ago"


@pytest.mark.parametrize(("silent", "level"), [("relay", Level.FAIL), ("routes", Level.WARN)])
def test_condition__a_slow_service_without_a_tick_is_a_warning(silent: str, level: Level) -> None:
    services = [{**one, "seconds_left": -16.0} if one["name"] == silent else one for one in LED]
    assert (line(services=services).level, line(services=services).message) == (
        level,
        f"services without a tick: {silent}",
    )


@pytest.mark.parametrize(
    ("facts", "level", "why"),
    [
        ({}, Level.WARN, "its 1 worker is behind"),
        ({"never_rung": 2}, Level.FAIL, "the broker has confirmed no doorbell of theirs"),
        ({"never_rung": 1}, Level.WARN, "its 1 worker is behind"),
        ({"workers": 2, "consuming": 0}, Level.FAIL, "2 workers serve it and none consumes it"),
        ({"trouble": {"argument": "x-queue-type"}}, Level.FAIL, "its queue cannot be declared (x-queue-type differs)"),
    ],
)
def test_condition__says_why_a_route_waits(facts: dict[str, Any], level: Level, why: str) -> None:
    late = line(waiting=[FINE | facts])
    assert (late.level, late.message.partition("already: ")[2]) == (level, why)


def test_condition__names_the_worst_route_and_counts_the_others() -> None:
    other, worst = FINE | {"jobs": 900}, FINE | {"route": "shop.q.b", "workers": 0, "consuming": 0}
    late = line(waiting=[other, worst, other])
    assert (late.level, late.next) == (Level.FAIL, "brokerjobs worker MODULE:APP")
    assert late.message == (
        "2 jobs wait for a delivery on shop.q.b, up to 6m40s already: no live worker serves it (and 2 other routes)"
    )


def test_condition__says_or_more_where_the_ledger_stops_counting() -> None:
    late = line(reviews={"open": 10_000, "oldest_seconds": 5})
    assert late.message == "10000 or more reviews are open, the oldest for 5s"
    assert condition_of(WELL | {"queued": 10_000}).summary == "0 running, 10000 or more waiting; 1 worker alive"
    assert condition_of(WELL | {"queued": 9_999}).summary == "0 running, 9999 waiting; 1 worker alive"


def test_condition__copies_that_are_not_what_was_staged_come_first_of_artifacts() -> None:
    first, second = lines(artifacts={"hash_mismatch": 2, "expired_unacknowledged": 1})
    assert (first.about, first.level) == ("artifacts", Level.FAIL)
    assert first.message == "2 staged copies are not what was staged, or missing"
    assert first.next == "brokerjobs artifacts list --state hash_mismatch --all-attempts"
    assert (second.level, second.next) == (
        Level.WARN,
        "brokerjobs artifacts list --state expired_unacknowledged",
    )
    assert second.message == "nobody acknowledged 1 artifact in time: removed in the last day"


def test_condition__of_a_store_tells_of_what_is_not_removed() -> None:
    assert lines(stores=[STORE]) == []
    kept = line(stores=[STORE, STORE | {"unremoved": 2, "unremoved_seconds": 7200, "unswept": 5, "unswept_seconds": 1}])
    assert (kept.about, kept.level, kept.next) == ("store", Level.WARN, "brokerjobs doctor")
    assert kept.message == "2 artifacts are to be removed from s3://b and not gone, the first for 2h"
    alone = line(stores=[STORE | {"unswept": 5, "unswept_seconds": 7200}])
    assert alone.message == "nobody has looked after s3://b for 2h: nothing is removed from it"


def test_condition__of_a_ledger_that_knows_no_artifacts_says_nothing_of_them() -> None:
    older = {key: value for key, value in WELL.items() if key not in {"artifacts", "stores"}}
    assert condition_of(older).well


def test_condition__a_store_that_nobody_sweeps_any_more_is_no_service_without_a_tick() -> None:
    assert lines(services=[*LED, {"name": "sweeper s3://before", "seconds_left": -1e6}]) == []
