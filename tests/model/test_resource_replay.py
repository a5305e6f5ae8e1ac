"""Walks through the model of an exclusive resource, replayed on the SQL, which has to say the same after every step."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs import needs
from tests.ledger.invariants import violations
from tests.ledger.ledger_caller import holding_of, new_job
from tests.model.resource import ExclusiveResource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger
    from tests.model.resource import World
    from tests.model.search import Step

WALKS = 12
RULES = ExclusiveResource("holder closed", result_carries_number=True)


def walk(rules: ExclusiveResource, chance: random.Random) -> Iterator[tuple[Step, World]]:
    """Steps of the model until nothing more can happen."""
    state = rules.first()
    while happenings := list(rules.happenings(state)):
        step, state = chance.choice(happenings)
        yield step, state


class Replay:
    """Two jobs that need one resource of their own, and what the model's attempts are here."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.ledger = ledger
        made = [replace(new_job(), needs=[needs.exclusive(name)]) for _ in range(2)]
        self.jobs: list[UUID] = [answer.id for answer in ledger.submit_all(made)]
        self.held: dict[int, Holding] = {}

    def step(self, step: Step) -> str:
        """Does it; what the ledger answers, in the model's words."""
        ledger, job = self.ledger, self.jobs[step.attempt // 2]
        match step.what:
            case "claim":
                until = ledger.rows.state(job).wait_until
                if until is not None:
                    ledger.ring_again(job)
                answer = ledger.worker.claim(job)
                if answer.verdict != "granted":
                    return answer.verdict
                number = max((one.fencing_number for one in self.held.values()), default=0)
                self.held[step.attempt] = holding_of(answer)
                return "" if answer.fencing_number > number else "a number that is no larger"
            case "the lease runs out":
                ledger.clock.advance(31)
                return ""
            case "expire":
                return "" if job in ledger.coordinator.expire() else "passed over"
            case _:
                return ledger.worker.complete(self.held[step.attempt]).verdict

    def looks(self) -> list[tuple[str, int]]:
        """The state of each job, and which attempt it names."""
        found: list[tuple[str, int]] = []
        for number, job in enumerate(self.jobs):
            state = self.ledger.rows.state(job)
            mine = [a for a, one in self.held.items() if a // 2 == number and one.attempt_id == state.attempt_id]
            found.append((state.state, mine[0] if mine else -1))
        return found


def replayed(ledger: Ledger, rules: ExclusiveResource) -> set[tuple[str, str]]:
    """Replays walks; the kinds of steps that were met. Asserts that model and SQL agree after each."""
    ledger.declare("work", first_delay=timedelta(0))
    chance, met = random.Random(7), set[tuple[str, str]]()
    for number in range(WALKS):
        replay, told = Replay(ledger, f"x-{number}"), list[str]()
        for step, state in walk(rules, chance):
            answer = replay.step(step)
            told.append(f"{step} -> {answer}")
            assert answer == step.answer, told
            assert replay.looks() == [(job.state, job.attempt) for job in state.jobs], told
            met.add((step.what, step.answer))
        assert violations(ledger.owner, replay.jobs) == [], told
    return met


@pytest.mark.timeout(300)  # bounded by the number of steps; the machine may be busy
def test_resource__is_as_the_model_says_after_every_step(ledger: Ledger) -> None:
    assert replayed(ledger, RULES) == {
        ("claim", ""),
        ("the lease runs out", ""),
        ("expire", ""),
        ("completes", "accepted"),
        ("completes", "rejected"),
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "rules",
    [
        ExclusiveResource("lease over", result_carries_number=True),
        ExclusiveResource("holder closed", result_carries_number=False),
    ],
)
def test_replay__sees_a_change_of_the_model_alone(ledger: Ledger, rules: ExclusiveResource) -> None:
    with pytest.raises(AssertionError, match="->"):
        replayed(ledger, rules)
