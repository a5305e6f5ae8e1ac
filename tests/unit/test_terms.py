from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.names import job_type_problem, namespace_problem, queue_problem
from brokerjobs.rules.retries import RetryPolicy
from brokerjobs.rules.terms import Terms, differences

SAID: dict[str, Any] = {"repeatable": True}


def test_terms__have_the_agreed_defaults_and_are_plain_data() -> None:
    assert json.loads(json.dumps(Terms(repeatable=False).as_data())) == {
        "repeatable": False,
        "queue": "default",
        "lease": 30,
        "time_limit": 600,
        "retry": {"attempts": 5, "elapsed": 86400, "first_delay": 1, "factor": 2, "max_delay": 600},
        "placement_deadline": 86400,
        "needs": [],
        "needs_hash": None,
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("repeatable", None, "repeatable=None is neither True nor False"),
        ("repeatable", 1, "repeatable=1 is neither"),
        ("queue", "A", "queue 'A' is not"),
        ("queue", 3, "queue=3 is not a text"),
        ("lease", timedelta(milliseconds=99), r"lease=0:00:00.099000 is not from 100ms to 1d: shorter is lost"),
        ("lease", timedelta(days=2), "lease=2 days, 0:00:00 is not from 100ms to 1d"),
        ("lease", 30, "lease=30 is not a timedelta"),
        ("time_limit", timedelta(0), "time_limit=0:00:00 is not from .* it is always finite"),
        ("time_limit", timedelta.max, "time_limit=.* is not from"),
        ("placement_deadline", timedelta(seconds=-1), "placement_deadline=.* a job that nobody can run must end"),
        ("retry", 5, "retry=5 is not a RetryPolicy"),
    ],
)
def test_terms__name_field_value_bound_and_reason(field: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Terms(**{**SAID, field: value})


def test_differences__has_a_line_for_each_term() -> None:
    first = Terms(repeatable=True)
    second = Terms(repeatable=False, lease=timedelta(minutes=1), retry=RetryPolicy(attempts=3))

    assert differences(first, first) == ()
    lines = differences(first, second)
    assert [line.partition(":")[0] for line in lines] == ["repeatable", "lease", "retry"]
    assert "lease: 30s, then 1m" in lines


@pytest.mark.parametrize("name", ["a", "payments", "p-1_x", "a" * 41])
def test_namespace__may_be(name: str) -> None:
    assert namespace_problem(name) is None


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a.b", "a" * 42, "a\n", "a b", "ä", "a*"])
def test_namespace__may_not_be(name: str) -> None:
    assert "namespace" in (namespace_problem(name) or "")


@pytest.mark.parametrize("name", ["payment.charge", "a", "a" * 101, "a-b_c.d"])
def test_job_type_and_queue__may_be(name: str) -> None:
    assert job_type_problem(name) is None
    assert queue_problem(name) is None


@pytest.mark.parametrize("name", ["", ".a", "A", "a" * 102, "a\n", "a#", "a b"])
def test_job_type_and_queue__may_not_be(name: str) -> None:
    assert "job type" in (job_type_problem(name) or "")
    assert "queue" in (queue_problem(name) or "")


def test_queue__has_no_dot_at_its_end() -> None:
    assert queue_problem("mail.") is not None
