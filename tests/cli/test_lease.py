"""`brokerjobs lease advise`: much data, little, none, several types, an unknown one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.ledger.lease_history import Bounds
from tests.ledger.leasing import claimed, much_renewed

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger


def advised(operator: Command, ledger: Ledger, *flags: str) -> str:
    """The page of one type, its white space folded."""
    page = operator("lease", "advise", "--type", f"{ledger.place.namespace}/work", *flags).ok().out
    return "\n".join(" ".join(line.split()) for line in page.splitlines())


def test_advise__of_much_data_has_advice_percentiles_choices_and_how_to_set_it(
    operator: Command, ledger: Ledger
) -> None:
    (stopped,) = much_renewed(ledger, 400, stopped=1)
    ledger.lose(stopped)
    much_renewed(ledger, 5, kind="once")

    page = advised(operator, ledger)

    assert page.splitlines()[:3] == [
        f"{ledger.place.namespace}/work, repeatable: lease 30s, time limit 10m",
        "400 attempts have ended: all of the last 7d",
        (
            "lost their lease while their worker lived: none (95 % confidence: fewer than one in 133 do); "
            "lost and not heard of again: 1"
        ),
    ]
    for line in (
        "handlers that completed took 399 25s 25s - 25s",
        "renewals came late by 399 100ms 100ms - 100ms",
        "longest round trips 399 100ms 100ms - 100ms",
        "current 30s 10s 0 25s 30s 100 2",
        "advised 8s 2.7s 0 6.7s 8.0s 375 8.99",
        "shorter 4s 1.3s 0 3.3s 4.0s 750 18",
        "longer 16s 5.3s 0 13s 16s 187.5 4",
        "current 10m 0",
        "advised 3m 0",
        "lease: shorten to 8s",
        "time limit: shorten to 3m",
        (
            "set: lease=timedelta(seconds=8), time_limit=timedelta(minutes=3) where work is declared, then "
            "`brokerjobs setup module:app`; jobs that exist keep theirs"
        ),
        "renewal: every 2.7s, a third of the lease, as it is done if `worker.renewal` is left out",
        "not recorded: whether the worker of 1 attempt not heard of again had died or was slow; it counts as died",
    ):
        assert f"\n{line}\n" in f"{page}\n"


def test_advise__as_json_has_every_figure(operator: Command, ledger: Ledger) -> None:
    (stopped,) = much_renewed(ledger, 400, silent=18, stopped=1)
    ledger.clock.advance(27)
    ledger.coordinator.expire()
    ledger.worker.complete(stopped)
    place = ledger.place.namespace

    told = operator("lease", "advise", "--namespace", place, "--type", "work", "-o", "json").json()

    assert (told["schema"], told["namespace"], told["type"]) == ("brokerjobs.lease_advice/1", place, "work")
    assert told["terms"] == {"lease_seconds": 30, "time_limit_seconds": 600}
    assert told["attempts"] == 400
    assert told["fates"] == {"ended": 399, "false_expiry": 1, "past_limit": 0, "silent": 0}
    assert told["lease"] == {"verdict": "lengthen", "seconds": 45, "has": 400, "needs": 300}
    assert told["renewal_seconds"] == pytest.approx(15)
    assert told["delay"]["p99"] == pytest.approx(8)
    assert [(one["name"], one["lease_seconds"], one["false_expiries"]) for one in told["choices"]] == [
        ("current", 30, 1), ("advised", 45, 0), ("shorter", 22.5, 1), ("longer", 90, 0),
    ]  # fmt: skip
    assert "lost their lease while their worker lived: 1; lost and not" in advised(operator, ledger)
    assert told["unrecorded"]["false_expiries"] == 1
    assert (told["sample"]["whole"], told["sample"]["running"]) == (True, 0)


def test_advise__says_only_of_what_shall_change_how_to_set_it(operator: Command, ledger: Ledger) -> None:
    much_renewed(ledger, 300, silent=18)

    page = advised(operator, ledger)

    assert "lease: keep 30s" in page
    assert "set: time_limit=timedelta(minutes=3) where work is declared" in page


def test_advise__of_little_data_says_how_many_attempts_it_has_and_needs(operator: Command, ledger: Ledger) -> None:
    much_renewed(ledger, 41)

    page = advised(operator, ledger)

    assert "lease: too little data: 41 attempts say something about it, 300 are needed" in page
    assert "time limit: too little data: 41 attempts" in page
    assert "current 30s 10s 0" in page
    assert "advised" not in page
    assert "set:" not in page


def test_advise__of_no_data_says_so_for_every_type(operator: Command, ledger: Ledger) -> None:
    claimed(ledger)
    place = ledger.place.namespace

    page = operator("lease", "advise", "--namespace", place).ok().out

    assert page == (
        f"{place}/once, not repeatable: lease 30s, time limit 10m\n"
        "  0 attempts have ended: all of the last 7d\n"
        "  too little data: 300 attempts that ended are needed\n"
        "\n"
        f"{place}/work, repeatable: lease 30s, time limit 10m\n"
        "  0 attempts have ended, 1 run: all of the last 7d\n"
        "  too little data: 300 attempts that ended are needed\n"
    )


def test_advise__of_several_types_has_an_object_for_each(operator: Command, ledger: Ledger) -> None:
    much_renewed(ledger, 3)
    much_renewed(ledger, 2, kind="once")

    told = operator("lease", "advise", "--namespace", ledger.place.namespace, "-o", "json").lines()

    assert [(one["type"], one["attempts"], one["repeatable"]) for one in told] == [
        ("once", 2, False),
        ("work", 3, True),
    ]


def test_advise__looks_back_as_far_as_it_is_told(operator: Command, ledger: Ledger) -> None:
    much_renewed(ledger, 3)
    ledger.clock.advance(7200)

    assert "0 attempts have ended: all of the last 1h" in advised(operator, ledger, "--since", "1h")
    assert "3 attempts have ended: all of the last 3h" in advised(operator, ledger, "--since", "3h")


def test_advise__says_that_it_looked_at_a_sample(
    operator: Command, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerjobs.ledger.lease_history.ONE", Bounds(newest=3, slices=0, each=0))
    much_renewed(ledger, 5)

    page = advised(operator, ledger)

    assert "3 attempts have ended: a sample of the last 7d, out of 3 attempts of all types" in page


def test_advise__says_what_nobody_told(operator: Command, ledger: Ledger) -> None:
    ledger.declare("work", time_limit=timedelta(seconds=20))
    quick, untold, limited = claimed(ledger), claimed(ledger), claimed(ledger)
    ledger.clock.advance(2)
    ledger.worker.complete(quick)
    ledger.worker.renew(untold)
    ledger.worker.complete_v1(untold)
    ledger.worker.fail(limited, {"class": "temporary", "classified": False, "type": "TimeLimitExceeded", "message": ""})

    page = advised(operator, ledger)

    for fact in (
        "delays and round trips of 2 attempts that ended before a renewal was due",
        "how the renewals of 1 attempt went, of which the worker told nothing",
        "how long 1 attempt that the time limit ended would have taken",
        "how often workers renew, since no attempt did; a third of the lease is assumed",
        "how soon a lost lease is noticed here, since none was; a second is assumed",
    ):
        assert f"\nnot recorded: {fact}" in page


def test_advise__sees_workers_that_renew_at_another_interval(operator: Command, ledger: Ledger) -> None:
    ledger.declare("work", lease=timedelta(seconds=60))
    much_renewed(ledger, 3)

    assert "workers renewed every 10s, not at a third of the lease" in advised(operator, ledger)


def test_advise__of_an_unknown_type_or_without_the_right_is_an_error(
    operator: Command, brokerjobs: Command, ledger: Ledger
) -> None:
    place = ledger.place.namespace
    operator("lease", "advise", "--type", f"{place}/nothing").fails(6, "no job type 'nothing'", "brokerjobs types list")
    operator("lease", "advise", "--type", f"{place}/work", "--namespace", "x").fails(2, "two namespaces are given")
    operator("lease", "advise", "--since", "yesterday").fails(2, "--since")
    brokerjobs("lease", "advise").fails(9, "lease_history")
