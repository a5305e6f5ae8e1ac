"""A job's record in words: its state, what it waits for and why.  Everything comes from recorded facts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.cli.moments import rough
from brokerjobs.cli.need_words import in_words
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Data = Mapping[str, Any]

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)")


class Times:
    """Shows times in UTC to the millisecond: the date only where it is not that of `first`; `now` is the ledger's."""

    def __init__(self, first: datetime, now: datetime) -> None:
        self._first = first.astimezone(UTC)
        self.now = now

    def show(self, time: str | datetime | None) -> str:
        """The time, "-" for none."""
        if time is None:
            return "-"
        moment = parsed(time).astimezone(UTC)
        shown = moment.strftime("%H:%M:%S.%f")[:-3]
        return shown if moment.date() == self._first.date() else f"{moment:%Y-%m-%d} {shown}"

    def whole(self, time: str | datetime) -> str:
        """The time with its date."""
        return f"{parsed(time).astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]

    def ahead(self, time: str) -> str:
        """The time and how far it is from now."""
        left = parsed(time) - self.now
        return f"{self.show(time)} ({f'in {rough(left)}' if left >= timedelta(0) else f'{rough(-left)} ago'})"

    def beside(self, observed: str | None, recorded: str | None) -> str:
        """A worker's own time, with its distance to the ledger's, if they differ by a millisecond or more; else ""."""
        if observed is None:
            return ""
        if recorded is None:
            return f"worker's clock {self.show(observed)}"
        off = parsed(observed) - parsed(recorded)
        if abs(off) < timedelta(milliseconds=1):
            return ""
        return f"worker's clock {self.show(observed)} ({'' if off < timedelta(0) else '+'}{rough(off)})"


def parsed(time: str | datetime) -> datetime:
    """The time that the ledger's text says."""
    return time if isinstance(time, datetime) else datetime.fromisoformat(time)


def state_of(job: Data, times: Times) -> str:
    """The job's state in one sentence."""
    attempts = {attempt["id"]: attempt for attempt in job["attempts"]}
    match job["state"]:
        case "succeeded":
            accepted = attempts.get(job["accepted_attempt"])
            by = f" with the result of attempt {accepted['number']}" if accepted else ""
            late = ", which came late" if accepted and accepted["late"] else ""
            if accepted is None or accepted["report"]["verdict"] == "rejected":
                by, late = _decided(job, by), ""
            return f"succeeded at {times.show(job['finished_at'])}{by}{late}"
        case "failed":
            failure = job["failure"]
            return f"failed at {times.show(job['finished_at'])} ({failure['class']}): {failure['reason']}"
        case "cancelled":
            return f"cancelled at {times.show(job['finished_at'])}"
        case "review":
            cause = next((one["cause"] for one in job["reviews"] if one["closed_at"] is None), "no cause recorded")
            late = "; a cancel is recorded, so a late success is not accepted" if job["cancel"] else ""
            return f"in review, its outcome is unknown{late} (brokerjobs review show {job['id']}): {cause}"
        case "running" if job["attempts"]:
            last = job["attempts"][-1]
            until = times.ahead(last["lease"]["last_until"])
            cancel = "; a cancel is requested, and its handler is told at the next renewal" if job["cancel"] else ""
            where = f"attempt {last['number']} on {last['worker']}, lease until {until}"
            return f"running: {where}{cancel}{_past_deadline(job)}"
        case "queued" if job["waiting"]:
            return f"queued, waits for {job['waiting']['for']}"
        case state:
            return str(state)


def _decided(job: Data, by: str) -> str:
    """Whose decision a success is: of a review, or to adopt what came too late."""
    for review in job["reviews"]:
        if review["id"] == job["accepted_review"]:
            result = "" if review["result_given"] else ", without a result"
            return f", as {review['closed_by']} decided{result}: reference {review['reference']}"
    whose = [one["detail"]["by"] for one in job["events"] if one["kind"] == "adopted"]
    return f"{by}, which {whose[-1] if whose else 'nobody'} adopted"


