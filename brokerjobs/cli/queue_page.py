"""A queue in words: a line of a list, and a page with its routes and pauses."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.cli import moments
from brokerjobs.rules import needs
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Data = Mapping[str, Any]

HEADERS: Final = ("QUEUE", "WAITING", "RUNNING", "WORKERS", "PAUSED", "BY", "REASON", "UNPLACEABLE")
_COUNTED: Final = 10_000  # as far as the ledger counts


def cells(queue: Data, now: datetime | None) -> tuple[str, ...]:
    """One line; how long it has been paused on a terminal (`now`), else since when."""
    paused: Data = queue["paused"] or {}
    since = str(paused.get("since", ""))
    if now is not None and since:
        since = moments.rough(now - datetime.fromisoformat(since))
    stuck = sorted({one["type"] for route in queue["routes"] for one in route["unplaceable"]})
    return (
        f"{queue['namespace']}/{queue['queue']}",
        many(queue["waiting"]),
        many(queue["running"]),
        str(max((route["workers"] for route in queue["routes"]), default=0)),
        since,
        str(paused.get("by", "")),
        str(paused.get("reason", "")),
        ", ".join(stuck),
    )


def page(queue: Data) -> Iterator[str]:
    """The lines of `queues show`."""
    name = f"{queue['namespace']}/{queue['queue']}"
    yield f"queue {name}: {many(queue['waiting'])} waiting, {many(queue['running'])} running"
    paused = queue["paused"]
    if paused:
        until = f", until {paused['until']}" if paused.get("until") else ""
        yield f"paused by {paused['by']} since {paused['since']}{until}: {paused['reason']}"
    else:
        yield "not paused"
    for route in queue["routes"]:
        yield from _route(route)
    for one in queue["pauses"]:
        if one["resumed_at"] is not None:
            why = f" ({one['resumed_why']})" if one["resumed_why"] else ""
            yield (
                f"was paused by {one['paused_by']} at {one['paused_at']}: {one['reason']}; "
                f"resumed by {one['resumed_by']} at {one['resumed_at']}{why}"
            )


def _route(route: Data) -> Iterator[str]:
    wanted = ", ".join(map(str, needs.from_data(route["needs"]))) or "nothing of its worker"
    trouble = ", cannot be declared" if route["trouble"] else "" if route["declared"] else ", not declared yet"
    yield (
        f"route {route['name']} (lane {route['lane']}) needs {wanted}: {many(route['waiting'])} waiting, "
        f"{many(route['running'])} running, {counted(route['workers'], 'worker', 'workers')}{trouble}"
    )
    yield f"  for {', '.join(route['types'])}"
    for one in route["unplaceable"]:
        yield f"  no living worker can run {one['type']} since {one['since']}: {one['report']['text']}"


def many(count: int) -> str:
    """A count, or that it is as far as the ledger counts."""
    return f"{count} or more" if count >= _COUNTED else str(count)
