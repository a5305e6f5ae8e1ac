"""A review as a page: what is known and what is not, what was noted, how to decide.  Times are the ledger's, in UTC."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.cli import job_page, job_words
from brokerjobs.cli.moments import rough
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    Data = Mapping[str, Any]

_ENDED: Final = {
    "lease_expired": "it was lost: its lease ran out",
    "attempt_failed": "its handler failed",
    "attempt_released": "it was given back before it had ended",
    "result_refused": "it brought a result, which was refused",
}
_SHOWN: Final = 200


def show(review: Data, record: Data, now: datetime, console: Console, *, whole: bool) -> None:
    """Print the review, and below it the record of its job; `whole` prints payload, results and tracebacks in full."""
    times = job_words.Times(job_words.parsed(review["opened_at"]), now)
    page = job_page.Page(console)
    page.verbatim(f"review {review['id']}", style="bold")
    for label, value in _facts(review, times):
        page.fact(label, value, style="yellow" if label == "not known" else "")
    if review["closed"] is None:
        page.heading("DECIDE")
        for line in _commands(review):
            page.verbatim(f"  {line}")
    page.heading("RECORD")
    job_page.show(record, now, console, whole=whole)


def _facts(review: Data, times: job_words.Times) -> Iterator[tuple[str, str]]:
    known: Data = review["known"] or {}
    yield "job", f"{review['job']} of {review['namespace']}/{review['type']}"
    yield "key", "no key" if review["key"] is None else review["key"]
    opened = job_words.parsed(review["opened_at"])
    until = times.now if review["closed"] is None else job_words.parsed(review["closed"]["at"])
    yield (
        "opened",
        f"{times.whole(opened)} UTC, {rough(until - opened)} {'ago' if review['closed'] is None else 'long'}",
    )
    yield "cause", review["cause"]
    if known:
        started = known.get("started_at")
        begun = f"start recorded at {times.show(started)}" if started else "no start is recorded"
        claimed = f"claimed at {times.show(known.get('claimed_at'))}"
        yield "known", f"attempt {known.get('attempt')} on {known.get('worker')}, {claimed}, {begun}; {_ended(known)}"
    if error := " ".join(filter(None, [known.get("error_type"), known.get("error")])):
        yield "error", error
    yield from _effects(review)
    if review["closed"] is None:
        yield "not known", f"whether what attempt {known.get('attempt', '?')} did outside has happened"
    yield from _noted(review, times)
    yield "version", review["version"]
    if review["closed"] is not None:
        yield "closed", closed_words(review["closed"])


def _ended(known: Data) -> str:
    words = _ENDED.get(known.get("ended", ""), str(known.get("ended")))
    why = known.get("result_refused") or known.get("why")
    return f"{words} ({why})" if why else words


def _effects(review: Data) -> Iterator[tuple[str, str]]:
    for effect in review["effects"] or ():
        granted = len(effect["intents"])
        known = "an outcome that was contradicted" if effect["contradicted_at"] else "no outcome"
        words = f"{effect['name']}: key {effect['key']}, granted {counted(granted, 'time', 'times')}, {known}"
        yield "effect", words + ("" if effect["repeatable"] else "; it may not be repeated")


def _noted(review: Data, times: job_words.Times) -> Iterator[tuple[str, str]]:
    if cancel := review["cancel"]:
        yield "cancel", f"asked for by {cancel['by']} at {times.show(cancel['at'])}: {cancel['reason']}"
    if review["deadline"]:
        yield "deadline", times.ahead(review["deadline"])
    if late := review["late_report"]:
        reason = f" ({late['reason']})" if late["reason"] else ""
        words = f"{times.show(late['received_at'])} {late['as']}: {late['verdict']}{reason}"
        result = "" if late["result"] is None else f"; its result: {_short(late['result'])}"
        yield "late report", words + result
    if review["retry_ends_as"] not in {None, "queued"}:
        yield "retry", f"would run nothing: it would end the job as {review['retry_ends_as']}"


def _commands(review: Data) -> Iterator[str]:
    start = f"brokerjobs review resolve {review['job']} --version {review['version']} --reason …"
    yield f"{start} --happened --reference … [--result JSON]"
    ends = review["retry_ends_as"]
    yield f"{start} --retry" + ("" if ends in {None, "queued"} else f"    # ends the job as {ends}")
    yield f"{start} --give-up"


def closed_words(closed: Data) -> str:
    """How a review ended, in a sentence."""
    if closed["decision"] is None:
        return f"{closed['by']} ended it as {closed['as']} at {closed['at']}"
    reference = f", reference {closed['reference']}" if closed["reference"] else ""
    decided = closed["decision"].replace("_", " ")
    return f"{closed['by']} decided {decided!r} at {closed['at']}{reference}: {closed['reason']}"


def line(review: Data) -> tuple[str, ...]:
    """All of it for a program: review, job, type, opened at, version, noted, cause."""
    return (
        review["id"],
        review["job"],
        f"{review['namespace']}/{review['type']}",
        review["opened_at"],
        review["version"],
        _notes(review),
        review["cause"],
    )


def short(review: Data) -> tuple[str, ...]:
    """For a terminal: an age instead of a time."""
    age = rough(datetime.now(UTC) - job_words.parsed(review["opened_at"]))
    return (review["job"], f"{review['namespace']}/{review['type']}", age, _notes(review), review["cause"])


def _notes(review: Data) -> str:
    notes = (
        ("cancel", review["cancel"]),
        ("deadline", review["past_deadline"]),
        ("late report", review["late_report"]),
    )
    return ", ".join(name for name, there in notes if there)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
