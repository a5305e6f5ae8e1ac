"""Needs as people write them on a command line: the texts that `str` of a need gives."""

from __future__ import annotations

import re
from typing import Final

from brokerjobs.rules.needs import AtLeast, Equal, Exclusive, Has, Limit, Need, OneOf

FORMS: Final = (
    "gpu=a100, gpu=a100|h100, memory>=32GiB, dataset:imagenet, exclusive:NAME or limit:NAME:10"  # in the order of kinds
)

_WORKER_NEED: Final = re.compile(r"([^=:>]+)(>=|=|:)(.+)", re.DOTALL)


def read_need(text: str) -> Need:
    """The need that a text says, which may have `problems`; raises ValueError that lists the forms."""
    kind, _, rest = text.partition(":")
    if kind == "exclusive" and rest:
        return Exclusive(rest)
    if kind == "limit" and rest:
        name, _, places = rest.rpartition(":")
        if name and places.isascii() and places.isdigit():
            return Limit(name, int(places[:9]))
    elif said := _WORKER_NEED.fullmatch(text):
        name, sign, value = said.groups()
        if sign == ">=":
            return AtLeast(name, value)
        if sign == ":":
            return Has(name, value)
        return OneOf(name, tuple(value.split("|"))) if "|" in value else Equal(name, value)
    message = f"{text!r} is no need; write {FORMS}"
    raise ValueError(message)
