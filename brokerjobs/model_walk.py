"""Looking into values of models: which leaf has a problem, and where two values differ.

Used once something is wrong, to say where: a path is like `items[3].price`, "" for the whole.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar, cast

T = TypeVar("T")

# Deeper JSON is refused, and a walk does not go deeper.
DEPTH_LIMIT: Final = 64
# What Python's own int() and pydantic's JSON parser read (CPython docs, "Integer string conversion length limitation").
DIGIT_LIMIT: Final = 4300

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_KEY_LIMIT: Final = 40
_STEPS_SHOWN: Final = 8


class Unfit(ValueError):
    """A value is not one of its model, or has no JSON that could be stored; `path` says where."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class Oversized(ValueError):
    """The JSON of a value is `size` bytes, more than allowed."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


def path_of(steps: tuple[str | int, ...]) -> str:
    """The path that `steps` (fields, keys and indexes) make."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _NAME.fullmatch(step) and len(step) <= _KEY_LIMIT:
            path += f".{step}" if path else step
        else:
            path += f"[{step[:_KEY_LIMIT]!r}{'…' if len(step) > _KEY_LIMIT else ''}]"
    return path


def first_naive(value: object) -> str | None:
    """The path of the first datetime without a time zone."""
    return next(
        (path for path, leaf in _leaves(value) if isinstance(leaf, datetime) and leaf.utcoffset() is None), None
    )


def first_not_finite(value: object) -> str | None:
    """The path of the first NaN or infinity."""
    return next((path for path, leaf in _leaves(value) if isinstance(leaf, float) and not math.isfinite(leaf)), None)


def first_huge_integer(value: object) -> str | None:
    """The path of the first integer that is too long to be read from JSON."""
    return next((path for path, leaf in _leaves(value) if isinstance(leaf, int) and abs(leaf) >= 10**DIGIT_LIMIT), None)


def first_nul(value: object) -> str | None:
    """The path of the first text with a NUL."""
    return next((path for path, leaf in _leaves(value) if isinstance(leaf, str) and "\0" in leaf), None)


def first_deep(value: object) -> str | None:
    """The beginning of the path that leads deeper than JSON may be nested."""
    deepest: tuple[str | int, ...] = ()
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    seen: set[int] = set()
    while waiting and len(deepest) < DEPTH_LIMIT:
        deepest, one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            waiting.extend(((*deepest, step), part) for step, part in _parts(one))
    return f"{path_of(deepest[:_STEPS_SHOWN])}…" if len(deepest) >= DEPTH_LIMIT else None


def first_not_text(value: object) -> tuple[str, str] | None:
    """The path and problem of the first text or bytes that cannot be UTF-8."""
    for path, leaf in _leaves(value):
        if isinstance(leaf, str) and _SURROGATE.search(leaf):
            return path, "the text has a lone surrogate (half a character), which UTF-8 cannot say"
        if isinstance(leaf, (bytes, bytearray)):
            try:
                leaf.decode()
            except UnicodeDecodeError:
                config = 'ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")'
                return path, f"the bytes are not UTF-8; give the model `model_config = {config}`"
    return None


def first_of(value: object, kind: type[T]) -> tuple[str, T] | None:
    """The path of the first leaf of this class, and the leaf."""
    return next(((path, leaf) for path, leaf in _leaves(value) if isinstance(leaf, kind)), None)


def first_of_type(value: object, named_in: str) -> str | None:
    """The path of the first leaf whose class is named in the message `named_in`."""
    return next((path for path, leaf in _leaves(value) if str(type(leaf)) in named_in), None)


def first_difference(value: object, back: object, steps: tuple[str | int, ...] = ()) -> tuple[str, str] | None:
    """Where and how `back` differs from `value`, or None if they mean the same.

    Datetimes are the same when their instant is; models and dataclasses when all their fields are.
    """
    if _equal(value, back):
        return None
    if type(value) is not type(back):
        return path_of(steps), f"{type(value).__name__} would come back as {type(back).__name__}"
    mine, others = dict(_parts(value)), dict(_parts(back))
    if type(value) in {set, frozenset} or not (mine or others):
        return _leaf_difference(value, back, steps)
    for step, part in mine.items():
        if step not in others:
            return path_of((*steps, step)), "would not come back"
        if found := first_difference(part, others[step], (*steps, step)):
            return found
    if extra := [step for step in others if step not in mine]:
        return path_of((*steps, extra[0])), "would come back although it was not there"
    if isinstance(value, Mapping) and [*value] != [*cast("Mapping[object, object]", back)]:
        return path_of(steps), "its keys would come back as other ones: JSON has text keys only"
    return None


def _leaf_difference(value: object, back: object, steps: tuple[str | int, ...]) -> tuple[str, str] | None:
    if isinstance(value, float) and isinstance(back, float) and math.isnan(value) and math.isnan(back):
        return None
    if isinstance(value, datetime) and isinstance(back, datetime) and value.astimezone(UTC) == back.astimezone(UTC):
        return None
    return path_of(steps), f"the {type(value).__name__} would not come back equal from its JSON"


def _equal(value: object, back: object) -> bool:
    try:
        return bool(value == back)
    except Exception:  # noqa: BLE001  # __eq__ is the user's; whatever it raises, they are not shown to be equal
        return False


def _leaves(value: object) -> Iterator[tuple[str, object]]:
    """Every leaf and every key with its path; containers are visited once, so cycles end."""
    seen: set[int] = set()
    waiting: deque[tuple[tuple[str | int, ...], object]] = deque([((), value)])
    while waiting:
        steps, one = waiting.popleft()
        parts = list(_parts(one))
        if not parts:
            yield path_of(steps), one
        elif id(one) not in seen and len(steps) <= DEPTH_LIMIT:
            seen.add(id(one))
            waiting.extend(((*steps, step), part) for step, part in parts)
            if isinstance(one, Mapping):
                yield from ((path_of(steps), key) for key in cast("Mapping[object, object]", one))


def _parts(value: object) -> Iterator[tuple[str | int, object]]:
    """The fields, items or values of `value`, with the step that leads to each; none for a leaf."""
    if isinstance(value, Mapping):
        for key, part in cast("Mapping[object, object]", value).items():
            yield str(key), part
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from enumerate(cast("list[object]", value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            if hasattr(value, one.name):
                yield one.name, getattr(value, one.name)
    elif hasattr(type(value), "__pydantic_fields__"):
        yield from vars(value).items()
        extra: dict[str, object] | None = getattr(value, "__pydantic_extra__", None)
        yield from (extra or {}).items()
