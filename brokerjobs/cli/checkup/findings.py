"""What a check says: how bad it is, in one sentence, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from brokerjobs.cli.failures import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Level(IntEnum):
    """How bad it is; the worst is the smallest."""

    FAIL = 0
    WARN = 1
    OK = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's; `code` is the exit code that a failure gives."""

    check: str
    level: Level
    message: str
    next: str = ""
    code: ExitCode = ExitCode.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From when on something is worth a warning."""

    clock_offset: timedelta = timedelta(seconds=1)
    """Decides nothing, but makes times in records hard to compare.  The doctor takes `worker.clock_skew`."""
    transaction: timedelta = timedelta(minutes=5)
    """Whoever holds a snapshot keeps dead rows from being removed: every look at the tables gets slower."""
    outbox: timedelta = timedelta(seconds=30)
    """Ten times what a relay takes for a backlog of thousands."""
    connections: float = 0.9
    """The part of the server's connections that may be in use."""
    grace: timedelta = timedelta(seconds=15)
    """How long a service may be without a leader: another copy takes over within that."""


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, message)


def warn(check: str, message: str, next_: str) -> Finding:
    """Something is not as it should be, and brokerjobs works."""
    return Finding(check, Level.WARN, message, next_)


def fail(check: str, message: str, next_: str, code: ExitCode) -> Finding:
    """Something does not work."""
    return Finding(check, Level.FAIL, message, next_, code)


# Of several failures the one that hides the others decides the exit code.
_GRAVEST: Final = (
    ExitCode.UNEXPECTED,
    ExitCode.UNREACHABLE,
    ExitCode.CONFIGURATION,
    ExitCode.SCHEMA,
    ExitCode.PERMISSION,
)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, failures before warnings; in the order of the checks where they are as bad."""
    return sorted(findings, key=lambda one: (one.level, _gravity(one)))


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """0 without a failure, else the code of the gravest one."""
    failures = [one for one in findings if one.level is Level.FAIL]
    return min(failures, key=_gravity).code if failures else ExitCode.DONE


def _gravity(finding: Finding) -> int:
    return _GRAVEST.index(finding.code) if finding.code in _GRAVEST else len(_GRAVEST)


def several(names: Sequence[str], most: int = 5) -> str:
    """Names in a sentence, the first few of many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
