"""The dashboards: what the generator makes is what is committed, and whatever they ask for is in the catalogue."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import promql_parser as promql
import pytest
import yaml

from brokerjobs.telemetry.catalogue import METRICS, Source
from config.grafana import generate, panels, queries
from tests.config.expressions import BROKER, CONFIG, SERIES, found, labels_of, parsed, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = CONFIG / "grafana"
BOARDS: Final[dict[str, dict[str, Any]]] = {
    file.stem: json.loads(file.read_text()) for file in sorted((FOLDER / "dashboards").glob("*.json"))
}


def _panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, board in BOARDS.items():
        for panel in board["panels"]:
            if panel["type"] != "row":
                yield f"{name}: {panel['title']}", panel


def _sources(board: dict[str, Any]) -> list[Any]:
    """Whatever is said to be a data source, however deep."""
    said: list[Any] = []

    def seen(one: dict[str, Any]) -> dict[str, Any]:
        if "datasource" in one:
            said.append(one["datasource"])
        return one

    json.loads(json.dumps(board), object_hook=seen)
    return said


PANELS: Final = dict(_panels())
EXPRESSIONS: Final = sorted({target["expr"] for panel in PANELS.values() for target in panel["targets"]})


def test_files__are_what_the_generator_makes() -> None:
    committed = {file.name: file.read_text() for file in (FOLDER / "dashboards").iterdir()}

    assert committed == generate.files(), "run `python -m config.grafana.generate`, and commit what it writes"


@pytest.mark.parametrize("name", BOARDS)
def test_dashboard__takes_its_data_from_where_the_person_says(name: str) -> None:
    board = BOARDS[name]
    sources = _sources(board)

    assert {one["name"] for one in board["templating"]["list"] if one["type"] == "datasource"} == {"datasource"}
    assert len(sources) > len(board["panels"])
    assert all(one == {"type": "prometheus", "uid": "${datasource}"} for one in sources)


def test_dashboards__have_ids_titles_and_descriptions_of_their_own() -> None:
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS) == 4
    assert all(board["title"].startswith("brokerjobs: ") and board["description"] for board in BOARDS.values())


@pytest.mark.parametrize("name", BOARDS)
def test_panels__have_ids_of_their_own_and_lie_beside_each_other(name: str) -> None:
    board = BOARDS[name]
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= panels.WIDTH
        taken |= cells

    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
def test_panel__says_its_unit_and_what_it_shows(panel: dict[str, Any]) -> None:
    named = {s.name for t in panel["targets"] for s in found(parsed(t["expr"])).selectors if s.name in SERIES}
    units = {SERIES[name or ""].unit for name in named}

    assert panel["fieldConfig"]["defaults"]["unit"] in {"s", "short", "cps", "ops"}
    if units == {"s"} and "_count" not in str(named):
        assert panel["fieldConfig"]["defaults"]["unit"] == "s"
    assert panel["description"]
    for name in named:
        assert SERIES[name or ""].description in panel["description"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression__names_what_the_catalogue_has(expression: str) -> None:
    assert list(problems(expression)) == []


@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
def test_legend__names_labels_that_the_series_have(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        tree: Any = parsed(target["expr"])
        grouped = tree.modifier.labels if isinstance(tree, promql.AggregateExpr) and tree.modifier else []
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(grouped)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_rate__is_over_no_less_than_the_rate_interval(expression: str) -> None:
    assert set(re.findall(r"\[([^\]]*)\]", expression)) <= {"$__rate_interval"}
    assert [call for call in found(parsed(expression)).calls if call.func.name == "irate"] == []


def test_gauges_of_the_monitor__are_never_summed_over_processes() -> None:
    told = [name for name, metric in SERIES.items() if metric.source is Source.MONITOR]
    for expression in EXPRESSIONS:
        for name in told:
            before = re.split(rf"\b{name}\b", expression)[:-1]
            assert all(re.search(r"max( by \([^)]*\) )?\($", text) for text in before), expression


def test_counted__takes_the_maximum_first_over_processes_alone() -> None:
    """Else a gauge of two queues would be shown as the larger one."""
    for expression in EXPRESSIONS:
        if expression.startswith("sum") and "(max by" in expression:
            (inner,) = re.findall(r"\(max by \(([^)]*)\) \((\w+)", expression)
            assert inner[0].split(", ") == list(SERIES[inner[1]].labels)


def test_every_metric__is_shown_somewhere() -> None:
    shown = {SERIES[s.name or ""] for e in EXPRESSIONS for s in found(parsed(e)).selectors if s.name in SERIES}

    assert [metric.name for metric in METRICS if metric not in shown] == []


@pytest.mark.parametrize("name", BOARDS)
def test_variables__are_labels_of_series_and_used(name: str) -> None:
    board = BOARDS[name]
    for one in board["templating"]["list"]:
        if one["type"] == "query":
            series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", one["query"]["query"]).groups()  # type: ignore[union-attr]  # a failure is a failure
            assert label in (labels_of(series, {}) or ())
            assert f'=~\\"${one["name"]}\\"' in json.dumps(board["panels"])


def test_monitors_gauge__is_refused_as_a_sum() -> None:
    (metric, *_) = (metric for metric in METRICS if metric.source is Source.MONITOR)

    with pytest.raises(ValueError, match="take the maximum"):
        queries.total(metric, ())


def test_provisioning__knows_where_the_dashboards_are_and_what_the_links_lead_to() -> None:
    sources = yaml.safe_load((FOLDER / "provisioning/datasources/brokerjobs.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((FOLDER / "provisioning/dashboards/brokerjobs.yaml").read_text())["providers"]
    scraped = yaml.safe_load((CONFIG / "prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]

    by_uid = {one["uid"]: one for one in sources}
    assert {one["type"] for one in sources} == {"prometheus", "tempo"}
    assert [one["uid"] for one in sources if one.get("isDefault")] == ["prometheus"]
    links = by_uid["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert {one["datasourceUid"] for one in links} <= by_uid.keys()
    assert by_uid["prometheus"]["jsonData"]["timeInterval"] == scraped
    assert provider["type"] == "file"


def test_brokers_own_figures__are_those_that_are_scraped() -> None:
    (job,) = (
        one
        for one in yaml.safe_load((CONFIG / "prometheus/prometheus.yml").read_text())["scrape_configs"]
        if one["job_name"] == "rabbitmq"
    )
    used = {s.name for e in EXPRESSIONS for s in found(parsed(e)).selectors if (s.name or "").startswith("rabbitmq")}

    assert used == set(BROKER)
    assert job["metrics_path"] == "/metrics/detailed"
    assert job["params"]["family"] == ["queue_coarse_metrics", "queue_consumer_count"]
