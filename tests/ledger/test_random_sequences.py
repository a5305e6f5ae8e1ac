"""Random calls on one job, each compared with a reference model, and the invariants after every sequence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from uuid_utils.compat import uuid7

from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import TEMPORARY, holding_of, new_job
from tests.ledger.reference_model import LEASE, ModelJob, ModelTerms

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding, Reported
    from tests.ledger.ledger_driver import Ledger

RESULTS: Final = ({"n": 1}, {"n": 2})
# How often each call is drawn. One rule that draws among them, not a rule a call: Hypothesis leaves rules out of whole
# runs, and most sequences then never reach what follows a lost lease.
CALLS: Final = {
    "claim": 4,
    "start": 2,
    "renew": 2,
    "complete": 1,
    "fail": 3,
    "release": 2,
    "expire": 2,
    "due": 2,
    "cancel": 1,
}
TIMES: Final = {"a moment": 3, "until the lease is over": 3, "until the next try": 4, "a minute": 1}
DRAWN: Final = [name for names in (CALLS, TIMES) for name, weight in names.items() for _ in range(weight)]


class OneJob(RuleBasedStateMachine):
    """Every ledger call in any order, by any attempt, at any time."""

    ledger: ClassVar[Ledger]

    @initialize(
        repeatable=st.booleans(),
        attempts=st.integers(1, 3),
        elapsed=st.sampled_from([40, 100_000, 100_000]),
        deadline=st.sampled_from([None, None, None, 50.0, 200.0]),
    )
    def submit(self, *, repeatable: bool, attempts: int, elapsed: int, deadline: float | None) -> None:
        # A delay is never random where the model could not know whether it fits.
        delay = 0 if elapsed == 40 else 4
        name = f"t{repeatable}-{attempts}-{elapsed}".lower()
        ledger = self.ledger
        if name not in ledger.worker.place.types:
            spans = {"elapsed": timedelta(seconds=elapsed), "first_delay": timedelta(seconds=delay)}
            terms: dict[str, Any] = {"repeatable": repeatable, "attempts": attempts, **spans}
            ledger.declare(name, **terms)
            ledger.worker.place = type(ledger.place)(ledger.place.namespace, (*ledger.worker.place.types, name))
        self.epoch = ledger.clock.now
        self.job = ledger.submit_all([new_job(deadline=deadline)], name)[0].id
        self.model = ModelJob(ModelTerms(repeatable, attempts, elapsed, delay, 600, deadline))
        self.ids: list[UUID] = []
        self.holdings: dict[int, Holding] = {}

    @rule(name=st.sampled_from(DRAWN), data=st.data())
    def step(self, name: str, data: st.DataObject) -> None:
        """One call, or some time."""
        match name:
            case "claim":
                self._claim(data)
            case "expire":
                assert (self.job in self.ledger.coordinator.expire()) is self.model.expire()
                self._learn()
            case "due":
                assert self.ledger.coordinator.due().get(self.job) == self.model.due()
            case "cancel":
                assert self.ledger.producer.cancel(self.job).verdict == self.model.cancel()
            case _ if name in TIMES:
                self._pass_time(name)
            case _ if self.holdings:
                # Mostly the last attempt, now and then one before it.
                attempt = data.draw(st.sampled_from([*sorted(self.holdings), *[max(self.holdings)] * 3]))
                self._call(name, attempt, self.holdings[attempt], data)
            case _:
                pass

    def _pass_time(self, name: str) -> None:
        model = self.model
        until = {
            "a moment": model.now + 0.5,
            "until the lease is over": model.lease_until,
            "until the next try": model.until,
            "a minute": model.now + 2 * LEASE,
        }[name]
        seconds = 0 if until is None else max(0, until - model.now)
        self.ledger.clock.advance(seconds)
        model.now += seconds

    def _claim(self, data: st.DataObject) -> None:
        """By a new attempt, or again by one that asked before."""
        if not self.ids or data.draw(st.integers(0, 3)) > 0:
            self.ids.append(uuid7())
        attempt = data.draw(st.sampled_from([*range(len(self.ids)), *[len(self.ids) - 1] * 3]))
        # Another process each time: one that was not qualified is not asked again.
        self.ledger.worker.process = replace(self.ledger.worker.process, id=uuid4())
        answer = self.ledger.worker.claim(self.job, self.ids[attempt])
        assert answer.verdict == self.model.claim(attempt)
        if answer.verdict == "granted":
            self.holdings[attempt] = holding_of(answer)
        self._learn()

    def _call(self, name: str, attempt: int, holding: Holding, data: st.DataObject) -> None:
        worker, model = self.ledger.worker, self.model
        match name:
            case "start":
                assert worker.start(holding) == model.start(attempt)
            case "renew":
                assert worker.renew(holding).verdict == model.renew(attempt)
            case "complete":
                result = data.draw(st.sampled_from(RESULTS))
                self._compare(worker.complete(holding, result), model.complete(attempt, result))
            case "fail":
                kind = data.draw(st.sampled_from(["temporary"] * 4 + ["invalid", "policy", "unsafe"]))
                classified = data.draw(st.booleans())
                answer = worker.fail(holding, {**TEMPORARY, "class": kind, "classified": classified})
                self._compare(answer, model.fail(attempt, kind, classified=classified))
            case _:
                why = data.draw(st.sampled_from(["drain", "not_here", "snooze"]))
                if why == "snooze":
                    seconds = data.draw(st.sampled_from([1.0, 45.0]))
                    self._compare(worker.snooze(holding, seconds), model.release(attempt, why, model.now + seconds))
                else:
                    self._compare(worker.release(holding, why), model.release(attempt, why))

    def _since(self, at: datetime | None) -> float | None:
        return None if at is None else (at - self.epoch).total_seconds()

    def _learn(self) -> None:
        """What the ledger drew at random, the model is told."""
        self.model.learn(self._since(self.ledger.rows.state(self.job).wait_until))

    def _compare(self, answer: Reported, expected: tuple[str, str | None, str]) -> None:
        assert (answer.verdict, answer.reason, answer.state) == expected
        self._learn()

    @invariant()
    def the_job_stands_where_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        state, model = self.ledger.rows.state(self.job), self.model
        assert (state.state, state.waiting, state.failure_class) == (model.state, model.waiting, model.failure_class)
        assert self._since(state.wait_until) == pytest.approx(model.until)
        assert (state.charged, state.uncharged, state.number) == (model.charged, model.uncharged, len(model.attempts))
        assert state.attempt_id == (None if model.current is None else self.ids[model.current])
        assert state.accepted_attempt_id == (None if model.accepted is None else self.ids[model.accepted])
        assert 0 <= state.charged <= model.terms.attempts

    def teardown(self) -> None:
        if hasattr(self, "job"):
            assert violations(self.ledger.owner, [self.job]) == []
            open_attempts = {self.ids[n] for n, attempt in self.model.attempts.items() if not attempt.closed}
            assert {a.id for a in self.ledger.rows.attempts(self.job) if a.closed_at is None} == open_attempts


@pytest.mark.timeout(240)  # bounded by the number of examples; the machine may be busy
def test_random_sequences__answer_as_the_model_does(own_ledger: Ledger) -> None:
    class Machine(OneJob):
        ledger = own_ledger

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=75,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,  # the same sequences every run: what it finds can be found again
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
