"""How commands speak: data to stdout, the rest to stderr, and nobody's text moves the cursor."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rich.console import Console

# Width of what is piped, where COLUMNS says nothing.
_PIPED_WIDTH: Final = 120
_GAP: Final = 2  # spaces between the columns of a table
_NARROWEST: Final = 4

# What a terminal or a reader's eye takes for more than text: controls (C0, DEL, C1), line and paragraph separators,
# marks that turn the direction of writing (Unicode UAX 9), and halves of characters, which cannot be encoded.
_MOVING: Final = "\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_UNSAFE: Final = re.compile(f"[{_MOVING}]")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Format(StrEnum):
    """How a command gives its data."""

    TEXT = "text"
    JSON = "json"


class ListFormat(StrEnum):
    """How a command gives a list; without a choice a table on a terminal, TSV when piped."""

    TABLE = "table"
    TSV = "tsv"
    JSON = "json"


class ReaderGone(Exception):
    """Nobody reads stdout any more, as after `| head`; no `OSError`, which typer and rich answer in their own ways."""


class _Stdout:
    """stdout for rich, with `ReaderGone`."""

    def __init__(self) -> None:
        self.encoding = sys.stdout.encoding

    def write(self, text: str, /) -> int:
        """Write it."""
        try:
            return sys.stdout.write(text)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def flush(self) -> None:
        """Flush it."""
        try:
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return sys.stdout.isatty()


def escaped(text: object) -> str:
    """`text` on one line, with everything that could move a cursor or turn the writing made visible."""
    return _UNSAFE.sub(_visible, str(text))


def json_escaped(text: str) -> str:
    """JSON text with the same characters as JSON escapes; outside strings valid JSON has none of them but space."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def is_text(text: str) -> bool:
    """Whether `text` has no halves of characters, which Python makes of bytes that are not UTF-8."""
    return not any("\ud800" <= one <= "\udfff" for one in text)


def say(text: str) -> None:
    """Write a message for people to stderr; its own line breaks are kept, other controls are made visible."""
    _write(sys.stderr, "\n".join(map(escaped, text.split("\n"))))


def put(line: str) -> None:
    """Write a line of data to stdout, made safe."""
    _write(sys.stdout, escaped(line))


def put_json(value: Any) -> None:
    """Write one object as one line of JSON to stdout."""
    put_json_text(json.dumps(value, ensure_ascii=False, allow_nan=False))


def put_json_text(text: str) -> None:
    """Write a line that is JSON already, as it is: numbers keep every digit that the ledger has."""
    _write(sys.stdout, json_escaped(text))


def put_tabs(cells: Sequence[str]) -> None:
    """Write one line of cells parted by tabs; tabs in a cell are made visible."""
    _write(sys.stdout, "\t".join(map(escaped, cells)))


def put_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Container[str]) -> None:
    """Write rows with headers, cut to the width; the columns of `whole` are never cut."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
    cells = [[escaped(cell) for cell in row] for row in rows]
    natural = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    widths = _fitted(natural, [header in whole for header in headers], console().width)
    for header, width in zip(headers, widths, strict=True):
        made.add_column(header, no_wrap=True, width=width)
    for row in cells:
        made.add_row(*(Text(cell, overflow="ellipsis", no_wrap=True) for cell in row))
    console().print(made)


def _fitted(natural: Sequence[int], whole: Sequence[bool], total: int) -> list[int]:
    """Widths of columns that fit into `total`: those that may be cut share what the others leave."""
    left = total - _GAP * len(natural) - sum(width for width, kept in zip(natural, whole, strict=True) if kept)
    widths = list(natural)
    cut = sorted((place for place, kept in enumerate(whole) if not kept), key=lambda place: natural[place])
    for taken, place in enumerate(cut):
        widths[place] = min(natural[place], max(_NARROWEST, left // (len(cut) - taken)))
        left -= widths[place]
    return widths


def console() -> Console:
    """The console of stdout: colours and the terminal's width on a terminal, plain and wide when piped."""
    from rich.console import Console  # noqa: PLC0415

    made = Console(file=cast("TextIO", _Stdout()), highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _PIPED_WIDTH
    return made


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def has_keyboard() -> bool:
    """Whether stdin is a terminal, so that somebody can answer a question."""
    return sys.stdin.isatty()


def never_fail_on_a_character() -> None:
    """Let stdout and stderr write an escape for what their encoding has not, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _write(stream: TextIO, line: str) -> None:
    try:
        stream.write(line + "\n")
        stream.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
