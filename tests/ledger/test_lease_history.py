"""What the ledger tells of the leases of ended attempts: histories made by the ledger's own calls."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs.ledger import calls
from brokerjobs.ledger.lease_history import Bounds, LeaseHistory, lease_history
from brokerjobs.rules.failures import time_limit_failure
from brokerjobs.rules.lease_advice import Current, advise
from brokerjobs.rules.lease_history import Fate, PastAttempt
from tests.ledger.leasing import claimed, id_at, much_renewed
from tests.ledger.ledger_caller import holding_of

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

WEEK = timedelta(days=7)
UNTOUCHED = PastAttempt(lease=30, time_limit=600, granted=0, closed=0, reported=None, lost=False)


def told(ledger: Ledger, name: str | None = "work", since: timedelta = WEEK) -> LeaseHistory:
    """What is told of one type of the test's namespace."""
    (history,) = ledger.operator.fetch(lease_history(ledger.place.namespace, name, since))
    return history


def only(ledger: Ledger) -> PastAttempt:
    """The one attempt that is told of."""
    (attempt,) = told(ledger).attempts()
    return attempt


def renewed(ledger: Ledger, holding: Holding, *after: float) -> None:
    """Renews after so many seconds, and again."""
    for seconds in after:
        ledger.clock.advance(seconds)
        assert ledger.worker.renew(holding).verdict == "kept"


def test_history__of_an_attempt_that_never_renewed(ledger: Ledger) -> None:
    holding = claimed(ledger)
    began = ledger.clock.advance(1)
    ledger.clock.advance(3)
    ledger.worker.complete(holding, started_at=began)

    assert only(ledger) == replace(UNTOUCHED, closed=4, reported=4, handler=3, completed=True)


def test_history__of_an_attempt_that_renewed_has_its_workers_figures(ledger: Ledger) -> None:
    holding = claimed(ledger)
    renewed(ledger, holding, 10, 11)
    ledger.clock.advance(4)
    figures: dict[str, Any] = {"renewals": 2, "smallest_margin_seconds": 18.5, "longest_round_trip_seconds": 0.25}
    ledger.worker.fail(holding, started_at=ledger.clock.after(-25), **figures)

    assert only(ledger) == replace(
        UNTOUCHED, granted=21, closed=25, reported=25, lost=False, handler=25,
        renewals=2, smallest_margin=18.5, longest_round_trip=0.25,
    )  # fmt: skip


@pytest.mark.parametrize("again", [False, True])
def test_history__of_a_lost_attempt_has_its_late_report_accepted_or_rejected(ledger: Ledger, again: bool) -> None:
    began, holding = ledger.clock.now, claimed(ledger)
    renewed(ledger, holding, 10)
    ledger.clock.advance(31.5)
    assert holding.job_id in ledger.coordinator.expire()
    assert only(ledger).fate(10) is Fate.SILENT
    if again:
        ledger.ring_again(holding.job_id)
        claimed(ledger, holding.job_id)
    late = (ledger.clock.advance(20) - began).total_seconds()
    assert ledger.worker.complete(holding).verdict == ("rejected" if again else "accepted")

    first = told(ledger).attempts()[0]

    assert (first.granted, first.closed, first.reported, first.lost) == (10, 41.5, late, True)
    assert first.fate(10) is Fate.FALSE_EXPIRY
    assert told(ledger).running == int(again)


def test_history__does_not_tell_renewals_that_nobody_told(ledger: Ledger) -> None:
    holding = claimed(ledger)
    renewed(ledger, holding, 10)
    ledger.clock.advance(2)
    ledger.worker.complete_v1(holding)

    assert only(ledger) == replace(
        UNTOUCHED, granted=10, closed=12, reported=12, lost=False, renewals=None, completed=True
    )
    figures = calls.LeaseFigures(ledger.clock.after(-11), 1, 19.0, 0.5)
    ledger.worker.fetch(calls.acked([calls.SentAck(holding.attempt_id, ledger.clock.now, figures)]))

    attempt = only(ledger)
    assert (attempt.renewals, attempt.smallest_margin, attempt.longest_round_trip) == (1, 19, 0.5)


def test_history__knows_what_its_time_limit_ended(ledger: Ledger) -> None:
    ledger.declare("work", time_limit=timedelta(seconds=20))
    holding = claimed(ledger)
    ledger.clock.advance(20)
    failure = time_limit_failure(timedelta(seconds=20), repeatable=True)
    ledger.worker.fail(holding, failure.as_data(), started_at=ledger.clock.after(-20))

    attempt = only(ledger)

    assert (attempt.limited, attempt.completed, attempt.time_limit) == (True, False, 20)


def test_history__leaves_out_what_a_deadline_ended_what_runs_and_what_is_too_old(ledger: Ledger) -> None:
    ledger.worker.complete(claimed(ledger))
    ledger.clock.advance(7200)
    at_deadline = claimed(ledger, ledger.submit(deadline=5))
    ledger.clock.advance(6)
    ledger.coordinator.due()
    assert ledger.rows.state(at_deadline.job_id).state == "failed"
    assert ledger.worker.complete(at_deadline).verdict == "rejected"
    claimed(ledger)

    recent, all_of_it = told(ledger, since=timedelta(hours=1)), told(ledger)

    assert (len(recent.leases), recent.running) == (0, 1)
    assert (len(all_of_it.leases), all_of_it.running) == (1, 1)


