"""Values that JSON, PostgreSQL or Python cannot take, however they are handed in."""

from __future__ import annotations

from typing import Any, Final

# More digits than Python turns into a text, or a text of JSON back into a number.
HUGE: Final[int] = pow(10, 100_000)


def deep(levels: int = 100_000) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value
