"""`brokerjobs jobs cancel --type … --state queued`: counted, confirmed, and no other job touched."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger


def states(ledger: Ledger, *jobs: UUID) -> list[str]:
    return [ledger.rows.state(job).state for job in jobs]


def test_cancel__of_many_takes_the_queued_ones_of_the_type_and_no_other(operator: Command, ledger: Ledger) -> None:
    work = f"{ledger.place.namespace}/work"
    waiting, scheduled = ledger.submit(rung=True), ledger.submit(not_before=timedelta(hours=1))
    running, other = ledger.submit(), ledger.submit("once")
    holding = ledger.worker.take(running)
    cancel = ("jobs", "cancel", "--type", work, "--state", "queued", "--reason", "not wanted", "--by", "ann")

    refused = operator(*cancel).fails(7, "2 queued jobs", "--yes")
    assert "nothing was changed" in refused
    assert states(ledger, waiting, scheduled) == ["queued", "queued"]
    done = operator(*cancel, "--yes", "-o", "json").json()

    assert done == {
        "schema": "brokerjobs.cancel_many/1",
        "namespace": ledger.place.namespace,
        "type": "work",
        "found": 2,
        "cancelled": 2,
        "no_longer_queued": 0,
        "busy": 0,
    }
    assert states(ledger, waiting, scheduled, running, other) == ["cancelled", "cancelled", "running", "queued"]
    record = ledger.producer.record(waiting)
    assert (record["cancel"]["by"], record["cancel"]["reason"]) == ("ann", "not wanted")
    assert ledger.worker.complete(holding).verdict == "accepted"
    assert "no queued job" in operator(*cancel, "--yes").ok().out


def test_cancel__of_many_goes_by_tags_and_a_limit_and_takes_parked_ones(operator: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    work, producer = f"{place}/work", {"BROKERJOBS_DATABASE_URL": ledger.database.producer_url}
    tagged = [operator("submit", work, "{}", "--tag", "batch=7", env=producer).ok().out.strip() for _ in range(3)]
    plain = ledger.submit(rung=True)
    cancel = ("jobs", "cancel", "--type", work, "--state", "queued", "--reason", "not wanted", "--yes")

    limited = operator(*cancel, "--tag", "batch=7", "--limit", "1", "-o", "json").json()
    assert (limited["found"], limited["cancelled"]) == (1, 1)
    rest = operator(*cancel, "--tag", "batch=7").ok()
    assert rest.out == f"2 jobs of {work} with batch=7 cancelled\n"
    assert {operator("jobs", "show", job, "-o", "json").json()["state"] for job in tagged} == {"cancelled"}
    assert states(ledger, plain) == ["queued"]

    operator("types", "pause", work, "--reason", "the bank is away").ok()
    ledger.worker.claim(plain)
    assert operator(*cancel, "-o", "json").json()["cancelled"] == 1
    assert operator("types", "resume", work, "-o", "json").json()["rung"] == 0


def test_cancel__of_many_of_a_type_that_is_not_registered_is_exit_code_6(operator: Command, ledger: Ledger) -> None:
    cancel = ("jobs", "cancel", "--state", "queued", "--reason", "not wanted", "--yes", "--type")

    operator(*cancel, f"{ledger.place.namespace}/wrok").fails(6, "/wrok is registered", "next: brokerjobs types list")
    assert operator(*cancel, f"{ledger.place.namespace}/work").ok().out.startswith("no queued job of ")


def test_cancel__of_many_by_a_producer_is_exit_code_9_and_names_the_kind(brokerjobs: Command, ledger: Ledger) -> None:
    cancel = ("jobs", "cancel", "--state", "queued", "--reason", "r", "--type", f"{ledger.place.namespace}/work")
    producer = {"BROKERJOBS_DATABASE_URL": ledger.database.producer_url}

    brokerjobs(*cancel, env=producer).fails(9, "--grant operator=LOGIN")


def test_cancel__of_many_leaves_what_was_claimed_since_it_was_counted(ledger: Ledger) -> None:
    from brokerjobs.ledger import operations  # noqa: PLC0415  # the command counts and cancels at once

    first, second, busy = (ledger.submit(rung=True) for _ in range(3))
    found = ledger.operator.fetch(operations.queued_jobs(ledger.place.namespace, "work", None, 10))
    assert {row.job_id for row in found} == {first, second, busy}
    ledger.worker.take(second)
    other = ledger.open("owner")
    other.begin()
    other.sql("select from brokerjobs.job_state where job_id = %s for update", busy)

    asked = operations.cancel_queued([first, second, busy], "ann", "not wanted")
    answers = [(row.verdict, row.state) for row in ledger.operator.fetch(asked)]

    assert answers == [("cancelled", "cancelled"), ("left", "running"), ("locked", None)]
    other.rollback()
    assert [row.verdict for row in ledger.operator.fetch(asked)] == ["cancelled", "left", "cancelled"]


def test_cancel__refuses_what_is_neither_one_job_nor_queued_ones(offline: Command) -> None:
    reason = ("--reason", "no")
    offline("jobs", "cancel", *reason).fails(2, "--type TYPE --state queued")
    offline("jobs", "cancel", "--type", "a/b", *reason).fails(2, "--state queued")
    offline("jobs", "cancel", "--type", "a/b", "--state", "running", *reason).fails(2, "a running one by its id")
    offline("jobs", "cancel", "--type", "b", "--state", "queued", *reason).fails(2, "namespace")
    offline("jobs", "cancel", "x", "--state", "queued", *reason).fails(2, "id of one job")
