"""What is recorded with an attempt that ended: whether it may be done again, and how that is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs.ledger.records import attempt_errors
from tests.ledger.ledger_caller import TEMPORARY

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

_UNCLASSIFIED = {**TEMPORARY, "classified": False}


def _last(ledger: Ledger, holding: Holding) -> dict[str, Any]:
    attempt: dict[str, Any] = ledger.producer.record(holding.job_id)["attempts"][-1]
    return attempt


_INVALID = {**TEMPORARY, "class": "invalid"}
_STARTED = "the attempt had started, its outcome is unknown and it is not repeatable"
_SAID = "its handler, or its type, said how the attempt ended, and that it may run again"
_FRUITLESS = "nothing is unknown, but it is {}: it would fail again"


@pytest.mark.parametrize(
    ("kind", "failure", "safe", "why"),
    [
        ("work", _UNCLASSIFIED, True, "its type is repeatable"),
        ("work", {**TEMPORARY, "class": "unsafe"}, False, "the handler said that its outcome is unknown"),
        ("once", _UNCLASSIFIED, False, _STARTED),
        ("once", TEMPORARY, True, _SAID),
        ("once", _INVALID, True, _FRUITLESS.format("invalid")),
        ("once", {**TEMPORARY, "class": "policy"}, True, _FRUITLESS.format("policy")),
        (
            "once",
            {**_INVALID, "returned": True},
            False,
            "its handler had given its result, which was refused: what it does has been done",
        ),
    ],
)
def test_record__says_of_a_failed_attempt_whether_it_may_be_repeated(
    ledger: Ledger, kind: str, failure: dict[str, Any], safe: bool, why: str
) -> None:
    holding = ledger.worker.take(ledger.submit(kind))
    ledger.worker.start(holding)
    assert _last(ledger, holding)["safe_to_retry"] is None
    ledger.worker.fail(holding, failure)

    assert _last(ledger, holding)["safe_to_retry"] == {"safe": safe, "why": why}


def test_record__says_that_a_handler_had_not_started(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.fail(holding, _UNCLASSIFIED)

    assert _last(ledger, holding)["safe_to_retry"] == {"safe": True, "why": "its handler had not started"}


def test_record__says_of_a_lost_attempt_whether_it_may_be_repeated(ledger: Ledger) -> None:
    claimed, started, repeatable = (ledger.worker.take(ledger.submit(kind)) for kind in ("once", "once", "work"))
    ledger.worker.start(started)
    ledger.lose(claimed)  # all leases are over then
    ledger.coordinator.expire()

    assert [_last(ledger, holding)["safe_to_retry"]["safe"] for holding in (claimed, started, repeatable)] == [
        True,
        False,
        True,
    ]


def test_record__says_it_of_a_result_that_came_too_late(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit(deadline=10))
    ledger.clock.advance(10)
    ledger.worker.complete(holding)

    assert _last(ledger, holding)["safe_to_retry"] == {"safe": True, "why": "its type is repeatable"}


def test_record__keeps_what_was_known_when_a_late_failure_comes(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(holding)
    ledger.lose(holding)
    before = _last(ledger, holding)["safe_to_retry"]
    ledger.worker.fail(holding)

    assert _last(ledger, holding)["safe_to_retry"] == before
    assert before["safe"] is False


def test_accepted_attempt__says_nothing_of_a_repetition(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.complete(holding)

    assert _last(ledger, holding)["safe_to_retry"] is None


def test_job_failed__names_the_class_of_a_lost_attempt_that_may_not_be_repeated(ledger: Ledger) -> None:
    """The table of classes: the loss of a type that is not repeatable is unsafe."""
    lost = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(lost)
    ledger.lose(lost)
    deadline = ledger.worker.take(ledger.submit(deadline=10))
    ledger.clock.advance(10)
    ledger.coordinator.due()

    errors = attempt_errors([_last(ledger, lost), _last(ledger, deadline)])
    assert [error.failure_class for error in errors] == ["unsafe", "deadline"]


def test_dead_letter__carries_it(ledger: Ledger) -> None:
    ledger.declare("work", attempts=1)
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.fail(holding, _UNCLASSIFIED)

    (body,) = [
        json.loads(row.body or "")
        for row in ledger.coordinator.outbox_take()[0]
        if row.job_id == holding.job_id and row.kind == "dead"
    ]
    assert body["attempts"][0]["safe_to_retry"] == {"safe": True, "why": "its type is repeatable"}
    assert body["attempts"][0]["failure"]["type"] == "TemporaryFailure"
