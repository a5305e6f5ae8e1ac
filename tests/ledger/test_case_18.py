"""Case 18 (oban-bg/oban#1496 and others): a worker, stopped past its lease, reports after another has succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import TEMPORARY, Caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.ledger.calls import Holding, Reported
    from tests.ledger.ledger_driver import Ledger

B = {"by": "B"}


def _succeeds(caller: Caller, holding: Holding) -> Reported:
    return caller.complete(holding, {"by": "A"}, observed_at=caller.clock.after(-7))


def _raises(caller: Caller, holding: Holding) -> Reported:
    return caller.fail(holding, observed_at=caller.clock.after(-7))


def _snoozes(caller: Caller, holding: Holding) -> Reported:
    return caller.snooze(holding, 60)


@pytest.mark.parametrize(
    ("late", "reported_as"), [(_succeeds, "completed"), (_raises, "failed"), (_snoozes, "released")]
)
def test_case_18__a_stopped_worker_changes_nothing_after_another_succeeded(
    ledger: Ledger, late: Callable[[Caller, Holding], Reported], reported_as: str
) -> None:
    a, b = ledger.open(), ledger.open()
    job = ledger.submit()
    stopped = a.take(job)
    ledger.lose(stopped)
    ledger.ring_again(job)
    second = b.take(job)
    assert b.complete(second, B).verdict == "accepted"
    before = ledger.rows.state(job)
    ledger.clock.advance(5)

    answers = [late(a, stopped), late(a, stopped)]

    assert answers[0] == answers[1]
    assert (answers[0].verdict, answers[0].reason, answers[0].late) == ("rejected", "job_succeeded", True)
    assert ledger.rows.state(job) == before
    kept = ledger.rows.attempt(stopped.attempt_id)
    assert (kept.reported_as, kept.fencing_number, kept.shown) == (
        reported_as,
        stopped.fencing_number,
        "rejected_stale",
    )
    assert kept.reported_at == ledger.clock.now
    if reported_as == "completed":
        assert (kept.result, kept.observed_reported_at) == ({"by": "A"}, ledger.clock.after(-7))
    if reported_as == "failed":
        assert kept.failure == TEMPORARY
    record = ledger.producer.record(job)
    assert (record["state"], record["result"], record["accepted_attempt"]) == ("succeeded", B, str(second.attempt_id))
    assert violations(ledger.owner, [job]) == []
