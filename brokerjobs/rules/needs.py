"""What a job needs: of its worker (equal, one_of, at_least, has), and of the ledger's resources (exclusive, limit).

Needs are values: anything can be made, and need_problems.py says what of it cannot be.  Their JSON form is canonical:
sorted, without duplicates.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from brokerjobs.rules import texts
from brokerjobs.rules.quantities import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Equal:
    """A worker whose capability `name` is `value`, and nothing else."""

    name: str
    value: str

    def as_data(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"kind": "equal", "name": self.name, "value": self.value}

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """A worker whose capability `name` has some of `values`."""

    name: str
    values: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"kind": "one_of", "name": self.name, "values": list(self.values)}

    def __str__(self) -> str:
        return f"{self.name}={'|'.join(self.values)}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A worker whose capability `name` is a quantity, and not less than `value`."""

    name: str
    value: str

    @property
    def quantity(self) -> Quantity:
        """What `value` says; raises ValueError if it is no quantity."""
        return parse_quantity(self.value)

    def as_data(self) -> dict[str, Any]:
        """Its JSON form, which has the amount beside the text."""
        quantity = self.quantity
        said = {"value": self.value, "amount": quantity.amount, "unit": quantity.unit}
        return {"kind": "at_least", "name": self.name, **said}

    def __str__(self) -> str:
        return f"{self.name}>={self.value}"


@dataclass(frozen=True, slots=True)
class Has:
    """A worker whose capability `name` has `value` among others."""

    name: str
    value: str

    def as_data(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"kind": "has", "name": self.name, "value": self.value}

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"


@dataclass(frozen=True, slots=True)
class Exclusive:
    """The resource `name`, a template over the payload, that one job at a time may hold."""

    name: str

    def as_data(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"kind": "exclusive", "name": self.name}

    def __str__(self) -> str:
        return f"exclusive:{self.name}"


@dataclass(frozen=True, slots=True)
class Limit:
    """The resource `name`, a template over the payload, that `limit` jobs at a time may hold."""

    name: str
    limit: int

    def as_data(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"kind": "limit", "name": self.name, "limit": self.limit}

    def __str__(self) -> str:
        return f"limit:{self.name}:{self.limit}"


WorkerNeed: TypeAlias = Equal | OneOf | AtLeast | Has
ResourceNeed: TypeAlias = Exclusive | Limit
Need: TypeAlias = WorkerNeed | ResourceNeed


def canonical(needs: Iterable[Need]) -> tuple[Need, ...]:
    """The needs in their one order, each once; they must be such as can be."""
    ordered = sorted(map(_normal, needs), key=_sort_key)
    return tuple({_sort_key(one): one for one in ordered}.values())


def as_data(needs: Iterable[Need]) -> list[dict[str, Any]]:
    """The needs as JSON values: the ledger's form."""
    return [one.as_data() for one in canonical(needs)]


def from_data(data: Iterable[Mapping[str, Any]]) -> tuple[Need, ...]:
    """The needs that `as_data` gave; raises ValueError for what is none."""
    return canonical(_from_data(one) for one in data)


def worker_needs(needs: Iterable[Need]) -> tuple[WorkerNeed, ...]:
    """Those that a worker must have, in the order given."""
    return tuple(one for one in needs if isinstance(one, (Equal, OneOf, AtLeast, Has)))


def needs_hash(needs: Iterable[Need]) -> str | None:
    """The twelve hex digits that tell apart sets of worker needs in names of routes; None if there are none."""
    said = sorted(json.dumps(_without_text(one.as_data()), sort_keys=True) for one in worker_needs(canonical(needs)))
    if not said:
        return None
    text = json.dumps([json.loads(one) for one in said], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _normal(need: Need) -> Need:
    return OneOf(need.name, tuple(sorted(set(need.values)))) if isinstance(need, OneOf) else need


def _sort_key(need: Need) -> tuple[str, str, str]:
    data = need.as_data()
    return data["kind"], data["name"], json.dumps(data, sort_keys=True, ensure_ascii=False)


def _without_text(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "value"} if data["kind"] == "at_least" else data


def _from_data(data: Mapping[str, Any]) -> Need:
    match data:
        case {"kind": "equal", "name": str(name), "value": str(value)}:
            return Equal(name, value)
        case {"kind": "one_of", "name": str(name), "values": [*values]}:
            return OneOf(name, tuple(str(one) for one in values))
        case {"kind": "at_least", "name": str(name), "value": str(value)}:
            return AtLeast(name, value)
        case {"kind": "has", "name": str(name), "value": str(value)}:
            return Has(name, value)
        case {"kind": "exclusive", "name": str(name)}:
            return Exclusive(name)
        case {"kind": "limit", "name": str(name), "limit": int(limit)}:
            return Limit(name, limit)
        case _:
            message = f"{texts.shown(data)} is no need that this release knows"
            raise ValueError(message)
