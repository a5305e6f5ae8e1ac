"""Log lines of worker and coordinator: one line a message, on stderr."""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from brokerjobs.cli import output
from brokerjobs.rules.texts import redacted


class Level(StrEnum):
    """How much is said."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel: TypeAlias = Annotated[Level, typer.Option("--log-level", help="The least level of log lines on stderr.")]


class OneLine(logging.Formatter):
    """Time in UTC, level, logger and message; of an exception its type, text and place, on the same line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        line = f"{at}Z {record.levelname:<7} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            line += f" | {_in_words(record.exc_info[1])}"
        return redacted(output.escaped(line))


def set_up(level: Level) -> None:
    """Let every logger of this process write to stderr; an application that logs in its own way says so later."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.value.upper())
    # The event loop's own chatter is of use to nobody who runs a worker.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _in_words(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
