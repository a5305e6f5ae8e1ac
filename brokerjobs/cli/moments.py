"""Times on the command line and on the screen; what is shown is the ledger's clock in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from brokerjobs.cli.failures import UsageError
from brokerjobs.rules.durations import parse_duration, show_duration


def moment_of(text: str | None, flag: str) -> datetime | timedelta | None:
    """The aware time that `text` says in ISO 8601, or the time from now, None for None; raises UsageError."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f'{flag} {text!r} is neither a time such as 2026-01-31T12:00:00Z nor a time from now such as "5m"'
        raise UsageError(message) from None
    if moment.utcoffset() is None:
        message = f"{flag} {text!r} has no time zone: end it with Z for UTC, or with an offset such as +02:00"
        raise UsageError(message)
    return moment


def span_of(text: str, flag: str) -> timedelta:
    """The duration that `text` says; raises UsageError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        message = f"{flag} {text!r} {str(error).removeprefix(repr(text)).strip()}"
        raise UsageError(message) from None


def rfc3339(moment: datetime | None) -> str | None:
    """The time in UTC with microseconds, None for none."""
    if moment is None:
        return None
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rough(span: timedelta) -> str:
    """A duration in its one or two largest units, such as "3m12s" or "12ms"; negative ones with a sign."""
    if span < timedelta(0):
        return f"-{rough(-span)}"
    seconds = span.total_seconds()
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    grain = 1 if seconds < 3600 else 60 if seconds < 86400 else 3600
    return show_duration(timedelta(seconds=round(seconds / grain) * grain))
