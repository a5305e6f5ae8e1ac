"""Log lines, as text or as JSON, with the trace, the job and the attempt that they belong to; of users' loggers, too.

A handler made here writes one line a record, redacted: what is called or shaped like a secret is `***`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from opentelemetry import trace

from brokerjobs.rules import texts
from brokerjobs.telemetry.attaching import current_subject

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS: Final = {
    "time": "the worker's clock, UTC",
    "level": "`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`",
    "logger": "`brokerjobs.worker`, `brokerjobs.coordinator.reaper` …, or the user's own",
    "message": "for people; its wording may change",
    "event": "what has happened, if it has a name: one of the events below",
    "trace_id": "the trace, 32 digits; if a span is current",
    "span_id": "the span, 16 digits",
    "trace_flags": "`01` if the span is sampled",
    "job_id": "the job; of a line in a handler, or about a job",
    "job_type": "its type",
    "attempt_id": "the attempt",
    "attempt": "its number",
    "fencing_number": "its fencing number, as text: it may be larger than JSON's numbers are exact",
    "worker": "the worker's name",
}
"""The fields of a line in JSON, in their order; after them comes what a logger adds by `extra=`."""

_IN_BRACKETS: Final = ("job_id", "attempt", "fencing_number", "trace_id")
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_EXTRAS_AT_MOST: Final = 32
_LONGEST: Final = 4_000
_LONGEST_TRACE: Final = 16_000
# Whatever moves a cursor, turns the direction of writing, or ends a line.
_UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


class Form(StrEnum):
    """How lines are written."""

    TEXT = "text"
    JSON = "json"


class AttemptFilter(logging.Filter):
    """Gives each record the fields of its trace and of its attempt; lets all of them pass.

    What a record says itself, by `extra=`, stays.  For a handler of one's own: `handler.addFilter(AttemptFilter())`.
    """

    def __init__(self, worker: str | None = None) -> None:
        super().__init__()
        self._worker = worker

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the fields."""
        said = vars(record)
        if (subject := current_subject()) is not None:
            said.setdefault("job_id", str(subject.job_id))
            if said["job_id"] == str(subject.job_id):  # else it is about another job
                said.setdefault("job_type", subject.type)
                said.setdefault("attempt_id", str(subject.attempt_id))
                said.setdefault("attempt", subject.number)
                said.setdefault("fencing_number", str(subject.fencing_number))
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            said.setdefault("trace_id", f"{context.trace_id:032x}")
            said.setdefault("span_id", f"{context.span_id:016x}")
            said.setdefault("trace_flags", f"{context.trace_flags:02x}")
        if self._worker is not None:
            said.setdefault("worker", self._worker)
        return True


class TextFormatter(logging.Formatter):
    """Time in UTC, level, logger and message; of an exception its type, text and place; then job, attempt and trace."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            line += f" | {_in_words(record.exc_info[1])}"
        said = vars(record)
        facts = [f"{name}={said[name]}" for name in _IN_BRACKETS if name in said]
        if facts:
            line += f" [{' '.join(facts)}]"
        return texts.redacted(_UNSAFE.sub(_visible, line))


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the fields of `FIELDS`, of an exception its type, message and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": texts.first_part(record.getMessage(), _LONGEST),
        }
        said = vars(record)
        line.update((name, _value(name, said[name])) for name in FIELDS if name in said and name not in line)
        line.update(_extras(said, line))
        if record.exc_info and (error := record.exc_info[1]) is not None:
            line["error_type"] = type(error).__name__
            line["error"] = texts.first_part(str(error), _LONGEST)
            line["traceback"] = texts.last_part("".join(traceback.format_exception(error)), _LONGEST_TRACE)
        return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(line, ensure_ascii=False))


def handler(form: Form, worker: str | None = None, stream: TextIO | None = None) -> logging.Handler:
    """A handler that writes lines to `stream`, by default stderr; `worker`: the name that this process goes by."""
    made = logging.StreamHandler(sys.stderr if stream is None else stream)
    made.setFormatter(JsonFormatter() if form is Form.JSON else TextFormatter())
    made.addFilter(AttemptFilter(worker))
    return made


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _extras(said: dict[str, Any], line: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a logger has added; so much of it, and so long."""
    names = [name for name in said if name not in _STANDARD and name not in line and not name.startswith("_")]
    return ((name, _value(name, said[name])) for name in names[:_EXTRAS_AT_MOST])


def _value(name: str, value: object) -> object:
    """A value for JSON; as text it is read with its name, which may say that it is a secret."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    text = value if isinstance(value, str) else texts.shown(value, _LONGEST)
    told = texts.first_part(f"{name}={text}", _LONGEST + len(name) + 1)
    return told.partition("=")[2]


def _visible(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "backslashreplace").decode("ascii")


def _in_words(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
