"""Durations as people write them: "250ms", "30s", "5m", "1h30m", "2d", ISO 8601 ("PT30S"), or a number of seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

# The server's bound on every delay, deadline and elapsed time; a timedelta could hold 2.7 million years.
YEAR: Final = timedelta(days=365)

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = r"\d{1,12}(?:\.\d{1,9})?"
_PLAIN: Final = re.compile(rf"{_NUMBER}")
_PARTS: Final = re.compile(rf"(?:{_NUMBER}(?:ms|[smhd]))+")
_PART: Final = re.compile(rf"({_NUMBER})(ms|[smhd])")
_ISO: Final = re.compile(
    rf"P(?:(?P<d>{_NUMBER})D)?(?:T(?=\d)(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?"
)


def parse_duration(value: object) -> timedelta:
    """The duration that `value` says; raises ValueError that lists the forms. Negative ones do not exist."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _of_seconds(float(value), value)
    if isinstance(value, str):
        text = value.strip()
        if _PLAIN.fullmatch(text):
            return _of_seconds(float(text), value)
        if _PARTS.fullmatch(text):
            return _of_seconds(sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), value)
        iso = _ISO.fullmatch(text)
        if iso and any(iso.groups()):
            parts = iso.groupdict(default="0")
            return _of_seconds(sum(float(number) * _SECONDS[unit] for unit, number in parts.items()), value)
    message = 'is not a duration; write "250ms", "30s", "5m", "1h30m", "2d", "PT30S" or a number of seconds'
    raise ValueError(message)


def show_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads as `value`, such as "1h30m" or "250ms"."""
    micros = value // timedelta(microseconds=1)
    text = ""
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)):
        count, micros = divmod(micros, size)
        text += f"{count}{unit}" if count else ""
    return text + (f"{micros / 1000:g}ms" if micros else "") or "0s"


def _of_seconds(seconds: float, value: object) -> timedelta:
    if not math.isfinite(seconds) or not 0 <= seconds <= YEAR.total_seconds():
        message = f"{value!r} is not between zero and one year"
        raise ValueError(message)
    return timedelta(seconds=seconds)
