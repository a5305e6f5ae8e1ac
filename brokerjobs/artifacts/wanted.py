"""What a handler wants to stage, looked at before anything is recorded."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import InvalidArtifact
from brokerjobs.rules import texts

if TYPE_CHECKING:
    from brokerjobs.artifacts.sources import Source

NAME_LIMIT: Final = 1_000
_CONTENT_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}(?:;[\x20-\x7e]{0,200})?")
_LONGEST_KEEP: Final = timedelta(days=365)  # as the ledger has it


class Wanted:
    """What a handler wants to stage."""

    def __init__(
        self, name: str, source: Source, content_type: str | None = None, keep_for: timedelta | None = None
    ) -> None:
        self.name = name
        self.source = source
        self.content_type = content_type
        self.keep_for = keep_for

    def check(self) -> None:
        """Raises InvalidArtifact for what the ledger could not record."""
        if problem := _name_problem(self.name) or self._other_problem():
            raise InvalidArtifact(name=texts.first_part(str(self.name), 200), problem=problem)

    def _other_problem(self) -> str | None:
        if self.content_type is not None and not _is_content_type(self.content_type):
            return f"its content type {texts.shown(self.content_type)} is not like text/csv"
        if self.keep_for is not None and not _is_time_to_keep(self.keep_for):
            return f"keep_for={texts.shown(self.keep_for)} is no timedelta above 0, at most {_LONGEST_KEEP.days} days"
        return None


def _name_problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"its name is a {type(name).__name__}, not a str"
    if not 0 < len(name) <= NAME_LIMIT:
        return f"its name has {len(name)} characters, not 1 to {NAME_LIMIT}"
    stored = texts.storable(name)
    if stored == name:
        return None
    at = next(index for index, (one, other) in enumerate(zip(name, stored, strict=True)) if one != other)
    return f"its name has U+{ord(name[at]):04X} at position {at}, which PostgreSQL does not store; replace it"


def _is_content_type(value: object) -> bool:
    return isinstance(value, str) and _CONTENT_TYPE.fullmatch(value) is not None


def _is_time_to_keep(value: object) -> bool:
    return isinstance(value, timedelta) and timedelta() < value <= _LONGEST_KEEP
