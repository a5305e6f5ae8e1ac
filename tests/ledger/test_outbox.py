"""The outbox: one row a ring, taken from a mark that passes nobody by, and forgotten when the publish is confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.ledger import calls
from tests.ledger.ledger_caller import new_job

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger


@pytest.fixture
def quiet(ledger: Ledger) -> Ledger:
    """A ledger in which no message waits."""
    ledger.owner.execute("delete from brokerjobs.outbox")
    return ledger


def _taken(caller: Caller, mark: str = "0", limit: int = 1000) -> tuple[set[UUID], str]:
    messages, mark = caller.outbox_take(mark, limit)
    return {m.job_id for m in messages if m.job_id is not None}, mark


def test_outbox__has_one_row_a_ring(quiet: Ledger) -> None:
    job = quiet.submit()
    quiet.worker.release(quiet.worker.take(job))
    quiet.worker.hand_back(job)

    rows = quiet.rows.outbox(job)

    assert len(rows) == len({row.ticket for row in rows}) == 3
    assert len(quiet.coordinator.outbox_take()[0]) == 3


def test_outbox_take__tells_what_to_publish_oldest_first(quiet: Ledger) -> None:
    jobs = [quiet.submit() for _ in range(3)]
    messages, _ = quiet.coordinator.outbox_take()

    assert [m.job_id for m in messages] == jobs
    first = messages[0]
    assert (first.kind, first.route, first.type, first.body) == ("doorbell", quiet.place.route(), "work", None)
    assert (first.namespace, first.traceparent, first.mark) == (quiet.place.namespace, None, None)


def test_outbox_take__holds_what_it_took_for_ten_seconds(quiet: Ledger) -> None:
    job = quiet.submit()
    assert _taken(quiet.coordinator)[0] == {job}
    assert _taken(quiet.open("coordinator"))[0] == set()
    quiet.clock.advance(9.9)
    assert _taken(quiet.coordinator)[0] == set()
    quiet.clock.advance(0.1)

    assert _taken(quiet.coordinator)[0] == {job}
    assert quiet.rows.outbox(job)[0].taken == 2


def test_outbox_take__by_two_at_once_takes_each_message_once(quiet: Ledger) -> None:
    jobs = {quiet.submit() for _ in range(6)}
    one, two = quiet.open("coordinator"), quiet.open("coordinator")
    one.sql("set lock_timeout = '1ms'")
    two.sql("set lock_timeout = '1ms'")
    one.begin()
    first, _ = _taken(one, limit=3)
    second, _ = _taken(two)
    one.commit()

    assert (len(first), first | second, first & second) == (3, jobs, set())


def test_outbox_take__passes_no_row_that_commits_late(quiet: Ledger) -> None:
    """A sequence as the mark would lose it: the row gets its number, others pass it, then its transaction commits."""
    late = quiet.open("producer")
    late.begin()
    held_back = quiet.submit(by=late)
    mark = "0"
    for _ in range(3):
        job = quiet.submit()
        taken, mark = _taken(quiet.coordinator, mark)
        assert taken == {job}
        quiet.coordinator.outbox_done(*(row.ticket for row in quiet.rows.outbox(job)))
    late.commit()

    assert _taken(quiet.coordinator, mark)[0] == {held_back}


def test_outbox_take__mark_moves_on_while_a_reader_holds_a_snapshot(quiet: Ledger) -> None:
    """A long report must not make every scan a full one."""
    reader = quiet.open("owner")
    reader.begin("repeatable read")
    reader.sql("select count(*) from brokerjobs.job")
    job = quiet.submit()
    _, before = _taken(quiet.coordinator)
    quiet.coordinator.outbox_done(*(row.ticket for row in quiet.rows.outbox(job)))
    next_job = quiet.submit()
    xid = quiet.rows.scalar("select xid::text from brokerjobs.outbox where job_id = %s", [next_job], of=str)
    quiet.coordinator.outbox_done(*(row.ticket for row in quiet.rows.outbox(next_job)))

    _, after = _taken(quiet.coordinator, before)
    reader.rollback()

    assert int(after) > int(xid) > int(before)


def test_outbox_take__mark_stays_at_the_oldest_row_that_is_held_back(quiet: Ledger) -> None:
    (announced,) = quiet.submit_all([new_job()], announced=True)
    for _ in range(3):
        quiet.coordinator.outbox_done(*(row.ticket for row in quiet.rows.outbox(quiet.submit())))
    taken, mark = _taken(quiet.coordinator)
    assert taken == set()
    quiet.clock.advance(2)

    assert _taken(quiet.coordinator, mark)[0] == {announced.id}


def test_outbox_take__with_a_limit_goes_on_where_it_stopped(quiet: Ledger) -> None:
    jobs = {quiet.submit() for _ in range(5)}
    found: set[UUID] = set()
    mark = "0"
    for expected in (2, 2, 1, 0):
        taken, mark = _taken(quiet.coordinator, mark, limit=2)
        assert len(taken) == expected
        found |= taken

    assert found == jobs


def test_outbox_take__forgets_messages_of_jobs_that_are_gone(quiet: Ledger) -> None:
    job = quiet.submit()
    with quiet.owner.transaction():
        quiet.owner.execute("alter table brokerjobs.job disable trigger user")
        quiet.owner.execute("delete from brokerjobs.job where id = %s", [job])
        quiet.owner.execute("alter table brokerjobs.job enable trigger user")
    _, mark = _taken(quiet.coordinator)

    assert quiet.rows.outbox(job) == []
    assert int(mark) > 0


def test_outbox_done__writes_when_a_waiting_job_was_rung(quiet: Ledger) -> None:
    job = quiet.submit()
    (ring,) = quiet.rows.outbox(job)
    quiet.clock.advance(1)

    quiet.coordinator.outbox_done(ring.ticket)

    assert quiet.rows.outbox(job) == []
    assert quiet.rows.state(job).rung_at == quiet.clock.now
    quiet.coordinator.outbox_done(ring.ticket)  # asked again


def test_outbox_done__leaves_a_job_that_is_not_waiting_alone(quiet: Ledger) -> None:
    running, done = quiet.submit(), quiet.submit()
    quiet.worker.take(running)
    quiet.worker.complete(quiet.worker.take(done))
    before = quiet.rows.state(running), quiet.rows.state(done)

    quiet.coordinator.outbox_done(*(quiet.rows.outbox(job)[0].ticket for job in (running, done)))

    assert (quiet.rows.state(running), quiet.rows.state(done)) == before
    assert quiet.rows.outbox(running) == []


def test_outbox_done__of_a_producer_marks_what_it_announced(quiet: Ledger) -> None:
    (answer,) = quiet.submit_all([new_job()], announced=True)
    assert answer.ticket is not None

    quiet.producer.outbox_done(answer.ticket)

    assert quiet.rows.outbox(answer.id) == []


def test_outbox_done__waits_for_nobody(quiet: Ledger) -> None:
    """Neither for the job's row, nor for a message that another process has in hand."""
    busy, held, free = (quiet.submit() for _ in range(3))
    tickets = [quiet.rows.outbox(job)[0].ticket for job in (busy, held, free)]
    holder = quiet.open("owner")
    holder.begin()
    holder.sql("select from brokerjobs.job_state where job_id = %s for update", busy)
    holder.sql("select from brokerjobs.outbox where job_id = %s for update", held)
    quiet.coordinator.sql("set lock_timeout = '1ms'")

    quiet.coordinator.outbox_done(*tickets)
    holder.rollback()

    assert [len(quiet.rows.outbox(job)) for job in (busy, held, free)] == [0, 1, 0]
    assert [quiet.rows.state(job).rung_at for job in (busy, free)] == [None, quiet.clock.now]


