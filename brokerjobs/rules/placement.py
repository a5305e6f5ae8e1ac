"""Which worker may run a job: the one matcher in Python. SQL has its twin, unmet_needs.sql."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from brokerjobs.rules.needs import AtLeast, Equal, Has, OneOf, worker_needs
from brokerjobs.rules.quantities import read_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerjobs.rules.capabilities import Capabilities
    from brokerjobs.rules.needs import Need, WorkerNeed

NO_TEXTS: Final[tuple[str, ...]] = ()
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Unmet:
    """A need that a worker does not meet, and how: "lacks gpu", "memory 16GiB < 32GiB"."""

    need: WorkerNeed
    lacks: bool  # has nothing of that name (of a `Has`: not that text), rather than something else
    text: str


def unmet(needs: Iterable[Need], capabilities: Capabilities) -> tuple[Unmet, ...]:
    """What of `needs` a worker with these capabilities does not meet; resources are no matter of workers."""
    found = (checked(one, capabilities.texts.get(one.name, NO_TEXTS)) for one in worker_needs(needs))
    return tuple(one for one in found if one is not None)


def checked(need: WorkerNeed, texts: tuple[str, ...]) -> Unmet | None:
    """How a capability with these texts (none: the worker lacks it) fails a need, None if it meets it."""
    if not texts:
        return Unmet(need, lacks=True, text=f"lacks {what(need)}")
    has = ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")
    match need:
        case Equal(name, value):
            return None if texts == (value,) else Unmet(need, lacks=False, text=f"{name} is {has}, not {value}")
        case OneOf(name, values):
            if not set(values).isdisjoint(texts):
                return None
            return Unmet(need, lacks=False, text=f"{name} is {has}, not {' or '.join(values)}")
        case Has(_, value):
            return None if value in texts else Unmet(need, lacks=True, text=f"lacks {what(need)}")
        case AtLeast(name, value):
            quantity = read_quantity(texts[0]) if len(texts) == 1 else None
            if quantity is None or quantity.unit != need.quantity.unit:
                return Unmet(need, lacks=False, text=f"{name} is {has}, not a quantity as {value}")
            if quantity.amount >= need.quantity.amount:
                return None
            return Unmet(need, lacks=False, text=f"{name} {has} < {value}")


def what(need: WorkerNeed) -> str:
    """What a worker lacks that does not meet a need."""
    return f"{need.name} {need.value}" if isinstance(need, Has) else need.name
