"""The parts of Grafana dashboards as JSON values: what every panel, variable and dashboard has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from brokerjobs.telemetry.catalogue import Instrument, Metric

SCHEMA_VERSION: Final = 39  # of Grafana 11
WIDTH: Final = 24
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

# Units of the catalogue as Grafana names them; whatever is counted is a plain number.
_UNITS: Final = {"s": "s"}
_PLAIN: Final = "short"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of a panel, and what its series are called."""

    expr: str
    legend: str
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: a question, what is shown (from the catalogue), and the queries that answer it."""

    title: str
    queries: tuple[Query, ...]
    unit: str
    description: str
    kind: str = "timeseries"
    width: int = 8
    thresholds: tuple[tuple[str, float], ...] = ()
    stacked: bool = False
    least: float | None = 0


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]
    height: int = 8


@dataclass(frozen=True, slots=True)
class Variable:
    """What can be chosen on top of a dashboard: the values of a label of a series; none chosen is all of them."""

    name: str
    title: str
    series: str
    label: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard, and the file that it is written to."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = field(default=())


def unit_of(metric: Metric, *, rate: bool = False) -> str:
    """Grafana's unit of a metric, or of its increase a second."""
    if rate and metric.instrument is not Instrument.HISTOGRAM:
        return "cps"
    return _UNITS.get(metric.unit, _PLAIN)


def described(*metrics: Metric) -> str:
    """What the catalogue says of these, for the panel that shows them."""
    return "\n\n".join(f"{metric.description} `{metric.name}`, from {metric.source}." for metric in metrics)


def dashboard_json(dashboard: Dashboard) -> dict[str, Any]:
    """The whole dashboard as Grafana reads it; the same for the same catalogue, always."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in dashboard.rows:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
                "panels": [],
            }
        )
        y += 1
        x = 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + row.height
            place = {"h": row.height, "w": panel.width, "x": x, "y": y}
            panels.append(_panel(panel, len(panels) + 1, place))
            x += panel.width
        y += row.height
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["brokerjobs"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "links": [
            {"type": "dashboards", "tags": ["brokerjobs"], "title": "brokerjobs", "asDropdown": True, "keepTime": True}
        ],
        "templating": {"list": [_source_variable(), *map(_variable, dashboard.variables)]},
        "annotations": {"list": []},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps = [{"color": "green", "value": None}, *({"color": c, "value": at} for c, at in panel.thresholds)]
    custom: dict[str, Any] = {"fillOpacity": 10, "showPoints": "never"}
    if panel.stacked:
        custom |= {"fillOpacity": 40, "stacking": {"mode": "normal", "group": "A"}}
    if panel.thresholds:
        custom |= {"thresholdsStyle": {"mode": "line"}}
    shows = {
        "timeseries": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "stat": {
            "colorMode": "value",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                **({} if panel.least is None else {"min": panel.least}),
                "thresholds": {"mode": "absolute", "steps": steps},
                **({"custom": custom} if panel.kind == "timeseries" else {}),
            },
            "overrides": [],
        },
        "options": shows[panel.kind],
        "targets": [_target(query, letter) for query, letter in zip(panel.queries, "ABCDEFGH", strict=False)],
    }


def _target(query: Query, letter: str) -> dict[str, Any]:
    return {
        "refId": letter,
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend,
        **({"exemplar": True} if query.exemplars else {}),
    }


def _source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
    }


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.series}, {variable.label})"
    return {
        "name": variable.name,
        "label": variable.title,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "hide": 0,
    }
