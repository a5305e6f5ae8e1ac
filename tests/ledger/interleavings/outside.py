"""A service outside the ledger, as effects call it: what it knows by its key it does not do again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(slots=True)
class Outside:
    """What it did."""

    remembers: float = 0.0  # seconds for which it knows a key; 0: it takes none
    done: int = 0  # how often it did the effect
    known: dict[str, datetime] = field(default_factory=dict[str, "datetime"])  # until when it knows which key

    def call(self, key: str, now: datetime) -> None:
        """It is called with a key."""
        if key not in self.known or self.known[key] <= now:
            self.done += 1
        self.known.setdefault(key, now + timedelta(seconds=self.remembers))

    def looks(self, now: datetime) -> tuple[int, int]:
        """What later calls depend on."""
        return self.done, sum(until > now for until in self.known.values())
