"""Who waits for a resource: first come first served, rung when it is free, and stranded by nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from uuid_utils.compat import uuid7

from brokerjobs import needs
from brokerjobs.ledger import inquiries, pauses
from brokerjobs.ledger.decisions import Request
from tests.ledger.invariants import violations
from tests.ledger.needing import holders, in_line, needing, rings

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger


def waiting(ledger: Ledger, *wanted: Any) -> UUID:
    """A job that stands in the line; each comes a second after the one before."""
    job = needing(ledger, *(wanted or ("account",)))
    assert ledger.worker.claim(job).verdict == "not_due"
    ledger.clock.advance(1)
    return job


def test_line__is_served_in_the_order_in_which_jobs_came(ledger: Ledger) -> None:
    held = ledger.worker.take(needing(ledger, "account"))
    jobs = [waiting(ledger) for _ in range(4)]

    served: list[UUID] = []
    for _ in jobs:
        ledger.worker.complete(held)
        rung = [job for job in jobs if rings(ledger, job)]
        (served_now,) = rung
        held = ledger.worker.take(served_now)
        served.append(served_now)

    assert served == jobs
    assert in_line(ledger, "account") == []


def test_newcomer__does_not_pass_those_who_wait(ledger: Ledger) -> None:
    held = ledger.worker.take(needing(ledger, "account"))
    first = waiting(ledger)
    ledger.worker.complete(held)
    newcomer = needing(ledger, "account")

    assert ledger.worker.claim(newcomer).verdict == "not_due"
    assert ledger.worker.claim(first).verdict == "granted"
    assert in_line(ledger, "account") == [newcomer]


def test_line__rings_as_many_as_there_are_free_places(ledger: Ledger) -> None:
    limit = needs.limit("smtp", 2)
    held = [ledger.worker.take(needing(ledger, limit)) for _ in range(2)]
    jobs = [waiting(ledger, limit) for _ in range(3)]

    ledger.worker.complete(held[0])
    assert [rings(ledger, job) for job in jobs] == [1, 0, 0]
    ledger.worker.complete(held[1])

    assert [rings(ledger, job) for job in jobs] == [0, 1, 0]
    assert ledger.worker.claim(needing(ledger, limit)).verdict == "not_due"


def test_turn__is_lost_by_who_does_not_come_within_five_seconds(ledger: Ledger) -> None:
    held = ledger.worker.take(needing(ledger, "account"))
    first, second = waiting(ledger), waiting(ledger)
    ledger.worker.complete(held)
    rings(ledger, first)

    ledger.clock.advance(4.9)
    ledger.coordinator.due()
    assert rings(ledger, second) == 0
    assert ledger.worker.claim(needing(ledger, "account")).verdict == "not_due"
    ledger.clock.advance(0.2)
    ledger.coordinator.due()

    assert rings(ledger, second) == 1
    assert ledger.worker.claim(second).verdict == "granted"


def test_newcomer__may_pass_who_let_its_turn_pass(ledger: Ledger) -> None:
    held = ledger.worker.take(needing(ledger, "account"))
    waiting(ledger)
    ledger.worker.complete(held)
    ledger.clock.advance(5)

    assert ledger.worker.claim(needing(ledger, "account")).verdict == "granted"


def test_turn__that_passed_comes_again(ledger: Ledger) -> None:
    """It keeps its place in the line: when it comes at last, and finds the resource held, it is the next again."""
    held = ledger.worker.take(needing(ledger, "account"))
    first, second = waiting(ledger), waiting(ledger)
    ledger.worker.complete(held)
    rings(ledger, first)
    ledger.clock.advance(6)
    ledger.coordinator.due()
    held = ledger.worker.take(second)
    third = waiting(ledger)
    assert ledger.worker.claim(first).verdict == "not_due"

    ledger.worker.complete(held)

    assert (rings(ledger, first), rings(ledger, third)) == (1, 0)


def test_cancelled_waiter__leaves_the_line_and_the_next_is_rung(ledger: Ledger) -> None:
    held = ledger.worker.take(needing(ledger, "account"))
    first, second = waiting(ledger), waiting(ledger)
    ledger.worker.complete(held)
    rings(ledger, first)

    ledger.producer.cancel(first)

    assert in_line(ledger, "account") == [second]
    assert rings(ledger, second) == 1


def test_cancelled_waiter__whose_resource_is_held_rings_nobody(ledger: Ledger) -> None:
    ledger.worker.take(needing(ledger, "account"))
    first, second = waiting(ledger), waiting(ledger)

    ledger.producer.cancel(first)

    assert in_line(ledger, "account") == [second]
    assert rings(ledger, second) == 0


def test_scheduler__rings_who_was_forgotten(ledger: Ledger) -> None:
    """The holder's end could not ring it: its row was busy."""
    held = ledger.worker.take(needing(ledger, "account"))
    first = waiting(ledger)
    other = ledger.open("owner")
    other.begin()
    other.sql("select from brokerjobs.job_state where job_id = %s for update", first)
    ledger.worker.complete(held)
    assert rings(ledger, first) == 0
    ledger.coordinator.due()
    assert rings(ledger, first) == 0
    other.rollback()

    ledger.coordinator.due()

    assert rings(ledger, first) == 1
    ledger.coordinator.due()
    assert rings(ledger, first) == 0


