"""The payload on a command line: JSON, `-` for stdin, or `@file`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from brokerjobs.cli.failures import UsageError

if TYPE_CHECKING:
    from typing import BinaryIO

# Much more than any payload may be: pretty-printed JSON shrinks when a model has read it.
_READ_AT_MOST: Final = 8 * 1024 * 1024
_HINT: Final = "brokerjobs submit TYPE - reads it from stdin, brokerjobs submit TYPE @payload.json from a file"


def text_of(argument: str) -> str:
    """The text of the payload; raises UsageError if it cannot be read."""
    if argument == "-":
        return _decoded(sys.stdin.buffer, "stdin")
    if argument.startswith("@"):
        file = Path(argument[1:])
        try:
            with file.open("rb") as opened:
                return _decoded(opened, str(file))
        except OSError as error:
            message = f"the payload cannot be read from {str(file)!r}: {error.strerror}"
            raise UsageError(message, hint=_HINT) from error
    return argument.strip()


def value_of(text: str) -> Any:
    """The value that JSON text says; raises UsageError for what is no JSON, or says one key twice."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_without_repeats)
    except RecursionError:
        message = "the payload is nested too deeply"
        raise UsageError(message, hint=_HINT) from None
    except ValueError as error:
        message = f"the payload is not JSON: {error}"
        raise UsageError(message, hint=_HINT) from None


def _decoded(stream: BinaryIO, where: str) -> str:
    data = stream.read(_READ_AT_MOST + 1)
    if len(data) > _READ_AT_MOST:
        message = f"the payload in {where} is over {_READ_AT_MOST} bytes"
        raise UsageError(message)
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        message = f"the payload in {where} is not UTF-8: {error.reason} at byte {error.start}"
        raise UsageError(message) from error


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is no number in JSON"
    raise ValueError(message)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                message = f"the key {key!r} stands twice in one object"
                raise ValueError(message)
            seen.add(key)
    return made
