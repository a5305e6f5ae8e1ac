"""What the ledger itself refuses to retry more often, or to wait for longer, whoever asks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from brokerjobs.ledger import services
from brokerjobs.rules.retries import RetryPolicy
from brokerjobs.rules.terms import Terms
from tests.ledger.ledger_caller import TEMPORARY

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


@pytest.mark.parametrize("change", [True, False])
@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("retry", "attempts"), 101, "retry attempts 101 are not a whole number from 1 to 100"),
        (("retry", "attempts"), 0, "retry attempts 0 are not"),
        (("retry", "attempts"), 2.5, "retry attempts 2.5 are not"),
        (("retry", "attempts"), None, "retry attempts"),
        (("retry", "factor"), 0.5, "the retry factor 0.5 is not from 1 to 100"),
        (("retry", "factor"), "NaN", "the retry factor NaN is not"),
        (("retry", "elapsed"), 31_536_001, r"the retry elapsed time of 31536001 s is not .* \(365 days\)"),
        (("retry", "first_delay"), -1, "the first retry delay of -1 s is not"),
        (("retry", "max_delay"), "Infinity", "the longest retry delay of Infinity s is not"),
        (("lease",), 90_000, "the lease of 90000 s is not from 0.1 s to 86400 s"),
        (("time_limit",), 0, "the time limit of 0 s is not"),
        (("placement_deadline",), 1e9, r"the placement deadline of 1000000000.* s is not"),
    ],
)
def test_types__beyond_the_caps_are_refused_with_the_bound(
    ledger: Ledger, change: bool, path: tuple[str, ...], value: Any, says: str
) -> None:
    data: dict[str, Any] = {"name": "eager", **Terms(repeatable=True).as_data(), "fingerprint": "x"}
    inner: dict[str, Any] = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    caller = ledger.open("owner" if change else "worker")

    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^job type eager of namespace .*: {says}"):
        caller.fetch(services.register_types(ledger.place.namespace, [data], change=change))
    assert ledger.owner.execute("select from brokerjobs.job_type where name = 'eager'").fetchall() == []


def test_types__at_the_caps_are_taken(ledger: Ledger) -> None:
    year = timedelta(days=365)
    policy = RetryPolicy(attempts=100, elapsed=year, first_delay=year, factor=100, max_delay=year)
    ledger.declare("work", attempts=100, elapsed=year, first_delay=year, factor=100, max_delay=year)

    stored = ledger.producer.record(ledger.submit())["terms"]["retry"]
    assert (stored["attempts"], stored["elapsed_seconds"]) == (policy.attempts, policy.elapsed.total_seconds())


def test_retry_after__of_more_than_a_year_is_a_year(ledger: Ledger) -> None:
    ledger.declare("work", elapsed=timedelta(days=365))
    holding = ledger.worker.take(ledger.submit())

    answer = ledger.worker.fail(holding, {**TEMPORARY, "retry_after": 1e12})

    assert (answer.state, answer.until) == ("queued", ledger.clock.after(365 * 86_400))


def test_retry_after__past_elapsed_is_the_end(ledger: Ledger) -> None:
    """A wait that is longer than the job may take is no reason to try sooner."""
    ledger.declare("work", elapsed=timedelta(seconds=60))
    holding = ledger.worker.take(ledger.submit())

    assert ledger.worker.fail(holding, {**TEMPORARY, "retry_after": 61}).state == "failed"
    assert ledger.rows.state(holding.job_id).failure_class == "exhausted"


def test_uncharged_roads__end_with_the_elapsed_time(ledger: Ledger) -> None:
    """However often a job is given back: it has no more time than its policy says."""
    ledger.declare("work", attempts=100, elapsed=timedelta(seconds=60), lease=timedelta(hours=1))
    for ending in ("drain", "snooze", "not_here"):
        job = ledger.submit()
        holding = ledger.worker.take(job)
        ledger.clock.advance(61)
        until = ledger.clock.after(1)
        body = {"until": f"{until:%Y-%m-%dT%H:%M:%S.%fZ}"} if ending == "snooze" else {}

        assert ledger.worker.release(holding, ending, **body).state == "failed"
        assert ledger.rows.state(job).failure_class == "exhausted"