def test_scheduler__rings_nobody_while_the_resource_is_held(ledger: Ledger) -> None:
    ledger.worker.take(needing(ledger, "account"))
    first = waiting(ledger)
    for _ in range(3):
        ledger.clock.advance(2)
        ledger.coordinator.due()

    assert rings(ledger, first) == 0


def test_scheduler__takes_out_of_the_line_who_waits_no_more(ledger: Ledger) -> None:
    """Parked for a pause while its turn had come: the line does not wait for it."""
    held = ledger.worker.take(needing(ledger, "account"))
    first, second = waiting(ledger), waiting(ledger)
    ledger.worker.complete(held)
    rings(ledger, first)
    request = Request(id=uuid4(), by="ann", reason="the bank is away")
    ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, "work", request))
    assert ledger.worker.claim(first).verdict == "not_due"
    assert ledger.rows.state(first).waiting == "pause"

    ledger.coordinator.due()

    assert in_line(ledger, "account") == [second]
    assert rings(ledger, second) == 1


def test_scheduler__makes_places_that_are_missing(ledger: Ledger) -> None:
    """Retention took the resource away in the moment in which a submission found that it was there."""
    job = needing(ledger, needs.limit("smtp", 3))
    ledger.owner.execute("delete from brokerjobs.resource where namespace = %s", [ledger.place.namespace])
    assert ledger.worker.claim(job).verdict == "not_due"

    ledger.coordinator.due()

    assert rings(ledger, job) == 1
    assert ledger.worker.claim(job).verdict == "granted"
    assert holders(ledger, "smtp") == [job]


def test_scheduler__looks_at_every_line_in_the_course_of_its_ticks(own_ledger: Ledger) -> None:
    ledger = own_ledger
    jobs = [needing(ledger, f"account-{n}") for n in range(30)]
    ledger.owner.execute("delete from brokerjobs.resource where namespace = %s", [ledger.place.namespace])
    for job in jobs:
        assert ledger.worker.claim(job).verdict == "not_due"

    ticks = 0
    while jobs and ticks < 100:
        ledger.coordinator.due(limit=10)
        rung = [job for job in jobs if rings(ledger, job)]
        assert len(rung) <= 10
        jobs, ticks = [job for job in jobs if job not in rung], ticks + 1

    assert (jobs, ticks < 100) == ([], True)


def test_several__are_taken_together_or_not_at_all(ledger: Ledger) -> None:
    held = ledger.worker.take(needing(ledger, "b"))
    both = waiting(ledger, "a", "b")

    assert holders(ledger, "a") == []
    assert (in_line(ledger, "a"), in_line(ledger, "b")) == ([both], [both])
    ledger.worker.complete(held)
    assert rings(ledger, both) == 1
    answer = ledger.worker.claim(both)
    assert answer.verdict == "granted"
    assert (holders(ledger, "a"), holders(ledger, "b")) == ([both], [both])
    numbers = ledger.owner.execute(
        "select distinct fencing_number from brokerjobs.resource where namespace = %s", [ledger.place.namespace]
    ).fetchall()
    assert numbers == [(answer.fencing_number,)]


