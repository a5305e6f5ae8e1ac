"""Texts of other people's errors, made fit to be stored and shown."""

from __future__ import annotations

import re
from typing import Final

from brokerjobs.rules import secrets

# PostgreSQL's text and jsonb take neither NUL nor a surrogate that stands alone.
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# scheme://user:SECRET@ up to the last @ of the word, since people leave / and @ in passwords unescaped;
# a port and a path after it are no password.  Bounded, so that hostile texts cost linear time.
_URL_PASSWORD: Final = re.compile(
    r"(?P<kept>[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s:/@]{0,256}:)(?!\d{1,5}(?:[/?#\s'\"]|$))\S{1,512}@"
)
_NAMED_PASSWORD: Final = re.compile(
    r"(?P<kept>\bpassword\s{0,3}=\s{0,3})(?:'[^']{0,512}'|[^\s&'\"]{1,512})", re.IGNORECASE
)
# Redaction comes before cutting, which could part a password from its @; this bounds its cost.
_READ_AT_MOST: Final = 131_072
REDACTED: Final = secrets.REDACTED


def storable(text: str) -> str:
    """`text` with every character that PostgreSQL refuses replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def redacted(text: str) -> str:
    """`text` with `***` for secrets: passwords of URLs, what is called or shaped like one, this process's own."""
    text = secrets.own.cut_out(text)
    text = _URL_PASSWORD.sub(rf"\g<kept>{REDACTED}@", text)
    text = _NAMED_PASSWORD.sub(rf"\g<kept>{REDACTED}", text)
    return secrets.without_tokens(text)


def first_part(text: str, limit: int) -> str:
    """The beginning of `text`, storable, redacted, and at most `limit` characters with the note of the cut."""
    whole = redacted(storable(text[:_READ_AT_MOST]))
    if len(whole) <= limit:
        return whole
    note = f" … ({len(text)} characters)"
    return whole[: max(0, limit - len(note))] + note


def last_part(text: str, limit: int) -> str:
    """The end of `text` (where a traceback says what happened), under the conditions of `first_part`."""
    whole = redacted(storable(text[-_READ_AT_MOST:]))
    if len(whole) <= limit:
        return whole
    note = f"({len(text)} characters) …\n"
    return note + whole[len(whole) - max(0, limit - len(note)) :]


def shown(value: object, limit: int = 80) -> str:
    """The repr of somebody's value for a message, at most `limit` characters; never raises."""
    try:
        return first_part(repr(value), limit)
    except Exception:  # noqa: BLE001  # too many digits, too deep, or a broken __repr__: its type has to do
        return f"<{type(value).__name__}>"


def counted(count: int, one: str, several: str) -> str:
    """A number and what is counted: `1 job`, `2 jobs`."""
    return f"{count} {one if count == 1 else several}"
