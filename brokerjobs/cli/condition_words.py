"""The lines of `brokerjobs status`, and how they count and date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from brokerjobs.cli.moments import rough
from brokerjobs.rules.durations import show_duration

if TYPE_CHECKING:
    from brokerjobs.cli.checkup.findings import Level

Data: TypeAlias = Mapping[str, Any]

DOCTOR: Final = "brokerjobs doctor"
_COUNTED: Final = 10_000  # as far as the ledger counts
_WORDS: Final = 80  # characters of an error or a reason


@dataclass(frozen=True, slots=True)
class Line:
    """One line: what it is about, how bad it is, what is seen, and the next command."""

    about: str
    level: Level
    message: str
    next: str


def short(text: str) -> str:
    """The beginning of an error or a reason."""
    return text if len(text) <= _WORDS else f"{text[: _WORDS - 1]}…"


def age(seconds: float) -> str:
    """How long ago, roughly."""
    span = timedelta(seconds=max(1, round(seconds)))
    return show_duration(span) if seconds < 60 else rough(span)


def many(count: int) -> str:
    """A count, as far as the ledger counts."""
    return f"{count} or more" if count >= _COUNTED else str(count)


def jobs(count: int, one: str, more: str) -> str:
    """A count of jobs and its verb."""
    return f"{many(count)} {'job' if count == 1 else 'jobs'} {one if count == 1 else more}"


def be(count: int, noun: str) -> str:
    """A noun, of one or of several, and its verb now."""
    return f"{noun} is" if count == 1 else f"{noun}s are"
