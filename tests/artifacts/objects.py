"""Contents and paths of objects in tests."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1024 * 1024


def path() -> str:
    """A path as the ledger makes them."""
    return f"{uuid4()}/{uuid4()}/{uuid4()}"


def mebibytes(count: int) -> Iterator[bytes]:
    """So many different ones."""
    for number in range(count):
        yield number.to_bytes(4, "big") * (MIB // 4)


def sha256(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()
