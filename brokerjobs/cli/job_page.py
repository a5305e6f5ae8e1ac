"""The record of a job as a page: header, timeline, attempts, events.  Times are the ledger's, in UTC."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from brokerjobs.cli import artifact_page, bars, effects, job_words, need_words
from brokerjobs.cli.moments import rough
from brokerjobs.cli.output import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rich.console import Console

    Data = Mapping[str, Any]

_LABEL: Final = 12
_STATE: Final = len("succeeded")
_RESULT_SHOWN: Final = 200
_NAME_SHOWN: Final = 24
_STYLES: Final = {
    "succeeded": "green",
    "completed": "green",
    "accepted": "green",
    "running": "cyan",
    "active": "cyan",
    "claimed": "cyan",
    "failed": "red",
    "timed_out": "red",
    "rejected_stale": "red",
    "rejected": "red",
    "review": "yellow",
    "queued": "yellow",
}


class Page:
    """Lines that fit the console's width; every text of a record goes through `escaped` here."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.width = max(console.width, 40)

    def heading(self, text: str) -> None:
        """A heading, with an empty line before it."""
        self._console.print()
        self._print(Text(escaped(text), style="bold"))

    def fact(self, label: str, value: object, style: str = "", indent: int = 0) -> None:
        """A label and its value; the value is wrapped beside the label."""
        before = " " * indent + f"{label} ".ljust(_LABEL)
        self.hanging(before, Text(escaped(value), style=style))

    def hanging(self, before: str, value: Text) -> None:
        """A value that is wrapped to the right of what stands before it."""
        room = max(self.width - len(before), 20)
        lines = value.wrap(self._console, room, overflow="fold") or [Text("")]
        for place, line in enumerate(lines):
            line.rstrip()
            self._print(Text(before if place == 0 else " " * len(before)).append_text(line))

    def phrases(self, before: str, phrases: Sequence[str]) -> None:
        """Short phrases beside each other, none of them broken."""
        line = before
        for phrase in phrases:
            if line != before and len(line) + len(phrase) > self.width:
                self.verbatim(line, style="dim")
                line = before
            line += f"{phrase}   "
        self.verbatim(line, style="dim")

    def verbatim(self, text: str, style: str = "") -> None:
        """A line that fits already."""
        self._print(Text(escaped(text), style=style))

    def _print(self, line: Text) -> None:
        line.rstrip()
        self._console.print(line, soft_wrap=True)


def show(record: Data, now: datetime, console: Console, *, whole: bool) -> None:
    """Print the page; `whole` prints payload, result and tracebacks in full."""
    times = job_words.Times(job_words.parsed(record["submitted_at"]), now)
    page = Page(console)
    _header(page, record, times, whole=whole)
    if record["attempts"]:
        _timeline(page, record["attempts"], times, _glyphs(console))
        for attempt in record["attempts"]:
            _attempt(page, attempt, times, whole=whole)
    effects.show(page, record, times, whole=whole)
    artifact_page.show_all(page, record, times, whole=whole)
    _reviews(page, record["reviews"], times)
    _late_reports(page, record, times)
    _events(page, record, times)


def show_timeline(record: Data, now: datetime, console: Console) -> None:
    """Print the bars of a record's attempts alone; nothing for a job that nobody has claimed."""
    if record["attempts"]:
        times = job_words.Times(job_words.parsed(record["submitted_at"]), now)
        _timeline(Page(console), record["attempts"], times, _glyphs(console))


