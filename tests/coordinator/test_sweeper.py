"""What the sweeper removes from a store, and what it leaves; what is due when is tested with the ledger's functions."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.coordinator.sweeper import service_name
from brokerjobs.ledger import services
from tests.coordinator.stage import NOW, process
from tests.coordinator.sweeping_stage import EVERY
from tests.ledger.staging import DAY, HOUR, WEEK, named

if TYPE_CHECKING:
    import pytest

    from tests.coordinator.sweeping_stage import Depot
    from tests.ledger.ledger_driver import Ledger


def strange() -> str:
    """A path as the ledger makes them, of which it knows nothing."""
    return f"{uuid4()}/{uuid4()}/{uuid4()}"


async def test_sweeper__removes_what_was_acknowledged_and_nothing_else(
    depot: Depot, caplog: pytest.LogCaptureFixture
) -> None:
    _, safe = depot.handed_over()
    _, other = depot.handed_over()
    depot.acknowledge(safe)
    sweeper = depot.sweeper()
    caplog.set_level("INFO")

    depot.ledger.clock.advance(HOUR - 1)
    assert await sweeper.tick() == EVERY
    assert depot.is_there(safe)
    depot.ledger.clock.advance(1)
    assert await sweeper.tick() == EVERY

    assert depot.paths() == {depot.path(other)}
    shown = depot.shown(safe)
    assert (shown.state, shown.removed_at) == ("acknowledged", depot.ledger.clock.now)
    (said,) = [record for record in caplog.records if record.name == "brokerjobs.coordinator.sweeper"]
    assert (said.levelno, said.getMessage()) == (
        logging.INFO,
        f"removed 1 artifact from {depot.store}: 1 acknowledged",
    )


async def test_sweeper__says_in_a_warning_what_nobody_has_a_safe_copy_of(
    depot: Depot, caplog: pytest.LogCaptureFixture
) -> None:
    _, unseen = depot.handed_over()
    _, other = depot.handed_over()
    assert depot.mismatch(other) == "noted"
    depot.ledger.clock.advance(WEEK)

    await depot.sweeper().tick()

    assert depot.paths() == set()
    assert {one: depot.shown(one).state for one in (unseen, other)} == {
        unseen: "expired_unacknowledged",
        other: "hash_mismatch",
    }
    (said,) = [record for record in caplog.records if record.name == "brokerjobs.coordinator.sweeper"]
    assert (said.levelno, said.getMessage()) == (
        logging.WARNING,
        f"removed 2 artifacts from {depot.store}: 1 mismatch, 1 unacknowledged",
    )


async def test_sweeper__removes_an_upload_of_a_killed_worker_only_when_nobody_can_accept_it(depot: Depot) -> None:
    killed = depot.ledger.worker.take(depot.ledger.submit())
    begun = depot.begun(killed)
    path = depot.path(begun)
    whole = depot.folder / path
    whole.parent.mkdir(parents=True)
    half = whole.with_name(f".{whole.name}.0123456789abcdef.part")
    half.write_bytes(b"hal")
    sweeper = depot.sweeper()

    # It may only be slow: its lease runs out, and a late success would still be accepted.
    depot.ledger.lose(killed)
    depot.ledger.clock.advance(HOUR - 1)
    await sweeper.tick()
    assert half.exists()
    depot.ledger.clock.advance(1)
    await sweeper.tick()

    assert depot.paths() == set()
    assert not half.exists()
    assert depot.shown(begun).state == "discarded"
    assert depot.ready(begun, killed) == "discarded"


async def test_sweeper__keeps_outputs_of_an_attempt_that_may_come_back_late(depot: Depot) -> None:
    late = depot.ledger.worker.take(depot.ledger.submit())
    output = depot.put(late)
    depot.ledger.lose(late)
    sweeper = depot.sweeper()

    for _ in range(3):
        depot.ledger.clock.advance(WEEK)
        await sweeper.tick()
    assert depot.is_there(output)
    assert depot.ledger.worker.complete(late, {"report": named(output)}).verdict == "accepted"
    await sweeper.tick()

    assert depot.is_there(output)
    assert depot.shown(output).visible


async def test_sweeper__removes_outputs_of_an_attempt_a_day_after_a_newer_one(depot: Depot) -> None:
    old = depot.ledger.worker.take(depot.ledger.submit())
    output = depot.put(old)
    depot.ledger.lose(old)
    depot.ledger.ring_again(old.job_id)
    new = depot.put(depot.ledger.worker.take(old.job_id))
    sweeper = depot.sweeper()

    depot.ledger.clock.advance(HOUR)  # found by then, and kept for people who want to look
    await sweeper.tick()
    depot.ledger.clock.advance(DAY - 1)
    await sweeper.tick()
    assert depot.is_there(output)
    depot.ledger.clock.advance(HOUR)
    await sweeper.tick()

    assert depot.paths() == {depot.path(new)}


async def test_sweeper__takes_bounded_batches_and_rests_between_them(depot: Depot) -> None:
    holding = depot.ledger.worker.take(depot.ledger.submit())
    depot.put_many(holding, 1_000)
    depot.ledger.worker.complete(holding)
    sweeper = depot.sweeper()

    def gone() -> int:
        query = "select count(*) from brokerjobs.artifact where removed_at is not null and store = %s"
        ((count,),) = depot.ledger.setting_up.sql(query, depot.store)
        return int(count)

    async def until_all_was_looked_at() -> list[tuple[int, timedelta]]:
        """How many each tick has removed, and after what time the next one was due."""
        steps = list[tuple[int, timedelta]]()
        while not steps or steps[-1][1] < EVERY:
            before = gone()
            delay = await sweeper.service.run_once()
            steps.append((gone() - before, delay))
            assert len(steps) < 100
        return steps

    depot.ledger.clock.advance(HOUR)
    assert [count for count, _ in await until_all_was_looked_at()] == [0] * 5  # 250 at a time, and the empty rest
    depot.ledger.clock.advance(WEEK)
    steps = await until_all_was_looked_at()

    assert [count for count, _ in steps] == [25] * 40 + [0]
    assert all(delay > NOW for _, delay in steps)
    assert depot.paths() == set()


# What is in the store and not as the ledger says.


async def test_sweeper__deletes_again_what_comes_back_after_its_removal(
    depot: Depot, caplog: pytest.LogCaptureFixture
) -> None:
    paused = depot.ledger.worker.take(depot.ledger.submit())
    begun = depot.begun(paused)
    depot.ledger.worker.fail(paused)
    depot.ledger.clock.advance(HOUR)
    sweeper = depot.sweeper()
    await sweeper.tick()
    assert depot.shown(begun).removed_at is not None
    caplog.set_level("INFO")

    depot.upload(depot.path(begun))
    await sweeper.tick()

    assert depot.paths() == set()
    assert f"deleted again what had come back to {depot.store}: 1 object" in caplog.text
    assert depot.orphans() == []


async def test_sweeper__records_orphans_and_keeps_them(depot: Depot, caplog: pytest.LogCaptureFixture) -> None:
    orphan = depot.upload(strange())
    sweeper = depot.sweeper()

    for _ in range(2):
        await sweeper.tick()
    depot.ledger.clock.advance(365 * DAY)
    for _ in range(2):
        await sweeper.tick()

    assert depot.paths() == {orphan}
    assert depot.orphans() == [(orphan, False)]
    said = f"{depot.store} has 1 object of which the ledger knows nothing: brokerjobs doctor"
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [said]


async def test_sweeper__removes_orphans_if_that_is_asked_for_and_after_that_time(depot: Depot) -> None:
    orphan = depot.upload(strange())
    sweeper = depot.sweeper(remove_orphans_after=timedelta(days=1))

    await sweeper.tick()
    depot.ledger.clock.advance(DAY - 1)
    await sweeper.tick()
    assert depot.paths() == {orphan}
    depot.ledger.clock.advance(1)
    await sweeper.tick()

    assert depot.paths() == set()
    assert depot.orphans() == [(orphan, True)]


async def test_sweeper__forgets_an_orphan_that_somebody_else_has_removed(depot: Depot) -> None:
    orphan = depot.upload(strange())
    sweeper = depot.sweeper()
    await sweeper.tick()
    assert depot.orphans() == [(orphan, False)]

    depot.objects.delete(orphan)
    depot.ledger.clock.advance(HOUR)
    await sweeper.tick()

    assert depot.orphans() == [(orphan, True)]


async def test_sweeper__leaves_alone_what_is_not_its_own(depot: Depot, ledger: Ledger) -> None:
    """Files of other people, artifacts of another namespace, and those that are recorded in another store."""
    foreign = {depot.upload("readme.txt"), depot.upload(f"{uuid4()}/notes")}
    holding = ledger.worker.take(ledger.submit())
    elsewhere = depot.begun(holding, store="s3://another")
    copied = depot.upload(depot.path(elsewhere))
    sweeper = depot.sweeper(remove_orphans_after=timedelta(hours=1))

    ledger.worker.fail(holding)
    for _ in range(3):
        ledger.clock.advance(30 * DAY)
        await sweeper.tick()

    assert depot.paths() == foreign | {copied}
    assert depot.orphans() == []
    assert depot.shown(elsewhere).removing is None


async def test_sweeper__goes_round_a_store_page_by_page(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerjobs.coordinator.sweeper._PAGE", 3)
    all_of_them = sorted(depot.upload(strange()) for _ in range(7))
    sweeper = depot.sweeper()

    seen = list[int]()
    for _ in range(3):
        await sweeper.tick()
        seen.append(len(depot.orphans()))
    first = depot.upload(f"{uuid4()}/{uuid4()}/{uuid4()}")
    for _ in range(3):
        await sweeper.tick()

    assert seen == [3, 6, 7]
    assert [path for path, _ in depot.orphans()] == sorted([*all_of_them, first])


# Who sweeps.


async def test_sweeper__works_on_nothing_while_another_leads(depot: Depot) -> None:
    _, safe = depot.handed_over()
    depot.acknowledge(safe)
    depot.ledger.clock.advance(HOUR)
    sweeper = depot.sweeper()
    await depot.connection.fetch(services.lead(sweeper.service.name, process("another"), 60))

    assert await sweeper.tick() == LED_ELSEWHERE

    assert depot.is_there(safe)
    assert depot.shown(safe).removing is None


async def test_sweeper__of_another_store_does_not_keep_it_from_its_own(depot: Depot) -> None:
    _, safe = depot.handed_over()
    depot.acknowledge(safe)
    depot.ledger.clock.advance(HOUR)
    await depot.connection.fetch(services.lead(service_name("s3://another"), process("another"), 60))

    assert await depot.sweeper().tick() == EVERY

    assert not depot.is_there(safe)


async def test_sweeper__two_at_once_remove_everything_once(depot: Depot) -> None:
    _, safe = depot.handed_over()
    depot.acknowledge(safe)
    depot.ledger.clock.advance(HOUR)
    first, second = depot.sweeper("first"), depot.sweeper("second")
    await first.tick()
    removed_at = depot.shown(safe).removed_at

    depot.ledger.clock.advance(HOUR)  # the first one's lead is over
    assert await second.tick() == EVERY
    assert await first.tick() == LED_ELSEWHERE

    assert depot.paths() == set()
    assert depot.shown(safe).removed_at == removed_at
