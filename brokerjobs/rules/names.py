"""Which names are allowed: they become names of queues and exchanges, parts of commands and of URLs."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = "lower-case letters, digits, _ and -, starting with a letter"
_NAMESPACE: Final = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_LANES: Final = (":high", ":low")
_HASHED: Final = re.compile(r"[a-z0-9_.-]{0,13}")
_DOTTED: Final = re.compile(r"[a-z][a-z0-9_.-]{0,100}")


def namespace_problem(name: str) -> str | None:
    """What is wrong with a namespace, or None."""
    return None if _NAMESPACE.fullmatch(name) else f"namespace {name!r} is not 1 to 41 {_WORDS}"


def job_type_problem(name: str) -> str | None:
    """What is wrong with a job type's name, or None."""
    return None if _DOTTED.fullmatch(name) else f"job type {name!r} is not 1 to 101 {_WORDS}, with dots"


def effect_problem(name: str) -> str | None:
    """What is wrong with an effect's name, or None; "/" separates it from the job's id in its key."""
    if 0 < len(name) <= 200 and name.isprintable() and "/" not in name:
        return None
    return f"its name {name[:300]!r} is not 1 to 200 printable characters without /"


def queue_problem(name: str) -> str | None:
    """What is wrong with a queue's name, or None."""
    if _DOTTED.fullmatch(name) and not name.endswith("."):
        return None
    return f"queue {name!r} is not 1 to 101 {_WORDS}, with dots inside"


def route_problem(namespace: str, route: str) -> str | None:
    """What is wrong with a route's name, `{namespace}.q.{queue}[.{hash of needs}][:{lane}]`, or None."""
    before = f"{namespace}.q."
    rest = route.removeprefix(before)
    for lane in _LANES:
        rest = rest.removesuffix(lane)
    if problem := namespace_problem(namespace):
        return problem
    if route.startswith(before) and _DOTTED.fullmatch(rest[:101]) and _HASHED.fullmatch(rest[101:]):
        return None
    return f"route {route!r} is not {before}QUEUE, with a hash of needs and a lane after it or not"