def test_history__goes_by_the_ledgers_clock_where_a_workers_is_ahead(ledger: Ledger) -> None:
    answer = ledger.worker.claim(ledger.submit(), id_at(ledger.clock.after(7200)))
    ledger.clock.advance(3660)
    ledger.worker.complete(holding_of(answer))

    assert told(ledger, since=timedelta(hours=1)).leases == []
    assert told(ledger, since=timedelta(hours=2)).leases == [30]


def test_history__has_a_row_for_every_registered_type_and_none_for_others(ledger: Ledger) -> None:
    ledger.declare("work", lease=timedelta(seconds=12))
    ledger.worker.complete(claimed(ledger, ledger.submit("once")))

    rows = {row.type: row for row in ledger.operator.fetch(lease_history(ledger.place.namespace, None, WEEK))}

    assert {name: (row.lease_seconds, row.repeatable, len(row.leases)) for name, row in rows.items()} == {
        "once": (30, False, 1), "work": (12, True, 0),
    }  # fmt: skip
    assert ledger.operator.fetch(lease_history(ledger.place.namespace, "nothing", WEEK)) == []


def test_history__has_the_lease_that_each_job_was_submitted_with(ledger: Ledger) -> None:
    job = ledger.submit()
    ledger.declare("work", lease=timedelta(seconds=12))
    ledger.worker.complete(claimed(ledger, job))

    assert (told(ledger).lease_seconds, told(ledger).leases) == (12, [30])


def sampled(ledger: Ledger, newest: int, slices: int, each: int) -> LeaseHistory:
    bounds = Bounds(newest, slices, each)
    return ledger.operator.fetch(lease_history(ledger.place.namespace, "work", timedelta(hours=20), bounds))[0]


def test_history__of_many_attempts_is_a_sample_from_all_of_the_time(own_ledger: Ledger) -> None:
    ledger = own_ledger
    begin = ledger.clock.now
    for hour in range(20):
        for job in (ledger.submit(), ledger.submit(), ledger.submit()):
            ledger.worker.complete(claimed(ledger, job))
            ledger.clock.advance(1)
        ledger.clock.set(begin + timedelta(hours=hour + 1, seconds=-1))

    whole, sample = sampled(ledger, 61, 4, 2), sampled(ledger, 6, 9, 2)

    assert (whole.whole, whole.looked, len(whole.leases)) == (True, 60, 60)
    assert (sample.whole, sample.looked, len(sample.leases)) == (False, 6 + 9 * 2, 24)
    assert sample.oldest is not None
    assert sample.oldest - begin < timedelta(hours=3), "the first of nine spans of two hours"
    assert (sample.newest, sample.looked_from) == (
        whole.newest,
        begin + timedelta(hours=19, minutes=59, seconds=59) - timedelta(hours=20),
    )
    assert sampled(ledger, 6, 0, 0).looked == 6
    assert sampled(ledger, 60, 9, 2).looked == 60, "what the newest are is not told twice"
    assert (told(ledger, since=timedelta(hours=5)).looked, told(ledger).looked) == (15, 60)
    assert sampled(ledger, 6, 2**31 - 1, 2**31 - 1).looked == 60, "bounded, so that it answers"


def test_history__is_bounded_whatever_is_asked_for(ledger: Ledger) -> None:
    ledger.worker.complete(claimed(ledger))

    assert sampled(ledger, -1, -1, -1).looked == 1
    assert sampled(ledger, 2**31 - 1, 2**31 - 1, 2**31 - 1).whole


def test_advice__on_what_the_ledger_tells(own_ledger: Ledger) -> None:
    """Of 300 attempts, each renewed every 10 s, one was given up while its worker lived."""
    ledger = own_ledger
    (stopped,) = much_renewed(ledger, 301, stopped=1)
    ledger.clock.advance(26)
    ledger.coordinator.expire()
    ledger.clock.advance(60)
    ledger.worker.complete(stopped)

    advice = advise(Current(30, 600, repeatable=True), told(ledger).attempts())

    assert (advice.lease.verdict, advice.lease.seconds, advice.lease.has) == ("lengthen", 60, 301)
    assert advice.choices[0].false_expiries == 1
    assert advice.choices[0].recovery_longest_seconds == 31
    assert advice.current_renewal_seconds == pytest.approx(10)


def test_lease_history__is_for_those_who_look(ledger: Ledger) -> None:
    may: set[str] = set()
    for kind in ("producer", "worker", "coordinator", "reader", "operator"):
        caller = ledger.open(kind)
        query = "select has_function_privilege(p.oid, 'execute') from pg_proc p where p.proname = 'lease_history'"
        if caller.sql(query) == [(True,)]:
            may.add(kind)

    assert may == {"reader", "operator"}
