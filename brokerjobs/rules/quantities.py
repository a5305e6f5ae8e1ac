"""Quantities as people write them: a number, with an optional unit of bytes: "4", "0.5", "512MB", "16GiB"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

# Fifteen digits at most: a double keeps them, so that Python and PostgreSQL's numeric compare alike.
_TEXT: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(?: ?(B|[kMGT]B|[KMGT]iB))?")
_BYTES: Final = {
    "B": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}
_SHOWN: Final = ("TiB", "GiB", "MiB", "KiB")


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount of `unit`: "B" for bytes, which are whole, or "" for a plain number."""

    amount: int | float
    unit: str

    def __str__(self) -> str:
        """The shortest text that is read as this quantity."""
        if self.unit == "":
            return str(self.amount)
        for unit in _SHOWN:
            if self.amount and self.amount % _BYTES[unit] == 0:
                return f"{self.amount // _BYTES[unit]}{unit}"
        return f"{self.amount}B"


@lru_cache(maxsize=4096)
def read_quantity(text: object) -> Quantity | None:
    """The quantity that a text says, None if it says none; a part of a byte is dropped."""
    said = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if said is None:
        return None
    number, unit = Decimal(said[1]), said[2]
    if unit:
        return Quantity(int(number * _BYTES[unit]), "B")
    return Quantity(int(number) if number == int(number) else float(number), "")


def parse_quantity(text: object) -> Quantity:
    """As `read_quantity`; raises ValueError that lists the forms."""
    if (quantity := read_quantity(text)) is None:
        units = ", ".join(_BYTES)
        message = f"is not a quantity; write a number with at most 12 digits and 3 decimals, alone or in {units}"
        raise ValueError(message)
    return quantity
