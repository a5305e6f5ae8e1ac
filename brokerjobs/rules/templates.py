"""Names of resources that are filled in from a payload: "account:{account}", "tenant:{customer.id}".

The ledger fills them in, at submit (fill_template.sql); here is what a template may be.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIMIT: Final = 200

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*")
_BRACED: Final = re.compile(r"\{([^{}]*)\}")
_STRUCTURED: Final = frozenset({"object", "array", "null"})


def fields_of(template: str) -> tuple[str, ...]:
    """The fields that a template asks for, as paths with dots."""
    return tuple(_BRACED.findall(template))


def template_problem(template: object) -> str | None:
    """What is wrong with a template, or None."""
    if not isinstance(template, str) or not 0 < len(template) <= LIMIT or not template.isprintable():
        return f"is not 1 to {LIMIT} printable characters"
    if "{" in (rest := _BRACED.sub("", template)) or "}" in rest:
        return "has a brace without its other one; a field of the payload is written {account} or {customer.id}"
    for field in fields_of(template):
        if not _FIELD.fullmatch(field):
            return f"asks for {{{field}}}, which is no field of a payload; write {{account}} or {{customer.id}}"
    return None


def field_problem(field: str, schema: Mapping[str, Any]) -> str | None:
    """Why a payload of this JSON schema can never fill in `field`, or None."""
    here = [schema]
    for name in field.split("."):
        there: list[Mapping[str, Any]] = []
        known: set[str] = set()
        for one in (choice for place in here for choice in _choices(place, schema)):
            properties = cast("dict[str, Any]", one.get("properties", {}))
            known.update(properties)
            if name in properties:
                there.append(properties[name])
            elif one.get("additionalProperties") not in (None, False) or not _says(one):
                other = one.get("additionalProperties")
                there.append(cast("dict[str, Any]", other) if isinstance(other, dict) else {})
        if not there:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; it has {', '.join(sorted(known))}" if known else ""
            return f"the payload has no field {field}{hint}"
        here = there
    if all(one.get("type") in _STRUCTURED for place in here for one in _choices(place, schema)):
        return f"the payload's field {field} is no text, number or boolean"
    return None


def _choices(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """What a value may be: the schema itself, what it refers to, its alternatives."""
    if depth > 20:  # a schema that refers to itself
        return
    inner: list[Any] = [one for word in ("anyOf", "oneOf", "allOf") for one in schema.get(word, ())]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        inner.append(_referred(reference, root))
    if not inner or "properties" in schema:
        yield schema
    for one in inner:
        yield from _choices(cast("Mapping[str, Any]", one), root, depth + 1)


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    place: Any = root
    for step in reference.removeprefix("#/").split("/"):
        place = place.get(step, {})
    return cast("Mapping[str, Any]", place)


def _says(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says anything of what a value is: `Any` does not."""
    return any(word in schema for word in ("type", "enum", "const", "properties"))
