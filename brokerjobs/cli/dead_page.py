"""Failed jobs in words: a group with its jobs, one job with its record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from brokerjobs.cli import job_page, job_words
from brokerjobs.cli.moments import rfc3339, rough

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from rich.console import Console

    from brokerjobs.ledger.decisions import DeadJob, DeadPlace, Group


def show_group(group: Group, jobs: Sequence[DeadJob], console: Console) -> None:
    """Print a group, some of its jobs with what each said, and what can be done."""
    page = job_page.Page(console)
    page.verbatim(f"group {group.group_id}", style="bold")
    page.fact("type", f"{group.namespace}/{group.type}")
    page.fact("class", group.failure_class, style="red")
    page.fact("error", _error(group))
    page.fact("jobs", group.jobs)
    page.fact("first", f"{group.first_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    page.fact("last", f"{group.last_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    page.heading("JOBS" if len(jobs) == group.jobs else f"JOBS  the first {len(jobs)}")
    for one in jobs:
        said = f"{one.failed_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}  attempt {one.attempts}: {one.message or ''}"
        page.fact(f"{one.job_id}  ", said)
    page.heading("NEXT")
    page.verbatim(f"  brokerjobs dead show {group.example}")
    page.verbatim(f"  brokerjobs dead replay --group {group.group_id} --reason …")
    page.verbatim(f"  brokerjobs dead discard --group {group.group_id} --reason …")


def show_job(place: DeadPlace, record: Mapping[str, Any], now: datetime, console: Console, *, whole: bool) -> None:
    """Print where a failed job stands, and its record."""
    page = job_page.Page(console)
    times = job_words.Times(place.failed_at, now)
    page.fact("group", f"{place.group_id}, of {place.jobs} jobs")
    page.fact("failed", f"{times.whole(place.failed_at)} UTC")
    if place.discarded_at is not None:
        page.fact("discarded", f"{times.show(place.discarded_at)} by {place.discarded_by}: {place.discarded_why}")
    page.heading("RECORD")
    job_page.show(record, now, console, whole=whole)


def job_json(job: DeadJob) -> dict[str, Any]:
    """A job of a group as JSON."""
    return {
        "id": str(job.job_id),
        "failed_at": rfc3339(job.failed_at),
        "attempts": job.attempts,
        "message": job.message,
    }


def place_json(job_id: UUID, place: DeadPlace) -> dict[str, Any]:
    """Where a failed job stands, as JSON."""
    discarded = {
        "at": rfc3339(place.discarded_at),
        "by": place.discarded_by,
        "reason": place.discarded_why,
    }
    return {
        "schema": "brokerjobs.dead/1",
        "group": place.group_id,
        "jobs": place.jobs,
        "id": str(job_id),
        "failed_at": rfc3339(place.failed_at),
        "discarded": None if place.discarded_at is None else discarded,
    }


def line(group: Group) -> tuple[str, ...]:
    """All of it for a program: group, jobs, last and first failure, type, class, error type, message, example."""
    return (
        group.group_id,
        str(group.jobs),
        rfc3339(group.last_at) or "",
        rfc3339(group.first_at) or "",
        f"{group.namespace}/{group.type}",
        group.failure_class,
        group.error_type or "",
        group.message,
        str(group.example),
    )


def short(group: Group) -> tuple[str, ...]:
    """For a terminal: ages instead of times."""
    now = datetime.now(UTC)
    return (
        group.group_id,
        str(group.jobs),
        rough(now - group.last_at),
        rough(now - group.first_at),
        f"{group.namespace}/{group.type}",
        group.failure_class,
        _error(group),
    )


def _error(group: Group) -> str:
    return ": ".join(filter(None, (group.error_type, group.message)))
