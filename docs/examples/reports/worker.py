"""The handler: it streams a CSV file into an artifact, line by line, and returns what stands for it.

    brokerjobs setup brokerjobs.examples.reports.worker:app
    brokerjobs worker brokerjobs.examples.reports.worker:app

Its settings come from the environment, those of the store among them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from brokerjobs.examples.reports.contracts import Period, Report, app, make_report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from brokerjobs import JobContext

__all__ = ["app"]

_SALES_A_DAY = 200


@make_report.handler
async def _(period: Period, ctx: JobContext) -> Report:
    totals = Totals()
    file = await ctx.artifacts.put(
        f"sales-{period.year}.csv",  # for people: it is never a path
        lines_of(period, totals),
        content_type="text/csv",
        keep_for=timedelta(days=14),  # if nobody acknowledges it
    )
    return Report(rows=totals.rows, cents=totals.cents, file=file)


@dataclass
class Totals:
    """What was written so far."""

    rows: int = 0
    cents: int = 0


async def lines_of(period: Period, totals: Totals) -> AsyncIterator[bytes]:
    """The report, a day at a time: the whole is never in memory. Yours would read a cursor of a database."""
    yield b"date,sale,cents\n"
    for day in range(period.days):
        sales = random.Random(f"{period.year}-{day}")
        when = date(period.year, 1, 1) + timedelta(days=day)
        cents = [sales.randrange(100, 10_000) for _ in range(_SALES_A_DAY)]
        totals.rows += len(cents)
        totals.cents += sum(cents)
        yield "".join(f"{when},{number},{price}\n" for number, price in enumerate(cents)).encode()
