"""Sums up a CSV file of sales; knows nothing of jobs."""

from __future__ import annotations

import csv
import os
from collections import Counter
from typing import TYPE_CHECKING

from brokerjobs.examples.pictures.contracts import Report

if TYPE_CHECKING:
    from pathlib import Path


def summarize(source: Path, target: Path) -> Report:
    """Writes revenue by month and region to the CSV file `target`.

    `source` has the columns date (ISO 8601), region, product, quantity and unit_cents; raises KeyError or ValueError
    for anything else, OSError if a file cannot be used.
    """
    revenue: Counter[tuple[str, str]] = Counter()
    rows = 0
    with source.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            revenue[row["date"][:7], row["region"]] += int(row["quantity"]) * int(row["unit_cents"])
            rows += 1
    months, regions = Counter[str](), Counter[str]()
    for (month, region), cents in revenue.items():
        months[month] += cents
        regions[region] += cents
    _write(revenue, target)
    return Report(
        file=target,
        rows=rows,
        revenue=revenue.total(),
        best_region=_largest(regions),
        best_month=_largest(months),
    )


def _largest(sums: Counter[str]) -> str:
    return max(sorted(sums), key=sums.__getitem__, default="")


def _write(revenue: Counter[tuple[str, str]], target: Path) -> None:
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    with unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("month", "region", "revenue_cents"))
        writer.writerows((month, region, cents) for (month, region), cents in sorted(revenue.items()))
    unfinished.replace(target)
