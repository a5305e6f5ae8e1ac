"""A message that goes to quarantine is recorded; the job that it names is rung again, and not often."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from brokerjobs.ledger import calls

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


def quarantine(ledger: Ledger, job: UUID | None, *, route: str | None = None, worker: str = "worker-a") -> None:
    """A worker rejects a message that names a job."""
    message = calls.Strange(route or ledger.place.route("other"), "wrong_route", uuid4(), job, "d" * 64)
    ledger.worker.fetch(calls.quarantine(worker, message))


def rings(ledger: Ledger, job: UUID) -> int:
    return len(ledger.rows.outbox(job))


def published(ledger: Ledger, job: UUID) -> None:
    """Its ring goes out."""
    ledger.coordinator.outbox_done(*(row.ticket for row in ledger.rows.outbox(job)))


def test_quarantine__rings_the_job_that_waits_for_a_delivery(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)

    quarantine(ledger, job)

    assert rings(ledger, job) == 1
    (event,) = ledger.rows.events(job, "rung_again")
    assert event.state == "queued"
    assert event.detail == {
        "by": "quarantine",
        "worker": "worker-a",
        "route": ledger.place.route("other"),
        "reason": "wrong_route",
    }
    recorded = "select count(*) from brokerjobs.quarantine where job_id = %s"
    assert ledger.rows.scalar(recorded, [job], of=int) == 1


def test_quarantine__rings_no_job_three_times_in_an_hour_and_no_oftener(ledger: Ledger) -> None:
    """Whoever sends such messages gains nothing by sending many."""
    job, other = ledger.submit(rung=True), ledger.submit(rung=True)
    rung = 0
    for _ in range(10):
        quarantine(ledger, job)
        rung += rings(ledger, job)
        published(ledger, job)
        ledger.clock.advance(60)
    assert rung == 3
    quarantine(ledger, other)
    assert rings(ledger, other) == 1

    ledger.clock.advance(3600 - 10 * 60)
    quarantine(ledger, job)  # an hour after the first
    published(ledger, job)
    quarantine(ledger, job)

    assert len(ledger.rows.events(job, "rung_again")) == 4
    recorded = "select count(*) from brokerjobs.quarantine where job_id = %s"
    assert ledger.rows.scalar(recorded, [job], of=int) == 12


def test_quarantine__counts_no_other_rings_against_the_job(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    for _ in range(5):
        ledger.setting_up.sql(
            "select * from brokerjobs.ring_again(%s, 'tester', %s, 1000)", ledger.place.route(), UUID(int=0)
        )
        published(ledger, job)

    quarantine(ledger, job)

    assert rings(ledger, job) == 1


@pytest.mark.parametrize("what", ["running", "finished", "parked", "ringing", "unknown", "nothing"])
def test_quarantine__rings_nothing_that(ledger: Ledger, what: str) -> None:
    job: UUID | None = ledger.submit(rung=what != "ringing")
    assert job is not None
    match what:
        case "running":
            ledger.worker.take(job)
        case "finished":
            ledger.worker.complete(ledger.worker.take(job))
        case "parked":
            ledger.worker.snooze(ledger.worker.take(job), 60)
        case _:
            pass
    before = rings(ledger, job)

    quarantine(ledger, {"unknown": uuid4(), "nothing": None}.get(what, job))

    assert rings(ledger, job) == before
    assert ledger.rows.events(job, "rung_again") == []


def test_quarantine__waits_for_nobody(ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    holder = ledger.open("owner")
    holder.begin()
    holder.sql("select from brokerjobs.job_state where job_id = %s for update", job)
    ledger.worker.sql("set lock_timeout = '100ms'")

    quarantine(ledger, job)

    assert rings(ledger, job) == 0
    holder.rollback()
    ledger.worker.sql("reset lock_timeout")
