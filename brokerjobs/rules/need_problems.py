"""What of needs cannot be, said where a job type is declared or a job submitted."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Final, cast

from brokerjobs.rules import templates, texts
from brokerjobs.rules.needs import AtLeast, Equal, Exclusive, Has, Limit, Need, OneOf
from brokerjobs.rules.quantities import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_NEEDS: Final = 32
MOST_PLACES: Final = 1000
TEXT_LIMIT: Final = 200

_NAME: Final = re.compile(r"[a-z0-9_.-]{1,100}")
# Numbers that are no quantities: 3.9 is more than 3.11, and Python 3.9 is not.
_VERSIONS: Final = frozenset({"python"})
_CALLS: Final = {
    Equal: "equal",
    OneOf: "one_of",
    AtLeast: "at_least",
    Has: "has",
    Exclusive: "exclusive",
    Limit: "limit",
}


def problems(needs: object) -> Iterator[str]:
    """What of `needs` cannot be, one line each."""
    if not isinstance(needs, (list, tuple)):
        yield f"needs={texts.shown(needs)} is no list of needs"
        return
    said = cast("list[object]", needs)
    if len(said) > MOST_NEEDS:
        yield f"there are {len(said)} needs, over the limit of {MOST_NEEDS}"
    equal: dict[str, str] = {}
    for one in said[:MOST_NEEDS]:
        if not isinstance(one, (Equal, OneOf, AtLeast, Has, Exclusive, Limit)):
            yield f"{texts.shown(one)} is no need; make one with brokerjobs.needs"
        elif found := _problem(one):
            yield f"{_said(one)}: {found}"
        elif isinstance(one, Equal) and equal.setdefault(one.name, one.value) != one.value:
            yield f"{one.name} cannot be both {equal[one.name]} and {one.value}; use needs.one_of"


def name_problem(name: object) -> str | None:
    """What is wrong with the name of a capability, or None."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return None
    return f"name {texts.shown(name)} is not 1 to 100 lower-case letters, digits, _ - ."


def value_problem(value: object) -> str | None:
    """What is wrong with a text of a capability or need, or None."""
    if isinstance(value, str) and 0 < len(value) <= TEXT_LIMIT and value.isprintable():
        return None
    return f"{texts.shown(value)} is not 1 to {TEXT_LIMIT} printable characters"


def _said(need: Need) -> str:
    """The call of brokerjobs.needs that makes a need."""
    said = ", ".join(texts.shown(getattr(need, one.name)) for one in fields(need))
    return f"needs.{_CALLS[type(need)]}({said})"


def _problem(need: Need) -> str | None:
    match need:
        case Exclusive(name):
            return _prefixed("the name ", templates.template_problem(name))
        case Limit(name, limit):
            places = cast("object", limit)
            if isinstance(places, bool) or not isinstance(places, int) or not 1 <= places <= MOST_PLACES:
                return f"limit {texts.shown(limit)} is not a whole number from 1 to {MOST_PLACES}"
            return _prefixed("the name ", templates.template_problem(name))
        case OneOf(name, values):
            if not values:
                return "it has no values, so that no worker would do"
            return name_problem(name) or next(filter(None, map(value_problem, values)), None)
        case AtLeast(name, value):
            return name_problem(name) or value_problem(value) or _quantity_problem(need)
        case Equal(name, value) | Has(name, value):
            return name_problem(name) or value_problem(value)


def _quantity_problem(need: AtLeast) -> str | None:
    if need.name in _VERSIONS:
        return f"{need.name} is a version, not a quantity: as a number 3.9 is more than 3.11; use needs.one_of"
    try:
        parse_quantity(need.value)
    except ValueError as error:
        return f"{need.value!r} {error}"
    return None


def _prefixed(prefix: str, problem: str | None) -> str | None:
    return None if problem is None else prefix + problem