def test_acked__waits_for_nobody(quiet: Ledger) -> None:
    busy, free = quiet.worker.take(quiet.submit()), quiet.worker.take(quiet.submit())
    guest, acking = quiet.open(), quiet.open()
    guest.begin()
    guest.complete_v1(busy)
    acking.sql("set lock_timeout = '1ms'")

    acking.fetch(
        calls.acked([calls.SentAck(one.attempt_id, quiet.clock.now, calls.LeaseFigures()) for one in (busy, free)])
    )
    guest.commit()

    assert quiet.rows.attempt(free.attempt_id).ack_sent_at == quiet.clock.now


def test_outbox_refused__waits_longer_with_every_refusal(quiet: Ledger) -> None:
    job = quiet.submit()
    waits: list[float] = []
    for _ in range(8):
        (message,) = quiet.coordinator.outbox_take()[0]
        assert message.ticket is not None
        quiet.coordinator.outbox_refused(message.ticket)
        (row,) = quiet.rows.outbox(job)
        waits.append((row.hold_until - quiet.clock.now).total_seconds())
        quiet.clock.set(row.hold_until)

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_cancelled_job__may_still_be_rung_and_its_claim_is_refused(quiet: Ledger) -> None:
    job = quiet.submit()
    quiet.producer.cancel(job)

    assert _taken(quiet.coordinator)[0] == {job}
    assert quiet.worker.claim(job).verdict == "finished"
