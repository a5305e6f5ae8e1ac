"""Effects on the page of a job, of its review, and in its record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from brokerjobs.ledger.records import job_record
from tests.ledger.effects import Effects

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger


def test_job_page__shows_what_was_granted_and_what_became_of_it(operator: Command, ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects = Effects(ledger.worker)
    effects.grant(holding, "charge", repeatable=True, valid_for=3600)
    effects.happened(holding, {"paid": 9})
    effects.grant(holding, "mail")
    ledger.lose(holding)

    page = operator("jobs", "show", str(holding.job_id)).ok().out
    review = operator("review", "show", str(holding.job_id)).ok().out

    assert "EFFECT  charge  try 1, repeatable" in page
    assert f"{holding.job_id}/charge, known until" in page
    assert "happened: said by attempt #1" in page
    assert '{"paid": 9}' in page
    assert "EFFECT  mail  try 1, not repeatable" in page
    assert "unknown: it may have happened" in page
    assert f"mail: key {holding.job_id}/mail, granted 1 time, no outcome; it may not be repeated" in " ".join(
        review.split()
    )


def test_record__has_them_in_json_and_typed(operator: Command, ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    effects = Effects(ledger.worker)
    effects.grant(holding)
    effects.happened(holding, 7)

    data = json.loads(operator("jobs", "show", str(holding.job_id), "-o", "json").ok().out)

    [effect] = data["effects"]
    assert (effect["key"], effect["outcome"]["result"]) == (f"{holding.job_id}/charge", 7)
    [typed] = job_record(data).effects
    assert (typed.outcome, typed.known_by, typed.attempts) == ("happened", "attempt", (holding.attempt_id,))
    assert not typed.unknown
