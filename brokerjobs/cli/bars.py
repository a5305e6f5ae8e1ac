"""The attempts of a job as bars on one time axis: who held the lease when, and what came after it was lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from brokerjobs.cli.job_words import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One column each."""

    held: str
    ahead: str
    silent: str
    accepted: str
    ended: str
    given_back: str
    rejected: str
    noted: str

    def legend(self, drawn: str) -> list[str]:
        """What each of the glyphs means that were drawn."""
        words = {
            self.held: "lease held",
            self.ahead: "lease still ahead",
            self.silent: "no lease any more",
            self.accepted: "result accepted",
            self.ended: "ended without a result",
            self.given_back: "given back",
            self.rejected: "late result rejected",
            self.noted: "late report recorded",
        }
        return [f"{glyph} {meaning}" for glyph, meaning in words.items() if glyph in drawn]


LINES = Glyphs("━", "┄", "·", "✓", "✗", "↩", "⚑", "!")
PLAIN = Glyphs("=", "-", ".", "v", "x", "<", "R", "!")
_ENDS = {"completed": "accepted", "released": "given_back"}
_VERDICTS = {"accepted": "accepted", "rejected": "rejected"}


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time on so many columns."""

    start: datetime
    end: datetime
    columns: int

    def column(self, time: datetime) -> int:
        """The column of a time."""
        whole = (self.end - self.start) / timedelta(microseconds=1)
        part = (time - self.start) / timedelta(microseconds=1)
        place = round(part / whole * (self.columns - 1)) if whole > 0 else 0
        return min(max(place, 0), self.columns - 1)


def axis_of(attempts: Sequence[Data], now: datetime, columns: int) -> Axis:
    """The axis that holds all of the attempts; an open one reaches to the end of its lease."""
    times = [parsed(attempt["claimed_at"]) for attempt in attempts]
    for attempt in attempts:
        closed, report = attempt["closed"], attempt["report"]
        times += [parsed(closed["at"])] if closed else [now, parsed(attempt["lease"]["last_until"])]
        times += [parsed(report["received_at"])] if report else []
    return Axis(min(times), max(times), columns)


def bar(attempt: Data, axis: Axis, now: datetime, glyphs: Glyphs) -> str:
    """One attempt as a line of at most `axis.columns` characters."""
    cells = [" "] * axis.columns

    def fill(start: datetime, end: datetime, glyph: str) -> None:
        for column in range(axis.column(start), axis.column(end) + 1):
            cells[column] = glyph

    claimed, closed, report = parsed(attempt["claimed_at"]), attempt["closed"], attempt["report"]
    if closed is None:
        lease_end = parsed(attempt["lease"]["last_until"])
        fill(min(now, lease_end), lease_end, glyphs.ahead)
        if now > lease_end:
            fill(lease_end, now, glyphs.silent)
        fill(claimed, min(now, lease_end), glyphs.held)
        return "".join(cells).rstrip()
    end = parsed(closed["at"])
    if report and parsed(report["received_at"]) > end:
        received = parsed(report["received_at"])
        fill(end, received, glyphs.silent)
        cells[axis.column(received)] = getattr(glyphs, _VERDICTS.get(report["verdict"], "noted"))
    lost_column = axis.column(end)
    lease_end = min(parsed(attempt["lease"]["last_until"]), end)
    fill(lease_end, end, glyphs.silent)
    fill(claimed, lease_end, glyphs.held)
    mark = getattr(glyphs, _ENDS.get(closed["as"], "ended"))
    # A late report within the same column says more than the close before it.
    if not (report and attempt["late"] and axis.column(parsed(report["received_at"])) == lost_column):
        cells[lost_column] = mark
    else:
        cells[lost_column] = getattr(glyphs, _VERDICTS.get(report["verdict"], "noted"))
    return "".join(cells).rstrip()
