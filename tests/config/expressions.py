"""What PromQL expressions name, and whether the catalogue has it: without Prometheus' own programs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import promql_parser as promql

from brokerjobs.rules.failures import FailureClass
from brokerjobs.rules.states import JobState, Waiting
from brokerjobs.rules.verdicts import RejectReason
from brokerjobs.telemetry import attributes
from brokerjobs.telemetry.catalogue import METRICS, Instrument, Metric
from brokerjobs.telemetry.names import ATTRIBUTES
from brokerjobs.telemetry.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
CONFIG: Final = ROOT / "config"

TARGET: Final = frozenset({"job", "instance"})
"""The labels that Prometheus gives every series."""
SERIES: Final = {name: metric for metric in METRICS for name in metric.series}
BROKER: Final = {
    f"rabbitmq_detailed_queue_{name}": frozenset({"queue", "vhost"})
    for name in ("messages_ready", "messages_unacked", "consumers")
}
"""Those of the broker's own that we use, of the families that config/prometheus/prometheus.yml asks for."""


def _label(attribute: str) -> str:
    return attribute.replace(".", "_")


def _said(name: str) -> frozenset[str]:
    """The values that the meaning of an attribute lists."""
    (meaning,) = (one.meaning for one in ATTRIBUTES if one.name == name)
    return frozenset(re.findall(r"`(\w+)`", meaning))


def _services() -> frozenset[str]:
    """The coordinator's services, each of which names itself in its file."""
    sources = (ROOT / "brokerjobs" / "coordinator").glob("*.py")
    return frozenset(
        name for one in sources for name in re.findall(r'^NAME: Final = "(.+)"$', one.read_text(), re.MULTILINE)
    )


VALUES: Final[dict[str, frozenset[str]]] = {
    _label(attributes.OUTCOME): frozenset(Outcome),
    _label(attributes.JOB_STATE): frozenset(JobState),
    _label(attributes.JOB_WAITING): frozenset(Waiting),
    _label(attributes.FAILURE_CLASS): frozenset(FailureClass),
    _label(attributes.WORKER_STATE): _said(attributes.WORKER_STATE),
    _label(attributes.ATTEMPT_KIND): _said(attributes.ATTEMPT_KIND),
    _label(attributes.SERVICE): _services(),
    _label(attributes.RESULT): frozenset({"kept", "late", "lost", "failed", "confirmed", "refused", "unknown"}),
}
_REASONS: Final = frozenset(RejectReason)


@dataclass(slots=True)
class Found:
    """What one expression has in it."""

    selectors: list[promql.VectorSelector] = field(default_factory=list[promql.VectorSelector])
    aggregations: list[promql.AggregateExpr] = field(default_factory=list[promql.AggregateExpr])
    calls: list[promql.Call] = field(default_factory=list[promql.Call])


def parsed(expression: str) -> promql.Expr:
    """The expression, Grafana's variables replaced; raises ValueError if it is none."""
    text = re.sub(r"\$__(rate_interval|interval|range)\b", "5m", expression)
    parse: Any = promql.parse
    tree: promql.Expr = parse(text)
    return tree


def found(tree: promql.Expr) -> Found:
    """Everything in it, however deep."""
    into = Found()

    def visit(one: promql.Expr) -> None:
        match one:
            case promql.VectorSelector():
                into.selectors.append(one)
            case promql.MatrixSelector():
                into.selectors.append(one.vector_selector)
            case promql.AggregateExpr():
                into.aggregations.append(one)
            case promql.Call():
                into.calls.append(one)
            case _:
                pass

    promql.walk(tree, visit)
    unique = {id(one): one for one in into.selectors}
    into.selectors = list(unique.values())
    return into


def labels_of(name: str, recorded: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    """The labels that a series has; None if there is no such series."""
    if name in recorded:
        return recorded[name]
    if name in BROKER:
        return BROKER[name] | TARGET
    metric: Metric | None = SERIES.get(name)
    if metric is None:
        return None
    bound = {"le"} if name.endswith("_bucket") else set[str]()
    return TARGET | frozenset(metric.labels) | bound


def problems(expression: str, recorded: Mapping[str, frozenset[str]] | None = None) -> Iterator[str]:
    """What an expression names that is not there, in words."""
    recorded = recorded or {}
    tree = parsed(expression)
    inside = found(tree)
    if not inside.selectors:
        yield "it names no series"
    for selector in inside.selectors:
        yield from _of_selector(selector, recorded)
    for one in inside.aggregations:
        if one.modifier is None:
            continue
        for selector in found(one.expr).selectors:
            has = labels_of(selector.name or "", recorded) or frozenset()
            if lacking := set(one.modifier.labels) - has:
                yield f"{selector.name} has no {sorted(lacking)} to be aggregated by"
    yield from _of_calls(inside)


def _of_selector(selector: promql.VectorSelector, recorded: Mapping[str, frozenset[str]]) -> Iterator[str]:
    has = labels_of(selector.name or "", recorded)
    if has is None:
        yield f"there is no metric {selector.name}"
        return
    for matcher in selector.matchers.matchers:
        if matcher.name not in has:
            yield f"{selector.name} has no label {matcher.name}"
        if matcher.name == _label(attributes.REASON) and "rejections" in (selector.name or ""):
            yield from _of_values(matcher, _REASONS)
        elif matcher.name in VALUES:
            yield from _of_values(matcher, VALUES[matcher.name])


def _of_values(matcher: promql.Matcher, known: frozenset[str]) -> Iterator[str]:
    for value in matcher.value.split("|"):
        if not value.startswith("$") and value not in known:
            yield f"{matcher.name} is never {value!r}"


def _of_calls(inside: Found) -> Iterator[str]:
    """Counters are read by their increase, and nothing else is."""
    for call in inside.calls:
        if call.func.name in {"rate", "increase", "irate"}:
            (over,) = call.args
            name = over.vector_selector.name
            metric = SERIES.get(name)
            if metric is not None and metric.instrument not in {Instrument.COUNTER, Instrument.HISTOGRAM}:
                yield f"{name} is no counter"
