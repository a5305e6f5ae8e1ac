"""`brokerjobs jobs explain`: why a job waits, asked of the ledger now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from brokerjobs.cli import decision, moments, options, output
from brokerjobs.errors import JobNotFound
from brokerjobs.rules import needs
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.explanation import explain as explained
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from brokerjobs.rules.explanation import Report

    Data = Mapping[str, Any]


def explain(
    job_id: options.JobId,
    *,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Say why a job waits: what it needs that no living worker has, who holds its resources, who paused what."""
    from brokerjobs.ledger import queues  # noqa: PLC0415  # slow: the driver

    wanted = options.job_id_of(job_id)
    ledger = decision.ledger_of(database_url, "brokerjobs jobs")
    try:
        [row] = ledger.fetch(queues.explain(wanted))
    finally:
        ledger.close()
    if row.found is None:
        raise JobNotFound(job_id=wanted)
    report = _report(row.found)
    if output_format is output.Format.JSON:
        facts = {key: value for key, value in row.found.items() if key != "workers"}
        output.put_json({"schema": "brokerjobs.explanation/1", **facts, "report": report.as_data()})
        return
    for line in _lines(row.found, report):
        output.put(line)


def _report(job: Data) -> Report:
    """What the living workers lack for this very job: also what its submission added counts."""
    from brokerjobs.coordinator.explainer import Workers  # noqa: PLC0415  # slow: the driver

    wanted = [*job["needs"], *job["added_needs"]]
    seen = Workers(job["workers"]).seen_by(job, busy=True)
    return explained(needs.from_data(wanted), seen, job_type=f"{job['namespace']}/{job['type']}")


def _lines(job: Data, report: Report) -> Iterator[str]:
    waiting: Data | None = job["waiting"]
    yield f"job {job['id']} of {job['namespace']}/{job['type']} is {job['state']}" + (
        "" if waiting is None else f", waits for {waiting['for']}{_until(waiting)}"
    )
    if waiting is None:
        return
    for pause in job["pauses"] or ():
        what = f"its queue {pause['queue']}" if "queue" in pause else "its type"
        until = f", until {pause['until']}" if "until" in pause else ""
        yield f"{what} is paused by {pause['by']} since {pause['since']}{until}: {pause['reason']}"
    wanted = [*needs.from_data(job["needs"]), *needs.from_data(job["added_needs"])]
    yield f"it needs {', '.join(map(str, wanted)) or 'nothing of its worker'}"
    yield f"workers: {report.text}"
    if report.nearest is not None:
        name, unmet = report.nearest
        yield f"nearest: {name}, {', '.join(unmet)}"
    for resource in job["resources"]:
        yield from _resource(resource)
    if not job["declared"]:
        yield f"its route {job['route']} is not declared at the broker yet: a coordinator does that"
    since = job["unplaced_since"] or _unplaceable_since(job)
    if since is not None:
        deadline = timedelta(seconds=float(job["placement_deadline_seconds"]))
        at = moments.rfc3339(datetime.fromisoformat(since) + deadline)
        yield f"it waits like this since {since}; after {show_duration(deadline)}, at {at}, it fails as unplaceable"


def _unplaceable_since(job: Data) -> str | None:
    """Since when nobody could take it while its doorbell lay at the broker; from its last ring on at the earliest."""
    waiting: Data = job["waiting"]
    if waiting["for"] != "placement" or "since" not in (waiting["detail"] or {}):
        return None
    times: tuple[str, str] = waiting["detail"]["since"], job["rung_at"] or job["submitted_at"]
    return max(times, key=datetime.fromisoformat)


def _until(waiting: Data) -> str:
    return f" until {waiting['until']}" if waiting["until"] else ""


def _resource(resource: Data) -> Iterator[str]:
    held = resource["held_by"]
    places = "" if resource["limit"] == 1 else f" ({len(held)} of {resource['limit']} places taken)"
    if not held:
        yield f"{resource['name']} is free{places}"
    for one in held:
        until = f", its lease until {one['until']}" if one["until"] else ""
        yield f"{resource['name']}{places} is held by job {one['job']} on {one['worker']} since {one['since']}{until}"
    if resource["ahead"]:
        yield f"{counted(resource['ahead'], 'job waits', 'jobs wait')} for {resource['name']} before it"
