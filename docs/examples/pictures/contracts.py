"""What producers and workers share: payloads, results and job types. It imports no handler."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from brokerjobs import App, RetryPolicy

app = App("brokerjobs-demo")

# Short, so that a lost worker is noticed while you watch; a lease for production is found by measuring its jobs.
_LEASE: Final = timedelta(seconds=2)
_TIME_LIMIT: Final = timedelta(seconds=60)
_RETRY: Final = RetryPolicy(attempts=5, elapsed=timedelta(minutes=10), first_delay=timedelta(milliseconds=200))


class NotAPicture(Exception):
    """The file cannot be read as a picture; trying again would see the same file."""


class Picture(BaseModel):
    """One picture, and where its thumbnail goes."""

    source: Path
    target: Path


class Thumbnail(BaseModel):
    """A thumbnail that was made; sizes in pixels and bytes."""

    file: Path
    width: int
    height: int
    size: int


class Sales(BaseModel):
    """A CSV file of sales, and where its report goes."""

    source: Path
    target: Path


class Report(BaseModel):
    """What a report says in short; money in cents."""

    file: Path
    rows: int
    revenue: int
    best_region: str
    best_month: str


make_thumbnail = app.job_type(
    "picture.thumbnail",
    Picture,
    Thumbnail,
    repeatable=True,  # the same thumbnail again does no harm, and its row in the database is fenced
    lease=_LEASE,
    time_limit=_TIME_LIMIT,
    retry=_RETRY,
    failures={NotAPicture: "invalid"},
)

rebuild_report = app.job_type(
    "sales.report", Sales, Report, repeatable=True, lease=_LEASE, time_limit=_TIME_LIMIT, retry=_RETRY
)
