"""The alerts: Prometheus takes them, each is seen to fire and to be silent, and they name what the catalogue has."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import promql_parser as promql
import pytest
import yaml

from brokerjobs.telemetry.catalogue import Source
from tests.config.expressions import CONFIG, SERIES, found, parsed, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = CONFIG / "prometheus"
RULES: Final[list[dict[str, Any]]] = [
    rule for group in yaml.safe_load((FOLDER / "brokerjobs.rules.yml").read_text())["groups"] for rule in group["rules"]
]
ALERTS: Final = {rule["alert"]: rule for rule in RULES if "alert" in rule}
TESTS: Final[list[dict[str, Any]]] = yaml.safe_load((FOLDER / "brokerjobs.rules.test.yml").read_text())["tests"]


def _recorded() -> Iterator[tuple[str, frozenset[str]]]:
    """Recording rules, and what they are aggregated by."""
    for rule in RULES:
        if "record" in rule:
            by = [one.modifier for one in found(parsed(rule["expr"])).aggregations]
            yield rule["record"], frozenset(label for one in by if one is not None for label in one.labels)


RECORDED: Final = dict(_recorded())


def program(name: str, *arguments: str) -> str:
    """Runs one of Prometheus' programs in its folder; what it said."""
    if shutil.which(name) is None:
        package = {"promtool": "prometheus", "amtool": "prometheus-alertmanager"}[name]
        pytest.skip(f"{name} is not installed: it is in Debian's package {package}, which starts a server, too")
    done = subprocess.run([name, *arguments], cwd=CONFIG, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool__takes_rules_and_configuration() -> None:
    program("promtool", "check", "config", "prometheus/prometheus.yml")
    said = program("promtool", "check", "rules", "--lint-fatal", "prometheus/brokerjobs.rules.yml")

    assert f"{len(RULES)} rules found" in said


def test_promtool__sees_each_alert_fire_and_be_silent() -> None:
    program("promtool", "test", "rules", "prometheus/brokerjobs.rules.test.yml")


@pytest.mark.parametrize("name", ALERTS)
def test_alert__has_a_case_in_which_it_fires_and_one_in_which_it_is_silent(name: str) -> None:
    cases = [one["alert_rule_test"] for one in TESTS if one["name"].startswith(f"{name} ")]

    assert all(one["alertname"] == name for (one,) in cases)
    assert [len(one["exp_alerts"]) for (one,) in cases] == [1, 0]


@pytest.mark.parametrize("name", ALERTS)
def test_alert__says_how_grave_it_is_what_is_wrong_and_where_to_read_on(name: str) -> None:
    alert = ALERTS[name]

    assert re.fullmatch(r"Brokerjobs([A-Z][a-z]+)+", name)
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in {"page", "ticket", "info"}
    assert alert["annotations"].keys() == {"summary", "runbook"}
    for label in re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]):
        assert label in kept(alert["expr"]), f"the alert has no label {label}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rule__names_what_the_catalogue_has(rule: dict[str, Any]) -> None:
    assert list(problems(rule["expr"], RECORDED)) == []


@pytest.mark.parametrize("case", TESTS, ids=lambda case: case["name"].partition(":")[0])
def test_case__is_of_series_that_the_catalogue_has(case: dict[str, Any]) -> None:
    for one in case["input_series"]:
        assert list(problems(one["series"])) == []


def test_gauges_of_the_monitor__are_never_summed() -> None:
    seen = 0
    for rule in RULES:
        for one in found(parsed(rule["expr"])).aggregations:
            told = [SERIES[s.name or ""] for s in found(one.expr).selectors if s.name in SERIES]
            if any(metric.source is Source.MONITOR for metric in told):
                assert str(one.op) == "max", rule
                seen += 1
    assert seen > 10


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("max(brokerjobs_job_counts)", "there is no metric brokerjobs_job_counts"),
        ("max by (queue) (brokerjobs_job_count)", "has no ['queue'] to be aggregated by"),
        ('brokerjobs_attempt_outcomes_total{outcome="failed"}', "has no label outcome"),
        ('brokerjobs_attempt_outcomes_total{brokerjobs_outcome="dead"}', "is never 'dead'"),
        ('brokerjobs_result_rejections_total{brokerjobs_reason=~"deadline|stale"}', "is never 'stale'"),
        ("rate(brokerjobs_job_count[5m])", "brokerjobs_job_count is no counter"),
        ("vector(1)", "it names no series"),
    ],
)
def test_problems__are_seen(expression: str, said: str) -> None:
    (problem,) = problems(expression)

    assert said in problem


def kept(expression: str) -> frozenset[str]:
    """The labels that an alert's own expression is grouped by, its left-most part's."""
    tree: Any = parsed(expression)
    while not isinstance(tree, promql.AggregateExpr):
        if isinstance(tree, promql.BinaryExpr):
            tree = tree.lhs
        elif isinstance(tree, promql.ParenExpr):
            tree = tree.expr
        elif isinstance(tree, promql.VectorSelector):
            return RECORDED[tree.name or ""]
        else:
            return frozenset()
    return frozenset(tree.modifier.labels if tree.modifier else ())
