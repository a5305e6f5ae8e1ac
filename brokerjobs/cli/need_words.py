"""What a job needs, and what a worker had, in words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from brokerjobs.rules import capabilities, needs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Data = Mapping[str, Any]


def needs_of(job: Data) -> str:
    """The needs of its type and those that its submission added, as they are written on a command line."""
    added: list[Data] = job.get("added_needs") or []
    return "; ".join(filter(None, [in_words(job.get("needs") or ()), f"added: {in_words(added)}" if added else ""]))


def in_words(said: Iterable[Data]) -> str:
    """Needs beside each other; one of a later release as its JSON."""
    return ", ".join(map(_in_words, said))


def resources_of(job: Data) -> str:
    """The resources that it holds while it runs."""
    resources: list[Data] = job.get("resources") or []
    return ", ".join(_resource(one) for one in resources)


def capabilities_of(attempt: Data) -> str:
    """What its worker had when it claimed; "" if that was not recorded."""
    return str(capabilities.from_data(attempt.get("capabilities")))


def _in_words(said: Data) -> str:
    try:
        return str(needs.from_data([said])[0])
    except ValueError:
        return json.dumps(said, ensure_ascii=False)


def _resource(one: Data) -> str:
    return str(one["name"]) if one["limit"] == 1 else f"{one['name']} (one of {one['limit']} places)"