def _header(page: Page, job: Data, times: job_words.Times, *, whole: bool) -> None:
    page.verbatim(f"job {job['id']}", style="bold")
    page.fact("type", f"{job['namespace']}/{job['type']}")
    page.fact("state", job_words.state_of(job, times), style=_STYLES.get(job["state"], ""))
    if job["waiting"]:
        page.fact("waits for", job_words.waiting_of(job, times))
    if cancel := job["cancel"]:
        page.fact("cancel", f"asked for by {cancel['by']} at {times.show(cancel['at'])}: {cancel['reason']}")
    login = "" if job["login"] == job["submitted_by"] else f" (login {job['login']})"
    observed = times.beside(job["observed_submitted_at"], job["submitted_at"]).replace("worker's", "producer's")
    submitted = f"{times.whole(job['submitted_at'])} UTC by {job['submitted_by']}{login}"
    page.fact("submitted", f"{submitted}{', ' + observed if observed else ''}")
    page.fact("key", "no key" if job["key"] is None else job["key"])
    if job["tags"]:
        page.fact("tags", " ".join(f"{key}={value}" for key, value in job["tags"].items()))
    if job["not_before"]:
        page.fact("not before", times.whole(job["not_before"]))
    page.fact("deadline", times.ahead(job["deadline"]) if job["deadline"] else "none")
    page.fact("terms", job_words.terms_of(job))
    if words := need_words.needs_of(job):
        page.fact("needs", words)
    if words := need_words.resources_of(job):
        page.fact("resources", words)
    if job.get("priority", "normal") != "normal":
        page.fact("priority", job["priority"])
    charged = f"{job['charged'] - job['forgiven']} of {job['granted']} attempts, {job['uncharged']} given back"
    page.fact("charged", charged + (f"; {job['forgiven']} before the last replay" if job["forgiven"] else ""))
    page.fact("route", job["route"])
    if job["traceparent"]:
        page.fact("trace", job["traceparent"])
    checked = "checked by its model" if job["payload_checked"] else "checked by no model"
    page.fact("payload", _json(job["payload"]) if whole else f"sha256 {job['payload_sha256']}, {checked}")
    if job["state"] == "succeeded":
        page.fact("result", _json(job["result"]) if whole else _short(job["result"]))


def _timeline(page: Page, attempts: list[Data], times: job_words.Times, glyphs: bars.Glyphs) -> None:
    page.heading("TIMELINE  the ledger's time, UTC")
    names = [f"#{one['number']} {escaped(one['worker'])}"[:_NAME_SHOWN] for one in attempts]
    margin = max(map(len, names)) + 1
    axis = bars.axis_of(attempts, times.now, max(page.width - margin, 10))
    left, right = times.show(axis.start), times.show(axis.end)
    middle = rough(axis.end - axis.start)
    gap = axis.columns - len(left) - len(right)
    page.verbatim(" " * margin + left + (middle.center(gap) if gap > len(middle) else "  ") + right, style="dim")
    drawn = ""
    for name, attempt in zip(names, attempts, strict=True):
        line = bars.bar(attempt, axis, times.now, glyphs)
        drawn += line
        page.verbatim(name.ljust(margin) + line, style=_STYLES.get(attempt["state"], ""))
    page.phrases(" " * margin, glyphs.legend(drawn))


def _attempt(page: Page, attempt: Data, times: job_words.Times, *, whole: bool) -> None:
    state = attempt["state"] + (" (late)" if attempt["late"] and attempt["state"] == "completed" else "")
    page.heading(f"ATTEMPT {attempt['number']}  {state}  fencing number {attempt['fencing_number']}")
    for label, value in _facts(attempt, times):
        page.fact(label, value, indent=2, style=_STYLES.get(attempt["state"], "") if label == "reported" else "")
    failure = attempt["failure"]
    if failure:
        words = f"{failure.get('class') or failure.get('why') or ''} {failure.get('type') or ''}".strip()
        page.fact("failure", f"{words}: {failure['message']}" if failure.get("message") else words, indent=2)
        if whole and failure.get("traceback"):
            for place, line in enumerate(str(failure["traceback"]).rstrip().split("\n")):
                page.fact("" if place else "traceback", line, indent=2)
    if safe := attempt.get("safe_to_retry"):
        page.fact("retry", f"{'safe' if safe['safe'] else 'not safe'}: {safe['why']}", indent=2)
    if attempt["result"] is not None and attempt["state"] != "completed":
        page.fact("its result", _json(attempt["result"]) if whole else _short(attempt["result"]), indent=2)


