"""What a handler may know of its attempt, wherever it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """The attempt that is running."""

    id: UUID
    number: int
    fencing_number: int
