"""PromQL made from the catalogue: a metric, how it is read, and what it is told apart by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerjobs.telemetry.catalogue import Instrument, Metric, Source
from config.grafana.panels import Panel, Query, described, unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW: Final = "$__rate_interval"
"""Four scrapes at least, whatever the zoom: a shorter window sees too few of them."""


def label(attribute: str) -> str:
    """An attribute's name in Prometheus."""
    return attribute.replace(".", "_")


def per_second(metric: Metric, by: str, where: Mapping[str, str] | None = None, **style: bool) -> Panel:
    """How often a second, told apart by one attribute."""
    return Panel(
        metric.description.rstrip("."),
        (Query(rate(metric, by, where), f"{{{{{label(by)}}}}}"),),
        unit_of(metric, rate=True),
        described(metric),
        stacked=style.get("stacked", True),
    )


def quantiles(
    metric: Metric, title: str, where: Mapping[str, str] | None = None, *, of: tuple[float, ...] = (0.5, 0.95, 0.99)
) -> Panel:
    """Quantiles of a histogram; those of its series that have one come with exemplars, which lead to traces."""
    asked = tuple(
        Query(f"histogram_quantile({q}, sum by (le) ({_rate(metric, where)}))", f"p{q * 100:g}", exemplars=True)
        for q in of
    )
    return Panel(title, asked, unit_of(metric), described(metric))


def highest(metric: Metric, title: str, by: tuple[str, ...] = (), where: Mapping[str, str] | None = None) -> Panel:
    """A gauge, the largest of those who tell it: the monitor's have one teller, or two while it changes."""
    legend = " ".join(f"{{{{{label(one)}}}}}" for one in by) or title
    return Panel(title, (Query(maximum(metric, by, where), legend),), unit_of(metric), described(metric))


def rate(metric: Metric, by: str, where: Mapping[str, str] | None = None) -> str:
    """The expression of `per_second`."""
    return f"sum by ({label(by)}) ({_rate(metric, where)})"


def maximum(metric: Metric, by: tuple[str, ...] = (), where: Mapping[str, str] | None = None) -> str:
    """The expression of `highest`."""
    grouped = f" by ({', '.join(map(label, by))}) " if by else ""
    return f"max{grouped}({_selector(metric, where)})"


def counted(metric: Metric, title: str, by: tuple[str, ...], where: Mapping[str, str] | None = None) -> Panel:
    """A gauge of the monitor, added up over those of its attributes that are not in `by`."""
    expr = f"sum by ({', '.join(map(label, by))}) ({maximum(metric, metric.attributes, where)})"
    legend = " ".join(f"{{{{{label(one)}}}}}" for one in by)
    return Panel(title, (Query(expr, legend),), unit_of(metric), described(metric), stacked=True)


def total(metric: Metric, by: tuple[str, ...], where: Mapping[str, str] | None = None) -> str:
    """A gauge over the processes that each tell of themselves; refused for the monitor's, which must not be summed."""
    if metric.source is Source.MONITOR:
        message = f"{metric.name}: two processes may tell it at once; take the maximum"
        raise ValueError(message)
    return f"sum by ({', '.join(map(label, by))}) ({_selector(metric, where)})"


def _rate(metric: Metric, where: Mapping[str, str] | None) -> str:
    return f"rate({_selector(metric, where)}[{WINDOW}])"


def _selector(metric: Metric, where: Mapping[str, str] | None) -> str:
    ending = "_bucket" if metric.instrument is Instrument.HISTOGRAM else ""
    has = ", ".join(f'{label(name)}=~"{value}"' for name, value in (where or {}).items())
    return metric.prometheus + ending + (f"{{{has}}}" if has else "")