def _facts(attempt: Data, times: job_words.Times) -> Iterator[tuple[str, str]]:
    lease, closed, report, delivery = attempt["lease"], attempt["closed"], attempt["report"], attempt["delivery"]
    yield "worker", attempt["worker"]
    yield "id", attempt["id"]
    if delivery["ticket"]:
        again = ", redelivered" if delivery["redelivered"] else ""
        yield "delivery", f"ticket {delivery['ticket']}{again}; {times.beside(delivery['observed_at'], None)}"
    yield "claimed", times.show(attempt["claimed_at"]) + ("" if attempt["charged"] else ", not charged")
    if attempt["observed_started_at"]:
        # The ledger hears of most starts with a later call: the difference is no skew of the clocks.
        recorded = f"; recorded at {times.show(attempt['started_at'])}" if attempt["started_at"] else ""
        yield "started", times.beside(attempt["observed_started_at"], None) + recorded
    elif attempt["started_at"]:
        yield "started", f"recorded at {times.show(attempt['started_at'])}"
    if words := need_words.capabilities_of(attempt):
        yield "worker had", words
    yield "lease", _lease(lease, times)
    if closed:
        by = f" by {closed['by']}" if closed["by"] else ""
        why = f": {closed['why']}" if closed["why"] else ""
        yield "closed", f"{times.show(closed['at'])} as {closed['as']}{by}{why}"
    if report:
        late = "late, " if attempt["late"] else ""
        reason = f" ({report['reason']})" if report["reason"] else ""
        words = f"{times.show(report['received_at'])} {report['as']}: {late}{report['verdict']}{reason}"
        retry = f"; the job was then {report['job_state']}" if report["job_state"] else ""
        retry += f" until {times.show(report['retry_at'])}" if report["retry_at"] else ""
        yield "reported", _both(words + retry, times, report["observed_at"], report["received_at"])
    else:
        yield "reported", "nothing yet" if closed is None else "nothing"
    sent = attempt["ack_sent_at"]
    yield "ack", f"sent {times.show(sent)} by the worker's clock" if sent else "not known to be sent"


def _both(words: str, times: job_words.Times, observed: str | None, recorded: str) -> str:
    beside = times.beside(observed, recorded)
    return f"{words}; {beside}" if beside else words


def _lease(lease: Data, times: job_words.Times) -> str:
    words = f"until {times.show(lease['first_until'])}"
    if lease["last_until"] != lease["first_until"]:
        words += f", last until {times.show(lease['last_until'])}"
    words += "; renewals not reported" if lease["renewals"] is None else f"; {lease['renewals']} renewals"
    if lease["smallest_margin_seconds"] is not None:
        words += f", smallest margin {float(lease['smallest_margin_seconds']):.3g}s"
    if lease["longest_round_trip_seconds"] is not None:
        words += f", longest round trip {float(lease['longest_round_trip_seconds']) * 1000:.3g}ms"
    return words


def _reviews(page: Page, reviews: Iterable[Data], times: job_words.Times) -> None:
    for review in reviews:
        page.heading(f"REVIEW  {review['id']}")
        page.fact("opened", f"{times.show(review['opened_at'])}: {review['cause']}", indent=2)
        closed = review["closed_at"]
        words = f"{times.show(closed)} as {review['closed_as']} by {review['closed_by']}" if closed else "not yet"
        page.fact("closed", words, indent=2)
        if review["decision"]:
            unchecked = ", its result checked by no model" if review["result_checked"] is False else ""
            decided = f"{review['decision'].replace('_', ' ')}{unchecked}: {review['reason']}"
            page.fact("decision", decided, indent=2)
            page.fact("login", review["login"], indent=2)
            if review["reference"]:
                page.fact("reference", review["reference"], indent=2)


def _late_reports(page: Page, job: Data, times: job_words.Times) -> None:
    reports = job["late_reports"]
    if reports:
        page.heading("OTHER REPORTS  kept as evidence, without effect")
    for one in reports:
        words = f"{one['as']} by attempt {one['attempt']} (fencing number {one['fencing_number']}): {one['reason']}"
        page.hanging(f"  {times.show(one['received_at'])}  ", Text(escaped(words)))


def _events(page: Page, job: Data, times: job_words.Times) -> None:
    page.heading("EVENTS")
    numbers = {attempt["id"]: f"#{attempt['number']}" for attempt in job["attempts"]}
    events = job["events"]
    kinds = max((len(escaped(one["kind"])) for one in events), default=0)
    width = max((len(times.show(one["at"])) for one in events), default=0)
    for one in events:
        number = numbers.get(one["attempt"], "") if one["attempt"] else ""
        before = f"  {times.show(one['at']).rjust(width)}  {number:<3} {escaped(one['kind']).ljust(kinds)}  "
        before += escaped(one["state"] or "").ljust(_STATE) + "  "
        page.hanging(before, Text("  ".join(map(escaped, job_words.details(one["detail"], times)))))


def _glyphs(console: Console) -> bars.Glyphs:
    return bars.LINES if console.encoding.lower().startswith("utf") else bars.PLAIN


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(value: Any) -> str:
    text = _json(value)
    return (
        text if len(text) <= _RESULT_SHOWN else f"{text[:_RESULT_SHOWN]}… ({len(text)} characters; --whole shows all)"
    )
