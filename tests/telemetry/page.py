"""The tables of the reference page, made from the names: `python -m tests.telemetry.page` puts them in anew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs.telemetry import catalogue, logs, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "telemetry.md"

_MADE: Final = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> Mapping[str, str]:
    """All tables, by the name with which the page asks for them."""
    return {
        "spans": table(
            ("name", "kind", "made by", "one is"),
            [(f"`{s.operation} {s.target}`", s.kind, s.made_by, s.meaning) for s in names.SPANS],
        ),
        "outcomes": table(
            ("outcome", "meaning", "status"),
            [(f"`{o}`", names.MEANINGS[o], "ERROR" if o in names.ERRORS else "") for o in names.Outcome],
        ),
        "attributes": table(
            ("attribute", "type", "meaning"), [(f"`{a.name}`", a.kind, a.meaning) for a in names.ATTRIBUTES]
        ),
        "metrics": table(
            ("metric", "instrument", "unit", "in Prometheus", "attributes", "from", "meaning"), _metrics()
        ),
        "buckets": table(("of", "upper bounds, in seconds"), _buckets()),
        "events": table(("event", "when"), [(f"`{event}`", meaning) for event, meaning in names.LOCAL.items()]),
        "fields": table(("field", "meaning"), [(f"`{field}`", meaning) for field, meaning in logs.FIELDS.items()]),
    }


def filled(text: str) -> str:
    """The page with its tables as they have to be; raises KeyError for one that is not known."""
    made = tables()
    return _MADE.sub(lambda found: found[1] + made[found[2]] + found[3], text)


def asked_for(text: str) -> list[str]:
    """The names of the tables that the page has."""
    return [name for _, name, _ in _MADE.findall(text)]


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _metrics() -> Iterable[Sequence[str]]:
    for metric in names.METRICS:
        yield (
            f"`{metric.name}`",
            metric.instrument.value,
            metric.unit,
            f"`{metric.prometheus}`",
            ", ".join(f"`{name}`" for name in metric.attributes),
            metric.source.value,
            metric.description,
        )


def _buckets() -> Iterable[Sequence[str]]:
    kinds = (
        ("calls to servers", catalogue.OPERATION_BUCKETS),
        ("waiting and running", catalogue.DURATION_BUCKETS),
        ("what was left of a lease", catalogue.MARGIN_BUCKETS),
    )
    for of, bounds in kinds:
        yield of, " ".join(f"{bound:g}" for bound in bounds)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
