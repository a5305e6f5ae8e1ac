"""The model and the SQL are kept in step: a change of either alone is seen here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import brokerjobs.ledger
from tests.ledger.invariants import violations
from tests.model.facts import Protocol
from tests.model.replay import Disagreement, Replay
from tests.model.traces import CALLS, SELECTIONS, TIMES, Selection, traces

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger

pytestmark = pytest.mark.timeout(300)  # bounded by the number of traces; the machine may be busy

_SQL = Path(brokerjobs.ledger.__file__).parent / "sql"
_AS_BUILT = Protocol()
BY_NAME = {selection.name: selection for selection in SELECTIONS}


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda selection: selection.name)
def test_replay__agrees_with_the_model_after_every_action(ledger: Ledger, selection: Selection) -> None:
    tree, _ = traces(selection, _AS_BUILT)
    replay = Replay(ledger, selection.bounds)
    replay.run(tree)

    assert replay.actions == len(tree) > 200
    assert violations(ledger.owner) == []


def test_selections__cover_every_action_of_the_model() -> None:
    covered = {what for selection in SELECTIONS for what, _, _ in traces(selection, _AS_BUILT)[1]}

    assert covered == CALLS | TIMES


CHANGES_OF_SQL = [
    (
        "refusal_of",
        "when s.cancel is not null then 'job_cancelled'",
        "when false then ''",
        "repeatable, with cancel and deadline",
    ),
    ("decide", "if s.cancel is not null then", "if false then", "repeatable, with cancel and deadline"),
    ("decide", "not j.repeatable and s.started", "not j.repeatable", "not repeatable, with lost replies"),
    ("holds_place", "and not s.reported", "", "repeatable, with lost replies"),
    ("move_job", "if d.waiting = 'delivery' then", "if false then", "repeatable, with lost replies"),
    ("record_failure", "s.charged := s.charged - 1;", "", "repeatable, with lost replies"),
    ("fence_v1", "p_fencing_number, true)", "p_fencing_number, false)", "transactions that fence"),
    ("effect_known", "if s.state = 'review' then", "if false then", "effects and decisions"),
    (
        "effect_outcome",
        "v_others := p_outcomes",
        "v_others := false and p_outcomes",
        "effects with keys that are forgotten",
    ),
    ("effects_decided", "if e.outcome is null then", "if false then", "effects and decisions"),
    (
        "review_found",
        "if v_believed_at > coalesce",
        "if false and v_believed_at > coalesce",
        "effects, reconcilers, deadlines",
    ),
]


@pytest.mark.parametrize(("function", "right", "wrong", "name"), CHANGES_OF_SQL)
def test_replay__sees_a_change_of_the_sql_alone(
    ledger: Ledger, function: str, right: str, wrong: str, name: str
) -> None:
    product = (_SQL / f"{function}.sql").read_text()
    assert product.count(right) == 1, f"{function}.sql does not say {right!r} once: change something else"
    _replace(ledger, product.replace(right, wrong))
    try:
        with pytest.raises(Disagreement, match="the model and the ledger disagree after"):
            Replay(ledger, BY_NAME[name].bounds).run(traces(BY_NAME[name], _AS_BUILT)[0])
    finally:
        _replace(ledger, product)


CHANGES_OF_MODEL = [
    (Protocol(result_obeys_cancel=False), "repeatable, with cancel and deadline"),
    (Protocol(obeys_cancel=False), "repeatable, with cancel and deadline"),
    (Protocol(claimed_counts_as_started=True), "not repeatable, with cancel and deadline"),
    (Protocol(reports_once=False), "repeatable, with lost replies"),
    (Protocol(rings_on_release=False), "repeatable, with cancel and deadline"),
    (Protocol(two_facts=False), "repeatable, with cancel and deadline"),
    (Protocol(fence_needs_running=False), "transactions that fence"),
    (Protocol(intent_needs_running=False), "effects and decisions"),
    (Protocol(intent_stops_others=False), "effects that were given up"),
    (Protocol(late_outcomes=False), "effects with lost replies"),
    (Protocol(denial_speaks_for_all=True), "effects with keys that are forgotten"),
    (Protocol(result_obeys_unknown=False), "effects and cancels"),
    (Protocol(reconciler_waits="never"), "effects, reconcilers, deadlines"),
]


@pytest.mark.parametrize(("protocol", "name"), CHANGES_OF_MODEL)
def test_replay__sees_a_change_of_the_model_alone(ledger: Ledger, protocol: Protocol, name: str) -> None:
    with pytest.raises(Disagreement, match="the model and the ledger disagree after"):
        Replay(ledger, BY_NAME[name].bounds).run(traces(BY_NAME[name], protocol)[0])


def _replace(ledger: Ledger, function: str) -> None:
    with ledger.owner.transaction():
        ledger.owner.execute("set local search_path = brokerjobs, pg_temp")
        ledger.owner.execute(function.encode())
