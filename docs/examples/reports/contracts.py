"""What the producer of reports and its workers share. It imports no handler."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, Field

from brokerjobs import App, Artifact

app = App("reports")


class Period(BaseModel):
    """Which report: so many days of a year."""

    year: int
    days: int = Field(ge=1, le=366)


class Report(BaseModel):
    """What the job answers: a few figures, and the file by what stands for it."""

    rows: int
    cents: int
    file: Artifact


make_report = app.job_type(
    "report.make",
    Period,
    Report,
    repeatable=True,  # what another attempt has staged is never seen, so making it again does no harm
    lease=timedelta(seconds=30),
    time_limit=timedelta(minutes=10),
)
