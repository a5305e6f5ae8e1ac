"""Promises about repetition, kept by whatever is called in whatever order.

Nothing here knows how the ledger decides; a journal of the calls knows what was said before each claim.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import TEMPORARY, holding_of, new_job

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding, Reported
    from tests.ledger.ledger_driver import Ledger

GRANTED: Final = 2
CLASSIFIED: Final = {"snooze", "not_here", "temporary"}
ENDINGS: Final = (
    {**TEMPORARY},
    {**TEMPORARY, "classified": False},
    {**TEMPORARY, "class": "unsafe", "classified": False},
    {**TEMPORARY, "class": "unsafe"},
    {**TEMPORARY, "class": "invalid"},
    {**TEMPORARY, "retry_after": 20},
)
# How often each call is drawn: as many as keep most jobs running, waiting and running again.
CALLS: Final = {
    "claim": 8,
    "start": 4,
    "fail": 3,
    "release": 2,
    "renew": 1,
    "complete": 1,
    "coordinator": 5,
    "wait": 6,
    "resolve": 2,
    "replay": 2,
    "cancel": 1,
}
DRAWN: Final = [call for call, weight in CALLS.items() for _ in range(weight * 2 - 1)]


@dataclass(slots=True)
class Journal:
    """What was said of one job until now."""

    job: UUID
    repeatable: bool
    not_before: datetime | None
    deadline: datetime | None
    granted: int = GRANTED
    charged: int = 0
    uncharged: int = 0
    holdings: list[Holding] = field(default_factory=list["Holding"])
    unknown: bool = False
    """Its last attempt had started, may not be repeated blindly, and nobody has said since that it may be."""


class Jobs(RuleBasedStateMachine):
    """Any call on any of some jobs, by any attempt, at any time."""

    ledger: ClassVar[Ledger]

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[Journal] = []
        self.reported: set[UUID] = set()

    @precondition(lambda self: len(self.jobs) < 2)
    @rule(
        repeatable=st.booleans(),
        not_before=st.sampled_from([None, None, 30]),
        deadline=st.sampled_from([None, None, None, 50, 200]),
    )
    def submit(self, *, repeatable: bool, not_before: int | None, deadline: int | None) -> None:
        ledger = self.ledger
        earliest = None if not_before is None else ledger.clock.after(not_before)
        latest = None if deadline is None else ledger.clock.after(deadline)
        new = new_job(not_before=earliest, deadline=latest)
        (made,) = ledger.submit_all([new], "work" if repeatable else "once")
        self.jobs.append(Journal(made.id, repeatable, earliest, latest))

    @precondition(lambda self: self.jobs)
    @rule(call=st.sampled_from(DRAWN), data=st.data())
    def call(self, call: str, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.jobs))
        match call:
            case "claim":
                self._claim(one)
            case "wait":
                self.ledger.clock.advance(data.draw(st.sampled_from([60, *self._waits(one)])))
            case "coordinator":
                self.ledger.coordinator.expire()
                self.ledger.coordinator.due()
            case "cancel":
                self.ledger.producer.cancel(one.job)
            case "resolve":
                self._resolve(one, data.draw(st.sampled_from(["retry", "retry", "give_up", "happened"])))
            case "replay":
                self._replay(one, data.draw(st.sampled_from([None, 1, 3])))
            case _ if one.holdings:
                self._report(call, one, data.draw(st.sampled_from([*[one.holdings[-1]] * 4, *one.holdings])), data)
            case _:
                pass

    def _waits(self, one: Journal) -> list[float]:
        """Until something of the job is over, its deadline among them, and until shortly before."""
        state = self.ledger.rows.state(one.job)
        until = state.wait_until or state.lease_until
        seconds = 1.0 if until is None else max(0.0, (until - self.ledger.clock.now).total_seconds())
        left = [] if one.deadline is None else [max(0.0, (one.deadline - self.ledger.clock.now).total_seconds())]
        return [seconds, seconds, seconds / 2, *left]

    def _claim(self, one: Journal) -> None:
        ledger, before = self.ledger, self.ledger.rows.state(one.job)
        worker = ledger.worker
        worker.process = replace(worker.process, id=uuid4())  # one that was not qualified is not asked again
        answer = worker.claim(one.job)
        if answer.verdict != "granted":
            return
        now = ledger.clock.now
        assert not one.unknown, "a started attempt that is not repeatable runs again without a decision or a fact"
        assert one.not_before is None or now >= one.not_before, "claimed before its time"
        assert before.wait_until is None or now >= before.wait_until, "claimed before the time of its next try"
        assert one.deadline is None or now < one.deadline, "claimed after its deadline"
        one.charged += 1
        assert one.charged <= one.granted, "more attempts than were granted"
        one.holdings.append(holding_of(answer))

    def _report(self, call: str, one: Journal, holding: Holding, data: st.DataObject) -> None:
        worker = self.ledger.worker
        match call:
            case "start":
                if worker.start(holding) == "started" and not one.repeatable:
                    one.unknown = True
            case "renew":
                worker.renew(holding)
            case "complete":
                worker.complete(holding)
            case "fail":
                failure = data.draw(st.sampled_from(ENDINGS))
                answer = worker.fail(holding, failure)
                self._said(one, holding, answer, known=bool(failure["classified"]) and failure["class"] != "unsafe")
            case _:
                why = data.draw(st.sampled_from(["drain", "not_here", "snooze"]))
                answer = worker.snooze(holding, 9) if why == "snooze" else worker.release(holding, why)
                self._said(one, holding, answer, known=why in CLASSIFIED)
                if self._took_effect(one, holding, answer) and one.uncharged < 20:
                    one.charged, one.uncharged = one.charged - 1, one.uncharged + 1

    def _took_effect(self, one: Journal, holding: Holding, answer: Reported) -> bool:
        return answer.verdict == "recorded" and not answer.late and holding == one.holdings[-1] and self._first(holding)

    def _first(self, holding: Holding) -> bool:
        """Not the same report asked again."""
        new = holding.attempt_id not in self.reported
        self.reported.add(holding.attempt_id)
        return new

    def _said(self, one: Journal, holding: Holding, answer: Reported, *, known: bool) -> None:
        """The handler itself said that it may run again: a recorded fact."""
        if known and answer.verdict == "recorded" and not answer.late and holding == one.holdings[-1]:
            one.unknown = False

    def _resolve(self, one: Journal, decision: str) -> None:
        if self.ledger.rows.state(one.job).state != "review":
            return
        answer: dict[str, Any] = self.ledger.operator.resolve(one.job, decision)
        assert answer["verdict"] == "decided"
        if decision == "retry":
            one.unknown, one.granted = False, max(one.granted, one.charged + 1)

    def _replay(self, one: Journal, attempts: int | None) -> None:
        if self.ledger.operator.replay(one.job, attempts=attempts, deadline=timedelta(seconds=100)) != ["replayed"]:
            return
        one.deadline = self.ledger.clock.after(100)
        one.granted, one.charged, one.unknown = attempts or GRANTED, 0, False

    def teardown(self) -> None:
        jobs = [one.job for one in self.jobs]
        if jobs:
            assert violations(self.ledger.owner, jobs) == []


@pytest.mark.timeout(240)  # bounded by the number of examples; the machine may be busy
def test_promises__are_kept_by_every_sequence_of_calls(own_ledger: Ledger) -> None:
    for name, repeatable in (("work", True), ("once", False)):
        own_ledger.declare(name, repeatable=repeatable, attempts=GRANTED, elapsed=timedelta(days=300))

    class Machine(Jobs):
        ledger = own_ledger

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            deadline=None,
            derandomize=True,  # the same sequences every run: what it finds can be found again
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
