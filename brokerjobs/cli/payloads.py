"""The payload on a command line: JSON, `-` for stdin, or `@file`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from brokerjobs import model_walk
from brokerjobs.cli.failures import UsageError

if TYPE_CHECKING:
    from typing import BinaryIO

# Much more than any payload may be: pretty-printed JSON shrinks when a model has read it.
_READ_AT_MOST: Final = 8 * 1024 * 1024
# PostgreSQL's numeric (manual, datatype-numeric).
_MOST_PLACES: Final = 16_383
_HINT: Final = "- instead of it reads it from stdin, @file.json from a file"


def text_of(argument: str, what: str = "payload") -> str:
    """The text of a payload, or of what else is given so; raises UsageError if it cannot be read."""
    if argument == "-":
        return _decoded(sys.stdin.buffer, f"{what} in stdin")
    if argument.startswith("@"):
        file = Path(argument[1:])
        try:
            with file.open("rb") as opened:
                return _decoded(opened, f"{what} in {file}")
        except OSError as error:
            message = f"the {what} cannot be read from {str(file)!r}: {error.strerror}"
            raise UsageError(message, hint=_HINT) from error
    return argument.strip()


def value_of(text: str, what: str = "payload") -> Any:
    """The value that JSON text says.

    Raises UsageError for what is no JSON, says one key twice, or has numbers or texts that could not be read back.
    """
    try:
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_number,
            object_pairs_hook=_without_repeats,
        )
    except RecursionError:
        message = f"the {what} is nested deeper than {model_walk.DEPTH_LIMIT} levels"
        raise UsageError(message, hint=_HINT) from None
    except ValueError as error:
        message = f"the {what} is not JSON: {error}"
        raise UsageError(message, hint=_HINT) from None
    if found := _first_unreadable(value) or model_walk.first_not_text(value):
        path, problem = found
        message = f"the {what} cannot be taken at {path or 'top level'}: {problem}"
        raise UsageError(message, hint=_HINT)
    return value


def _decoded(stream: BinaryIO, what: str) -> str:
    data = stream.read(_READ_AT_MOST + 1)
    if len(data) > _READ_AT_MOST:
        message = f"the {what} is over {_READ_AT_MOST} bytes"
        raise UsageError(message)
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        message = f"the {what} is not UTF-8: {error.reason} at byte {error.start}"
        raise UsageError(message) from error


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is no number in JSON"
    raise ValueError(message)


class _Unreadable(float):
    """Stands for a number that Python or PostgreSQL could not read back."""

    problem = ""

    @classmethod
    def because_of(cls, problem: str) -> Self:
        made = cls()
        made.problem = problem
        return made


def _first_unreadable(value: object) -> tuple[str, str] | None:
    found = model_walk.first_of(value, _Unreadable)
    return None if found is None else (found[0], found[1].problem)


def _integer(text: str) -> float:
    digits = len(text.removeprefix("-"))
    if digits > model_walk.DIGIT_LIMIT:
        limit = model_walk.DIGIT_LIMIT
        return _Unreadable.because_of(f"the integer has {digits} digits, over the limit of {limit}; send a text")
    return int(text)


def _number(text: str) -> float:
    """As Python reads it; what is kept is the text, with every digit that PostgreSQL's numeric has room for."""
    value = float(text)
    if math.isinf(value):
        return _Unreadable.because_of(f"the number {text[:40]} is larger than a float can be; send a text")
    mantissa, _, exponent = text.lower().partition("e")
    places = len(mantissa.partition(".")[2])
    if places > _MOST_PLACES or (
        exponent.startswith("-") and places + int(exponent[1:].lstrip("0")[:9] or 0) > _MOST_PLACES
    ):
        problem = f"the number {text[:40]} has more than {_MOST_PLACES} decimal places; send a text"
        return _Unreadable.because_of(problem)
    return value


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
