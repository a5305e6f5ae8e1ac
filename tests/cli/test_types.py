"""`brokerjobs types`: list, show, pause, resume."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger


def test_pause_and_resume__say_what_they_did_and_ring_what_was_parked(operator: Command, ledger: Ledger) -> None:
    work = f"{ledger.place.namespace}/work"
    job, other = ledger.submit(rung=True), ledger.submit(rung=True)

    paused = operator("types", "pause", work, "--reason", "the bank is away", "--by", "ann", "-o", "json").json()

    assert paused["schema"] == "brokerjobs.pause/1"
    assert (paused["type"], paused["verdict"], paused["by"]) == (work, "paused", "ann")
    ledger.worker.claim(job)
    page = operator("jobs", "show", str(other)).ok().out
    assert "queued, waits for pause" in page
    assert "ann paused it" in page
    assert "the bank is away" in page
    assert "queued: pause" in operator("jobs", "list", "--type", work, "-o", "table").ok().out

    resumed = operator("types", "resume", work, "--by", "bob", "-o", "json").json()

    assert resumed["schema"] == "brokerjobs.resume/1"
    assert (resumed["verdict"], resumed["rung"], resumed["by"]) == ("resumed", 1, "ann")
    assert len(ledger.rows.outbox(job)) == 1
    assert ledger.rows.outbox(other) == []
    assert operator("types", "resume", work).ok().out == f"{work} is not paused\n"


def test_list_and_show__say_who_paused_a_type_and_why(operator: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    ledger.submit(rung=True)
    operator("types", "pause", f"{place}/work", "--reason", "the bank is away", "--by", "ann").ok()
    ledger.worker.claim(ledger.submit(rung=True))

    once, work = operator("types", "list", "--namespace", place, "-o", "json").lines()

    assert (once["schema"], once["name"], once["paused"]) == ("brokerjobs.type/1", "once", None)
    assert (work["paused"]["by"], work["paused"]["reason"], work["parked"]) == ("ann", "the bank is away", 1)
    line = operator("types", "list", "--namespace", place).ok().out.splitlines()[1].split("\t")
    assert line[:3] == [f"{place}/work", "default", "yes"]
    assert line[4:] == ["1", "ann", "the bank is away"]
    table = operator("types", "list", "--namespace", place, "-o", "table").ok().out
    assert table.splitlines()[0].split() == ["TYPE", "QUEUE", "REPEATABLE", "PAUSED", "PARKED", "BY", "REASON"]
    operator("types", "resume", "work", "--namespace", place, "--reason", "it is back", "--by", "bob").ok()
    page = operator("types", "show", f"{place}/work").ok().out
    assert "not paused" in page
    assert "was paused by ann" in page
    assert ": the bank is away; resumed by bob at " in page
    assert page.endswith(": it is back\n")
    assert operator("types", "show", f"{place}/once", "-o", "json").json()["pauses"] == []


def test_pause__asked_twice_acts_once_and_of_a_paused_type_is_refused(operator: Command, ledger: Ledger) -> None:
    asked = ("types", "pause", f"{ledger.place.namespace}/work", "--by", "ann", "--reason", "no bank")
    request = ("--request", str(uuid4()))
    operator(*asked, *request).ok()

    operator(*asked, *request).ok()

    said = operator(*asked).fails(7, "is paused already, by ann", "no bank", "brokerjobs types resume")
    assert ledger.place.namespace in said


def test_pause__of_no_type_without_a_reason_or_without_the_right_is_an_error(
    operator: Command, brokerjobs: Command, ledger: Ledger
) -> None:
    place = ledger.place.namespace
    operator("types", "pause", f"{place}/nothing", "--reason", "no").fails(6, "nothing", "brokerjobs types list")
    operator("types", "pause", f"{place}/work", "--reason", " ").fails(2, "--reason is empty")
    operator("types", "resume", f"{place}/work", "--request", "x").fails(2, "is no UUID")
    assert "operator" in brokerjobs("types", "pause", f"{place}/work", "--reason", "no").fails(9)


def test_submit__to_a_paused_type_says_that_it_waits(operator: Command, ledger: Ledger) -> None:
    work = f"{ledger.place.namespace}/work"
    operator("types", "pause", work, "--reason", "the bank is away", "--by", "ann").ok()
    producer = {"BROKERJOBS_DATABASE_URL": ledger.database.producer_url}

    done = operator("submit", work, "{}", env=producer).ok()

    assert "ann has paused its type (the bank is away)" in done.err
