"""The effects of a job on its page: what was granted to which attempt, and what became of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from brokerjobs.cli.job_page import Page
    from brokerjobs.cli.job_words import Times

    Data = Mapping[str, Any]

_SHOWN = 200


def show(page: Page, job: Data, times: Times, *, whole: bool) -> None:
    """Prints one block for each try of an effect."""
    numbers = {attempt["id"]: f"#{attempt['number']}" for attempt in job["attempts"]}
    for effect in job.get("effects", ()):
        again = "repeatable" if effect["repeatable"] else "not repeatable"
        page.heading(f"EFFECT  {effect['name']}  try {effect['try']}, {again}")
        for label, value in _facts(effect, times, numbers, whole=whole):
            unknown = label == "outcome" and (effect["unknown"] or effect["outcome"] is None)
            page.fact(label, value, indent=2, style="yellow" if unknown else "")


def _facts(effect: Data, times: Times, numbers: Mapping[str, str], *, whole: bool) -> Iterator[tuple[str, str]]:
    yield "key", effect["key"] + (f", known until {times.show(effect['valid_until'])}" if effect["valid_until"] else "")
    for intent in effect["intents"]:
        limit = float(intent["time_limit_seconds"])
        words = f"{times.show(intent['at'])} by attempt {numbers.get(intent['attempt'], intent['attempt'])}"
        observed = times.beside(intent["observed_at"], intent["at"])
        yield "intent", f"{words}, its call within {limit:g}s{'; ' + observed if observed else ''}"
    outcome = effect["outcome"]
    if outcome is None:
        yield "outcome", "unknown: it may have happened" if effect["unknown"] else "unknown; it may be tried again"
    else:
        late = ", late" if outcome["late"] else ""
        number = numbers.get(outcome["attempt"], outcome["attempt"])
        who = f"attempt {number}" if outcome["by"] == "attempt" else f"a {outcome['by']}"
        did = outcome["as"].replace("_", " ")
        yield "outcome", f"{did}: said by {who} at {times.show(outcome['at'])}{late}"
        if outcome["reference"]:
            yield "reference", outcome["reference"]
        if outcome["result"] is not None:
            text = json.dumps(outcome["result"], ensure_ascii=False)
            short = whole or len(text) <= _SHOWN
            yield "result", text if short else f"{text[:_SHOWN]}… ({len(text)} characters; --whole shows all)"
    if effect["contradicted_at"]:
        settled = f", settled at {times.show(effect['settled_at'])}" if effect["settled_at"] else ", not settled"
        yield "contradicted", f"{times.show(effect['contradicted_at'])}{settled}: see OTHER REPORTS"