def test_several__are_rung_when_the_last_is_free_and_starved_by_nobody(ledger: Ledger) -> None:
    a, b = ledger.worker.take(needing(ledger, "a")), ledger.worker.take(needing(ledger, "b"))
    both = waiting(ledger, "a", "b")
    newcomer = waiting(ledger, "a")

    ledger.worker.complete(a)
    assert (rings(ledger, both), rings(ledger, newcomer)) == (0, 0)
    ledger.coordinator.due()
    assert (rings(ledger, both), rings(ledger, newcomer)) == (0, 0)
    ledger.worker.complete(b)

    assert (rings(ledger, both), rings(ledger, newcomer)) == (1, 0)
    assert ledger.worker.claim(both).verdict == "granted"


def test_crossed_resources__of_two_batches_do_not_wait_for_each_other(ledger: Ledger) -> None:
    """T4 of the review: locked in the order of job ids they deadlocked."""
    one, other = needing(ledger, "a", "b"), needing(ledger, "b", "a")
    third, fourth = needing(ledger, "b"), needing(ledger, "a")
    first, second = ledger.open(), ledger.open()
    first.begin()
    second.begin()

    answers = [
        *first.claim_all([(one, uuid7())]),
        *second.claim_all([(other, uuid7()), (third, uuid7())]),
        *first.claim_all([(fourth, uuid7())]),
    ]
    first.commit()
    second.commit()

    assert [a.verdict for a in answers] == ["granted", "locked", "locked", "not_due"]


def test_job__that_leaves_by_a_late_success_leaves_the_line(ledger: Ledger) -> None:
    """Its place of the limit was not taken, but others stood before it."""
    limit = needs.limit("smtp", 2)
    first = needing(ledger, limit)
    held, second = ledger.worker.take(first), ledger.worker.take(needing(ledger, limit))
    third, fourth = waiting(ledger, limit), waiting(ledger, limit)
    ledger.lose(held)
    ledger.worker.complete(second)
    assert rings(ledger, third) + rings(ledger, fourth) == 2
    ledger.clock.advance(1)
    ledger.ring_again(first)
    assert ledger.worker.claim(first).verdict == "not_due"
    assert first in in_line(ledger, "smtp")

    assert ledger.worker.complete(held).verdict == "accepted"

    assert in_line(ledger, "smtp") == [third, fourth]
    assert violations(ledger.owner, [first]) == []


def test_status__and_record_show_who_holds_the_resource_and_how_many_stand_before(ledger: Ledger) -> None:
    holder = needing(ledger, "account")
    held = ledger.worker.take(holder)
    waiting(ledger)
    job = waiting(ledger)

    (standing,) = ledger.producer.fetch(inquiries.status([job]))
    shown = ledger.producer.record(job)["waiting"]

    assert (standing.waiting, shown["for"]) == ("resource", "resource")
    (resource,) = shown["detail"]["resources"]
    (by,) = resource["held_by"]
    assert standing.wait_detail == shown["detail"]
    assert (resource["name"], resource["limit"], resource["ahead"]) == ("account", 1, 1)
    assert (by["job"], by["attempt"], by["worker"]) == (str(holder), str(held.attempt_id), ledger.worker.process.name)
    assert by["until"] == f"{ledger.rows.state(holder).lease_until:%Y-%m-%dT%H:%M:%S.%fZ}"
    assert (by["since"] < by["until"], [e.kind for e in ledger.rows.events(job)][-1]) == (True, "resource_busy")


def test_waiters__are_found_and_cancelled_with_their_type(ledger: Ledger) -> None:
    ledger.worker.take(needing(ledger, "account"))
    jobs = [waiting(ledger) for _ in range(3)]

    found = ledger.operator.sql(
        "select job_id from brokerjobs.queued_jobs(%s, 'work', null, 100)", ledger.place.namespace
    )
    assert sorted(job for (job,) in found) == sorted(jobs)
    ledger.operator.sql("select * from brokerjobs.cancel_queued(%s::uuid[], 'ann', 'not wanted')", jobs)

    assert in_line(ledger, "account") == []
    assert {ledger.rows.state(job).state for job in jobs} == {"cancelled"}


def test_waiter__has_a_row_in_the_overview(ledger: Ledger) -> None:
    ledger.worker.take(needing(ledger, "account"))
    waiting(ledger)

    ((overview,),) = ledger.open("operator").sql(
        "select brokerjobs.overview(%s, interval '1 hour')", ledger.place.namespace
    )

    assert overview["queued"] == 1
