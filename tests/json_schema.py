"""Says what in a JSON value does not fit a JSON Schema, by the few keywords that the schemas in docs/ use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    Schema = dict[str, Any]

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN: Final = {
    *("$schema", "$defs", "title", "description", "$ref", "type", "const", "enum", "pattern", "required", "properties"),
    *("additionalProperties", "items", "not", "anyOf"),
}


def problems(value: Any, schema: Schema, root: Schema, path: str = "") -> Iterator[str]:
    """What does not fit; raises AssertionError for a keyword that is not known here."""
    assert schema.keys() <= _KNOWN, schema.keys() - _KNOWN
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from problems(value, root["$defs"][name], root, path)
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    if "not" in schema and not list(problems(value, schema["not"], root, path)):
        yield f"{path}: it fits {schema['not']}"
    if "anyOf" in schema and all(list(problems(value, one, root, path)) for one in schema["anyOf"]):
        yield f"{path}: it fits none of {schema['anyOf']}"
    if isinstance(value, dict):
        yield from _of_object(value, schema, root, path)  # pyright: ignore[reportUnknownArgumentType]
    for place, item in enumerate(value if isinstance(value, list) and "items" in schema else ()):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        yield from problems(item, schema["items"], root, f"{path}[{place}]")


def _of_object(value: dict[str, Any], schema: Schema, root: Schema, path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}: it has no {name!r}"
    known: Schema = schema.get("properties", {})
    for name, item in value.items():
        if name in known:
            yield from problems(item, known[name], root, f"{path}.{name}")
        elif "additionalProperties" in schema:
            yield from problems(item, schema["additionalProperties"], root, f"{path}.{name}")


def _is(value: Any, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    return any(isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names)