def waiting_of(job: Data, times: Times) -> str:
    """What a queued job waits for, and why."""
    waiting: Data = job["waiting"]
    until: str | None = waiting["until"]
    detail: Data = waiting["detail"] or {}
    when = f" until {times.ahead(until)}" if until else ""
    match waiting["for"]:
        case "delivery" if waiting.get("rung_at"):
            words = f"a delivery: rung at {times.show(waiting['rung_at'])}, not yet claimed by a worker"
        case "delivery":
            words = "a delivery: the broker has not yet confirmed its doorbell (a coordinator rings)"
        case "retry" if detail.get("last"):
            words = f"nothing more: its last attempt was lost, and without its result the job fails{when}"
        case "retry":
            words = f"a retry{when}{_after(detail)}"
        case "schedule" if detail:
            words = f"its time{when}{_after(detail)}"
        case "schedule":
            words = f"its time{when}, as it was submitted"
        case "placement":
            words = _placement(detail, when)
        case "pause":
            words = _paused(detail, times)
        case "resource" if detail.get("resources"):
            words = "; ".join(_resource(one, times) for one in detail["resources"]) + f"; it waits{when}"
        case other:
            words = " ".join([f"{other}{when}", *details(detail, times)])
    return words + _past_deadline(job)


def _past_deadline(job: Data) -> str:
    """A coordinator ends such a job within a second: that it still stands so says that none runs."""
    return "; past its deadline, not yet recorded" if job.get("past_deadline") else ""


def _placement(detail: Data, when: str) -> str:
    """Whom it waits for; what the living workers lack tells more than what the last one that was asked did."""
    worker = detail.get("worker")
    if "report" in detail:
        return f"a qualified worker{when}: {detail['report']['text']}"
    if "no_handler" in detail:
        asked = f"asked {counted(detail.get('refusals', 1), 'time', 'times')}"
        return f"a qualified worker{when}: {worker} has no handler for {detail['no_handler']} ({asked})"
    if "unmet" in detail:
        asked = f"asked {counted(detail.get('refusals', 1), 'time', 'times')}"
        return f"a worker that has {in_words(detail['unmet'])}{when}: {worker} has not ({asked})"
    if "refusals" in detail:
        return f"a worker whose model takes its payload{when}: that of {worker} does not, as an attempt has shown"
    return f"a qualified worker{when}{_after(detail)}"


def _resource(one: Data, times: Times) -> str:
    """Who holds a resource, and how many come before this job."""
    held = [f"job {by['job']} on {by['worker']}, lease until {times.ahead(by['until'])}" for by in one["held_by"]]
    who = f"held by {', '.join(held)}" if held else "free"
    before = f", {counted(one['ahead'], 'job', 'jobs')} before it" if one["ahead"] else ""
    return f"{one['name']}, {who}{before}"


def _paused(detail: Data, times: Times) -> str:
    since = f" at {times.show(detail['since'])}" if detail.get("since") else ""
    who = f"{detail.get('by', 'somebody')} paused it{since}: {detail.get('reason', 'no reason recorded')}"
    until = f", until {times.show(detail['until'])}" if detail.get("until") else ""
    what = f"its queue {detail['queue']}" if "queue" in detail else "its type"
    return f"{what} to be resumed{until}; {who}"


def _after(detail: Data) -> str:
    if not detail:
        return ""
    attempt = f"attempt {detail['attempt']}" if "attempt" in detail else "the last attempt"
    message = f": {detail['message']}" if detail.get("message") else ""
    return f", because {attempt} ended with {detail.get('after', 'no reason given')}{message}"


def terms_of(job: Data) -> str:
    """The terms that were frozen into the job."""
    terms, retry = job["terms"], job["terms"]["retry"]

    def span(seconds: float) -> str:
        return show_duration(timedelta(seconds=float(seconds)))

    return (
        f"{'repeatable' if terms['repeatable'] else 'not repeatable'}; lease {span(terms['lease_seconds'])}, "
        f"time limit {span(terms['time_limit_seconds'])}; up to {retry['attempts']} attempts within "
        f"{span(retry['elapsed_seconds'])}, {span(retry['first_delay_seconds'])} to {span(retry['max_delay_seconds'])} "
        f"apart, each {retry['factor']:g} times as far"
    )


def details(detail: Data | None, times: Times) -> Iterator[str]:
    """Each key of an event's detail with its value; times are shown as all others."""
    for key, value in (detail or {}).items():
        if isinstance(value, str):
            yield f"{key}={times.show(value) if _TIME.fullmatch(value) else value}"
        elif value is not None:
            yield f"{key}={json.dumps(value, ensure_ascii=False)}"
