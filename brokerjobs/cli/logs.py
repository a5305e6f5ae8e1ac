"""Log lines of worker and coordinator: one line a message, on stderr."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

import typer

_OURS: Final = "brokerjobs"


class Level(StrEnum):
    """How much is said."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel: TypeAlias = Annotated[Level, typer.Option("--log-level", help="The least level of log lines on stderr.")]


def set_up(level: Level, form: Literal["text", "json"] = "text", name: str | None = None) -> None:
    """Let every logger of this process write to stderr; an application that logs in its own way says so later.

    Said again, it replaces what was said before; `name`: the process's, in lines of JSON.
    """
    from brokerjobs.telemetry.logs import Form, handler  # noqa: PLC0415  # slow, and of worker and coordinator alone

    root = logging.getLogger()
    for before in [one for one in root.handlers if one.name == _OURS]:
        root.removeHandler(before)
    made = handler(Form(form), name)
    made.name = _OURS
    root.addHandler(made)
    root.setLevel(level.value.upper())
    # The event loop's own chatter is of use to nobody who runs a worker.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
