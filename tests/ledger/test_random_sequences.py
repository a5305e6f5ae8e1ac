"""Random calls on one job, each compared with a reference model, and the invariants after every step."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from uuid_utils.compat import uuid7

from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import TEMPORARY, holding_of, new_job
from tests.ledger.reference_model import ModelJob, ModelTerms

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding, Reported
    from tests.ledger.ledger_driver import Ledger

RESULTS = ({"n": 1}, {"n": 2})


class OneJob(RuleBasedStateMachine):
    """Every ledger call in any order, by any attempt, at any time."""

    ledger: ClassVar[Ledger]

    @initialize(
        repeatable=st.booleans(),
        attempts=st.integers(1, 3),
        elapsed=st.sampled_from([40, 100_000]),
        deadline=st.sampled_from([None, None, 50.0, 200.0]),
    )
    def submit(self, *, repeatable: bool, attempts: int, elapsed: int, deadline: float | None) -> None:
        name = f"t{repeatable}-{attempts}-{elapsed}".lower()
        ledger = self.ledger
        if name not in ledger.worker.place.types:
            # A delay is never random where the model could not know whether it fits.
            ledger.declare(
                name,
                repeatable=repeatable,
                attempts=attempts,
                elapsed=timedelta(seconds=elapsed),
                first_delay=timedelta(seconds=0 if elapsed == 40 else 4),
                max_delay=timedelta(seconds=600),
            )
            place = type(ledger.place)(ledger.place.namespace, (*ledger.worker.place.types, name))
            ledger.worker.place = place
        self.epoch = ledger.clock.now
        self.job = ledger.submit_all([new_job(deadline=deadline)], name)[0].id
        self.model = ModelJob(ModelTerms(repeatable, attempts, elapsed, 0 if elapsed == 40 else 4, 600, deadline))
        self.ids: list[UUID] = []
        self.holdings: dict[int, Holding] = {}
        self.claim_anew()

    def _since(self, at: datetime | None) -> float | None:
        return None if at is None else (at - self.epoch).total_seconds()

    def _learn(self) -> None:
        """What the ledger drew at random, the model is told."""
        self.model.learn(self._since(self.ledger.rows.state(self.job).wait_until))

    def _compare(self, answer: Reported, expected: tuple[str, str | None, str]) -> None:
        assert (answer.verdict, answer.reason, answer.state) == expected
        self._learn()

    @rule(seconds=st.sampled_from([0.5, 3.0, 12.0, 30.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.ledger.clock.advance(seconds)
        self.model.now += seconds

    @rule()
    def claim_anew(self) -> None:
        self.ids.append(uuid7())
        self._claim(len(self.ids) - 1)

    @precondition(lambda self: len(self.ids) > 0)
    @rule(data=st.data())
    def claim_again(self, data: st.DataObject) -> None:
        self._claim(data.draw(st.integers(0, len(self.ids) - 1)))

    def _claim(self, attempt: int) -> None:
        answer = self.ledger.worker.claim(self.job, self.ids[attempt])
        assert answer.verdict == self.model.claim(attempt)
        if answer.verdict == "granted":
            self.holdings[attempt] = holding_of(answer)
        self._learn()

    def _draw(self, data: st.DataObject) -> tuple[int, Holding]:
        attempt = data.draw(st.sampled_from(sorted(self.holdings)))
        return attempt, self.holdings[attempt]

    @precondition(lambda self: len(self.holdings) > 0)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        attempt, holding = self._draw(data)
        assert self.ledger.worker.start(holding) == self.model.start(attempt)

    @precondition(lambda self: len(self.holdings) > 0)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        attempt, holding = self._draw(data)
        assert self.ledger.worker.renew(holding).verdict == self.model.renew(attempt)

    @precondition(lambda self: len(self.holdings) > 0)
    @rule(data=st.data(), result=st.sampled_from(RESULTS))
    def complete(self, data: st.DataObject, result: Any) -> None:
        attempt, holding = self._draw(data)
        self._compare(self.ledger.worker.complete(holding, result), self.model.complete(attempt, result))

    @precondition(lambda self: len(self.holdings) > 0)
    @rule(
        data=st.data(),
        failure_class=st.sampled_from(["temporary", "temporary", "invalid", "policy", "unsafe"]),
        classified=st.booleans(),
    )
    def fail(self, data: st.DataObject, failure_class: str, classified: bool) -> None:
        attempt, holding = self._draw(data)
        failure = {**TEMPORARY, "class": failure_class, "classified": classified}
        self._compare(
            self.ledger.worker.fail(holding, failure), self.model.fail(attempt, failure_class, classified=classified)
        )

    @precondition(lambda self: len(self.holdings) > 0)
    @rule(data=st.data(), why=st.sampled_from(["drain", "not_here"]))
    def release(self, data: st.DataObject, why: str) -> None:
        attempt, holding = self._draw(data)
        self._compare(self.ledger.worker.release(holding, why), self.model.release(attempt, why))

    @precondition(lambda self: len(self.holdings) > 0)
    @rule(data=st.data(), seconds=st.sampled_from([1.0, 45.0]))
    def snooze(self, data: st.DataObject, seconds: float) -> None:
        attempt, holding = self._draw(data)
        expected = self.model.release(attempt, "snooze", self.model.now + seconds)
        self._compare(self.ledger.worker.snooze(holding, seconds), expected)

    @rule()
    def expire(self) -> None:
        assert (self.job in self.ledger.coordinator.expire()) is self.model.expire()
        self._learn()

    @rule()
    def due(self) -> None:
        assert self.ledger.coordinator.due().get(self.job) == self.model.due()

    @precondition(lambda self: self.model.now > 60)
    @rule()
    def cancel(self) -> None:
        assert self.ledger.producer.cancel(self.job).verdict == self.model.cancel()

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
            max_examples=80,
            stateful_step_count=30,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
