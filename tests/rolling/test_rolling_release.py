"""Two releases on one ledger: the previous one's processes on the new schema, and this one's on jobs of the old."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rolling import releases
from tests.rolling.releases import extract_previous
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rolling.releases import Look, Release

# A guard against hangs: many processes are started, one after the other.
pytestmark = pytest.mark.timeout(300)


def test_releases__are_two(previous: Release, this: Release, previous_tree: Path) -> None:
    assert previous.where().is_relative_to(previous_tree)
    assert not this.where().is_relative_to(previous_tree)


def test_previous_release__that_the_history_does_not_have_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "PREVIOUS", "0" * 40)

    assert "commit 0000000 of the previous release is not in this copy's history" in (extract_previous(tmp_path) or "")
    assert list(tmp_path.iterdir()) == []


async def test_worker__of_the_previous_release_runs_on_the_new_schema_beside_this_one(
    previous: Release, this: Release, look: Look, folder: Path
) -> None:
    """In the order of docs/how-to/deploy.md: setup, then coordinators, then workers; producers when they like."""
    previous.setup()
    with (
        previous.worker("previous-1", "--concurrency", "1", "--prefetch", "1") as first,
        previous.worker("previous-2") as second,
    ):
        with previous.coordinator():
            held = [look.submit_hold(folder / "first")]
            before = previous.produce(2)
        this.setup()
        with this.coordinator(BROKERJOBS_COORDINATOR__RECONCILE="100ms"):
            after = previous.produce(2)
            look.wait_until_succeeded([*before, *after])
            held.append(look.submit_hold(folder / "second", "hold.briefly"))
            second.process.kill()
            with this.worker("this-1", "--concurrency", "1", "--prefetch", "1"):
                # It takes up what the killed one left; then nobody has a slot, and jobs wait at the queue.
                look.wait_until(held[1:], lambda: len(look.attempts_of(held[1])) > 1)
                mixed = this.produce(2)
                _let_reconcile_look(look)
                assert look.rows("select ticket from brokerjobs.probe") == []  # previous-1 would not know what it is
                for mark in ("first", "second"):
                    (folder / mark).touch()
                assert first.terminated() == 0, first.log()
                look.wait_until_succeeded([*held, *mixed])

    assert await look.quarantined() == []
    assert set(look.workers_of([*before, *after])) == {"previous-2"}
    assert look.workers_of(held) == ["previous-1", "this-1"]


async def test_coordinator__of_the_previous_release_serves_workers_of_this_one(
    previous: Release, this: Release, look: Look, folder: Path
) -> None:
    """Also expiry: a worker of this release is killed, and its job goes to another."""
    previous.setup()
    jobs = previous.produce(2)
    this.setup()
    with previous.coordinator(), this.worker("this-1") as lost:
        held = look.submit_hold(folder / "mark", "hold.briefly")
        look.wait_until_succeeded(jobs)
        lost.process.kill()
        (folder / "mark").touch()
        with this.worker("this-2"):
            jobs += this.produce(2)
            look.wait_until_succeeded([held, *jobs])

    assert await look.quarantined() == []
    assert look.workers_of([held]) == ["this-2"]


def _let_reconcile_look(look: Look) -> None:
    """Wait until the service has looked a few times more."""
    ticks: set[object] = set()

    def ticked_often() -> bool:
        ticks.update(
            row["ticked_at"] for row in look.rows("select ticked_at from brokerjobs.service where name = 'reconcile'")
        )
        return len(ticks) > 3

    eventually_sync(ticked_often, 30)
