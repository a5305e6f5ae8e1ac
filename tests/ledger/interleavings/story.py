"""How an order of steps is told: who did what, one after the other, and what must not have come of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """One step, or a part of one."""

    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.who}: {self.what}"


@dataclass(slots=True)
class Story:
    """One order of steps, what was seen, and which promises it broke."""

    triple: str
    order: tuple[int, ...] = ()
    lines: list[Line] = field(default_factory=list[Line])
    broken: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        steps = [f"  {number:2} {line}" for number, line in enumerate(self.lines, 1)]
        return "\n".join([f"{self.triple}:", *steps, *[f"  BROKEN: {promise}" for promise in self.broken]])
