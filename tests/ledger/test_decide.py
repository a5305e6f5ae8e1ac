"""Rule R8: where a job goes when an attempt ends without an accepted result; R5: what is charged."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.ledger.ledger_caller import TEMPORARY

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger
    from tests.ledger.ledger_rows import StateRow

ENDINGS = ("temporary", "invalid", "policy", "unsafe", "drain", "snooze", "not_here", "lost", "refused")
_LONG = 10_000.0  # a deadline that no lease reaches, in seconds


@dataclass(frozen=True, slots=True)
class Situation:
    """In what circumstances an attempt ends."""

    ending: str
    repeatable: bool
    started: bool
    classified: bool
    cancelled: bool
    deadline_passed: bool
    budget_left: bool

    def __str__(self) -> str:
        flags = ("repeatable", "started", "classified", "cancelled", "deadline_passed", "budget_left")
        return "-".join([self.ending, *(flag for flag in flags if getattr(self, flag))])


def _expected(s: Situation) -> str:
    """The order of rule R8, as its text orders it."""
    classified = (s.classified and s.ending in {"temporary", "invalid", "policy", "unsafe"}) or s.ending in {
        "snooze",
        "not_here",
    }
    if s.ending == "unsafe" or (not s.repeatable and s.started and not classified):
        return "review"
    if s.cancelled:
        return "cancelled"
    if s.deadline_passed:
        return "failed deadline"
    if s.ending in {"invalid", "policy"}:
        return f"failed {s.ending}"
    wait = {"drain": "delivery", "snooze": "schedule", "not_here": "placement"}.get(s.ending, "retry")
    if not s.budget_left and s.ending == "temporary":
        return "failed exhausted"
    return f"queued {wait}"


def _situations() -> list[Situation]:
    found = [Situation(ending, *flags) for ending in ENDINGS for flags in itertools.product((True, False), repeat=6)]
    # Only failures may be classified either way, and a result is refused by a cancel or a deadline alone.
    return [
        s
        for s in found
        if (s.ending in {"temporary", "invalid", "policy", "unsafe"} or not s.classified)
        and (s.ending != "refused" or s.cancelled or s.deadline_passed)
    ]


def _end(ledger: Ledger, holding: Holding, s: Situation) -> None:
    match s.ending:
        case "lost":
            ledger.lose(holding)
        case "refused":
            assert ledger.worker.complete(holding).verdict == "rejected"
        case "drain" | "not_here":
            ledger.worker.release(holding, s.ending)
        case "snooze":
            ledger.worker.snooze(holding, 60)
        case failure_class:
            ledger.worker.fail(holding, {**TEMPORARY, "class": failure_class, "classified": s.classified})


def _shown(state: StateRow) -> str:
    return " ".join([state.state, *([state.waiting] if state.waiting else [state.failure_class or ""])]).strip()


@pytest.mark.parametrize("ending", ENDINGS)
def test_decide__sends_a_job_where_the_table_says(ledger: Ledger, ending: str) -> None:
    ledger.declare("rich", attempts=2)
    ledger.declare("poor", attempts=1)
    ledger.declare("rich_once", repeatable=False, attempts=2)
    ledger.declare("poor_once", repeatable=False, attempts=1)
    ledger.worker.place = ledger.place = type(ledger.place)(
        ledger.place.namespace, ("rich", "poor", "rich_once", "poor_once")
    )
    wrong: dict[str, tuple[str, str]] = {}
    situations = [s for s in _situations() if s.ending == ending]
    assert len(situations) >= 24
    for s in situations:
        kind = ("rich" if s.budget_left else "poor") + ("" if s.repeatable else "_once")
        job = ledger.submit(kind, deadline=30 if s.deadline_passed else _LONG)
        holding = ledger.worker.take(job)
        if s.started:
            assert ledger.worker.start(holding) == "started"
        if s.cancelled:
            assert ledger.producer.cancel(job).verdict == "requested"
        if s.deadline_passed:
            ledger.clock.advance(30)
        _end(ledger, holding, s)
        if (shown := _shown(ledger.rows.state(job))) != _expected(s):
            wrong[str(s)] = (shown, _expected(s))

    assert not wrong


def test_decide__says_why_a_review_was_opened(ledger: Ledger) -> None:
    """Recorded facts only: a repeatable job comes to review because its handler said so, not because it had started."""
    said, raised, lost = (ledger.worker.take(ledger.submit(kind)) for kind in ("work", "once", "once"))
    ledger.worker.start(raised)
    ledger.worker.start(lost)
    ledger.worker.fail(said, {**TEMPORARY, "class": "unsafe"})
    ledger.worker.fail(raised, {**TEMPORARY, "class": "unsafe", "classified": False})
    ledger.lose(lost)

    causes = [ledger.rows.reviews(holding.job_id)[0].cause for holding in (said, raised, lost)]
    started = "the attempt had started, its outcome is unknown and it is not repeatable"
    assert causes == ["the handler said that its outcome is unknown", started, started]


def test_decide__ends_a_lost_last_attempt_one_lease_later(ledger: Ledger) -> None:
    ledger.declare("work", attempts=2)
    job = ledger.submit()
    ledger.worker.fail(ledger.worker.take(job))
    ledger.ring_again(job)
    last = ledger.worker.take(job)

    expired = ledger.lose(last)

    assert (expired.state, expired.until) == ("queued", ledger.clock.after(30))
    assert ledger.rows.state(job).wait_detail == {"after": "lease expired", "attempt": 2, "last": True}
    ledger.clock.advance(29)
    assert ledger.worker.claim(job).verdict == "not_due"
    assert job not in ledger.coordinator.due()
    ledger.clock.advance(1)
    assert ledger.coordinator.due()[job] == "failed"
    state = ledger.rows.state(job)
    assert (state.failure_class, state.failure_reason) == ("exhausted", "2 of 2 attempts used")
    assert ledger.worker.complete(last).reason == "job_failed"


def test_decide__accepts_the_late_success_of_a_lost_last_attempt(ledger: Ledger) -> None:
    ledger.declare("work", attempts=1)
    last = ledger.worker.take(ledger.submit())
    ledger.lose(last)
    ledger.clock.advance(29)

    answer = ledger.worker.complete(last)

    assert (answer.verdict, answer.late, answer.state) == ("accepted", True, "succeeded")


@pytest.mark.parametrize("at_claim", [True, False])
def test_decide__ends_a_lost_last_attempt_at_a_claim_too(ledger: Ledger, at_claim: bool) -> None:
    """A redelivery after that lease finds the job exhausted, whether or not the scheduler has been there."""
    ledger.declare("work", attempts=1)
    last = ledger.worker.take(ledger.submit())
    ledger.lose(last)
    ledger.clock.advance(30)
    if not at_claim:
        ledger.coordinator.due()

    assert ledger.worker.claim(last.job_id).verdict == "finished"
    assert ledger.rows.state(last.job_id).failure_class == "exhausted"
    assert len(ledger.rows.outbox(last.job_id, "dead")) == 1


def test_decide__waits_for_a_lost_attempt_no_longer_than_a_lease_when_elapsed_forbids_a_retry(ledger: Ledger) -> None:
    ledger.declare("work", elapsed=timedelta(seconds=25))
    lost = ledger.worker.take(ledger.submit())
    expired = ledger.lose(lost)

    assert (expired.state, expired.until) == ("queued", ledger.clock.after(30))
    ledger.clock.advance(30)
    ledger.coordinator.due()
    state = ledger.rows.state(lost.job_id)
    assert (state.failure_class, state.charged) == ("exhausted", 1)


def test_decide__counts_elapsed_from_the_first_claim(ledger: Ledger) -> None:
    ledger.declare(
        "work", attempts=100, elapsed=timedelta(seconds=60), first_delay=timedelta(0), lease=timedelta(hours=1)
    )
    job = ledger.submit()
    ledger.clock.advance(3600)  # a backlog must not eat it
    first = ledger.worker.take(job)
    ledger.clock.advance(59)
    assert ledger.worker.fail(first).state == "queued"
    ledger.ring_again(job)
    second = ledger.worker.take(job)
    ledger.clock.advance(2)

    assert ledger.worker.fail(second).state == "failed"
    assert ledger.rows.state(job).failure_reason == "no retry fits into 00:01:00 after the first claim"


def test_decide__refuses_a_retry_that_would_come_after_elapsed(ledger: Ledger) -> None:
    ledger.declare("work", elapsed=timedelta(seconds=60))
    inside, outside = ledger.worker.take(ledger.submit()), ledger.worker.take(ledger.submit())

    assert ledger.worker.fail(inside, {**TEMPORARY, "retry_after": 60}).state == "queued"
    assert ledger.worker.fail(outside, {**TEMPORARY, "retry_after": 60.1}).state == "failed"


def test_decide__retries_at_the_time_that_the_failure_names(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())

    answer = ledger.worker.fail(holding, {**TEMPORARY, "retry_after": 90.5})

    assert (answer.state, answer.until) == ("queued", ledger.clock.after(90.5))
    assert ledger.rows.state(holding.job_id).wait_detail == {
        "after": "TemporaryFailure",
        "message": "try again",
        "attempt": 1,
    }


@pytest.mark.parametrize("asked", [-5, 1e9, 8.64e13, 1e300, "NaN", "Infinity", None])
def test_decide__keeps_a_strange_wish_within_a_year(ledger: Ledger, asked: Any) -> None:
    """A delay that no clock can add must not keep the failure from being recorded."""
    ledger.declare("work", elapsed=timedelta(days=365), first_delay=timedelta(seconds=7))
    holding = ledger.worker.take(ledger.submit())

    answer = ledger.worker.fail(holding, {**TEMPORARY, "retry_after": asked})

    assert (answer.verdict, answer.state) == ("recorded", "queued")
    assert answer.until is not None
    longest = {-5: 0.0, None: 7.0}.get(asked, 365 * 86400.0)
    assert timedelta(0) <= answer.until - ledger.clock.now <= timedelta(seconds=longest)


def test_decide__waits_with_full_jitter(ledger: Ledger) -> None:
    """random * min(max_delay, first_delay * factor^(n-1)), n = charged attempts."""
    ledger.declare(
        "work",
        attempts=100,
        elapsed=timedelta(days=30),
        first_delay=timedelta(seconds=10),
        factor=3.0,
        max_delay=timedelta(seconds=200),
    )
    longest = [10, 30, 90, 200, 200]
    waits: list[list[float]] = [[] for _ in longest]
    for _ in range(8):
        job = ledger.submit()
        for n in range(len(longest)):
            answer = ledger.worker.fail(ledger.worker.take(job))
            assert answer.until is not None
            waits[n].append((answer.until - ledger.clock.now).total_seconds())
            ledger.ring_again(job)

    for bound, found in zip(longest, waits, strict=True):
        assert all(0 <= wait <= bound for wait in found)
        assert max(found) - min(found) > bound / 10  # jitter: one in a million that eight lie so close together
    assert max(waits[3] + waits[4]) > 90  # it does grow: one in 300 000 that sixteen lie below


def test_decide__waits_the_same_back_off_when_an_attempt_is_lost(ledger: Ledger) -> None:
    ledger.declare("work", first_delay=timedelta(seconds=100))
    expired = ledger.lose(ledger.worker.take(ledger.submit()))

    assert expired.until is not None
    assert timedelta(0) < expired.until - ledger.clock.now <= timedelta(seconds=100)


def test_decide__survives_the_hundredth_attempt(ledger: Ledger) -> None:
    """factor^99 must not overflow an interval."""
    ledger.declare(
        "work",
        attempts=100,
        elapsed=timedelta(days=365),
        first_delay=timedelta(milliseconds=1),
        factor=100.0,
        max_delay=timedelta(seconds=1),
    )
    job = ledger.submit()
    ledger.owner.execute("update brokerjobs.job_state set charged = 98, number = 98 where job_id = %s", [job])

    assert ledger.worker.fail(ledger.worker.take(job)).state == "queued"
    ledger.ring_again(job)
    assert ledger.worker.fail(ledger.worker.take(job)).state == "failed"
    assert ledger.rows.state(job).charged == 100
