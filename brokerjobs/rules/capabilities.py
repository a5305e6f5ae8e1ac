"""What a worker has: names with one text or several, such as gpu=a100, memory=16GiB, dataset=coco and imagenet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.need_problems import name_problem, value_problem
from brokerjobs.rules.quantities import Quantity, read_quantity
from brokerjobs.rules.texts import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_NAMES: Final = 100
MOST_TEXTS: Final = 1000

# Where the ledger's form keeps what the single texts say as quantities; no capability has this name.
QUANTITIES: Final = ""


@dataclass(frozen=True, eq=False)
class Capabilities:
    """Capabilities of one worker: names in order, each with its texts in order; made by `of` and `from_data`.

    Equal ones are equal, and hashed once: looking for those that workers share costs little.
    """

    items: tuple[tuple[str, tuple[str, ...]], ...] = ()
    texts: Mapping[str, tuple[str, ...]] = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", dict(self.items))
        object.__setattr__(self, "_hash", hash(self.items))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Capabilities) and self.items == other.items)

    def __str__(self) -> str:
        return ", ".join(f"{name}={text}" for name, several in self.items for text in several)

    def quantity(self, name: str) -> Quantity | None:
        """The quantity that a capability is; None if the worker has no such, or several texts, or no quantity."""
        several = self.texts.get(name, ())
        return read_quantity(several[0]) if len(several) == 1 else None

    def as_data(self) -> dict[str, Any]:
        """The ledger's form: lists of texts by name, and under "" the quantities that single texts are."""
        read = {name: quantity for name, _ in self.items if (quantity := self.quantity(name)) is not None}
        quantities = {name: {"amount": one.amount, "unit": one.unit} for name, one in read.items()}
        return {QUANTITIES: quantities, **{name: list(several) for name, several in self.items}}

    def overridden_by(self, others: Capabilities) -> Capabilities:
        """These, with each name that `others` have as they have it: what is declared goes before what was detected."""
        return Capabilities(tuple(sorted({**self.texts, **others.texts}.items())))


def of(given: Mapping[str, str | Sequence[str]]) -> Capabilities:
    """The capabilities that somebody declares; raises ConfigurationError that lists what cannot be."""
    several = {name: _several(one) for name, one in given.items()}
    if found := tuple(_problems(given, several)):
        message = "the worker's capabilities cannot be:"
        raise ConfigurationError(message, problems=found)
    return _ordered(several)


def from_data(data: object) -> Capabilities:
    """The capabilities that `as_data` gave; whatever else a heartbeat has written counts for nothing."""
    entries = cast("dict[object, object]", data) if isinstance(data, dict) else {}
    lists = {
        name: cast("list[object]", several)
        for name, several in entries.items()
        if isinstance(name, str) and name != QUANTITIES and isinstance(several, list)
    }
    return _ordered({name: tuple(one for one in several if isinstance(one, str)) for name, several in lists.items()})


def _several(said: object) -> tuple[Any, ...]:
    return tuple(cast("Sequence[object]", said)) if isinstance(said, (list, tuple)) else (said,)


def _ordered(several: Mapping[str, tuple[str, ...]]) -> Capabilities:
    return Capabilities(tuple((name, tuple(sorted(set(texts)))) for name, texts in sorted(several.items()) if texts))


def _problems(given: Mapping[str, object], several: Mapping[str, tuple[object, ...]]) -> Iterator[str]:
    if len(several) > MOST_NAMES:
        yield f"there are {len(several)} names, over the limit of {MOST_NAMES}"
    for name, texts in several.items():
        if problem := name_problem(name):
            yield problem
        elif not texts:
            yield f"{name} has no text; leave it out"
        elif len(texts) > MOST_TEXTS:
            yield f"{name} has {len(texts)} texts, over the limit of {MOST_TEXTS}"
        for text in texts[:MOST_TEXTS]:
            if not isinstance(given[name], (str, list, tuple)):
                yield f"{name}: {shown(text)} is not a text or a list of texts"
            elif problem := value_problem(text):
                yield f"{name}: {problem}"
