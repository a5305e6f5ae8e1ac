"""Paths of objects, as the ledger makes them: UUIDs with / between them."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_PATH: Final = re.compile(rf"{_NAME}(?:/{_NAME}){{0,7}}")


def is_path(path: str) -> bool:
    """Whether it could be one of ours; nothing else is let near a file system or a bucket."""
    return _PATH.fullmatch(path) is not None


def checked(path: str) -> str:
    """A path of ours; raises ValueError."""
    if not is_path(path):
        message = f"no path of an object: {path[:200]!r}"
        raise ValueError(message)
    return path
