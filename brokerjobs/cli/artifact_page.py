"""An artifact in words: a line of a list, and a block that `artifacts show` and `jobs show` share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.cli.moments import rough

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from brokerjobs.cli.job_page import Page
    from brokerjobs.cli.job_words import Times

    Data = Mapping[str, Any]

HEADERS: Final = ("ID", "STATE", "SIZE", "AGE", "NAME", "ATTEMPT", "JOB", "ACKNOWLEDGED BY")
WHOLE: Final = frozenset({"ID", "STATE", "SIZE", "AGE", "JOB"})
NARROW_COLUMNS: Final = 5
_NAME_SHOWN: Final = 80
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STYLES: Final = {"acknowledged": "green", "mismatch": "red"}
_OF_NO_RESULT: Final = frozenset({"staging", "discarded"})  # whether their attempt is accepted or not
_WHY: Final = {
    "incomplete": "its upload never ended",
    "not_accepted": "its attempt's result could not be accepted any more",
    "acknowledged": "it was acknowledged",
    "unacknowledged": "nobody acknowledged it in time",
    "mismatch": "it was another than the recorded one, and nobody acknowledged a copy in time",
}


def size_of(count: int | None) -> str:
    """A size in the largest fitting unit, "" for none."""
    if count is None:
        return ""
    if count < 1024:
        return f"{count} B"
    amount, unit = float(count), ""
    for unit in _UNITS:  # noqa: B007  # the last one that was reached
        amount /= 1024
        if amount < 1023.95:
            break
    return f"{amount:.1f} {unit}"


def name_of(name: str, *, whole: bool = False) -> str:
    """A name, which may be long; cut unless the whole is wanted."""
    return name if whole or len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}… ({len(name)} characters)"


def state_of(artifact: Data) -> str:
    """Its state, whether its object is gone, and whether it is part of its job's result."""
    gone = ", gone" if artifact["removed_at"] else ""
    other = "" if artifact["visible"] or artifact["state"] in _OF_NO_RESULT else ", not accepted"
    return f"{artifact['state']}{other}{gone}"


def line(artifact: Data) -> tuple[str, ...]:
    """All of it for a program: sizes in bytes, times whole."""
    said: Data = artifact["acknowledged"] or {}
    return (
        artifact["id"],
        artifact["state"],
        "" if artifact["size"] is None else str(artifact["size"]),
        artifact["made_at"],
        artifact["name"],
        str(artifact["number"]),
        artifact["job"],
        said.get("by", ""),
        artifact["sha256"] or "",
        "accepted" if artifact["visible"] else "" if artifact["state"] in _OF_NO_RESULT else "not accepted",
        artifact["removed_at"] or "",
    )


def short(artifact: Data, now: datetime) -> tuple[str, ...]:
    """For a terminal: ages instead of times."""
    said: Data = artifact["acknowledged"] or {}
    return (
        artifact["id"],
        state_of(artifact),
        size_of(artifact["size"]),
        rough(now - datetime.fromisoformat(artifact["made_at"])),
        artifact["name"],
        f"#{artifact['number']}",
        artifact["job"],
        said.get("by", ""),
    )


def show(page: Page, artifact: Data, times: Times, *, whole: bool) -> None:
    """Prints its block."""
    name, number = name_of(artifact["name"], whole=whole), artifact["number"]
    page.heading(f"ARTIFACT  {name}  attempt {number}, {state_of(artifact)}")
    for label, value in _facts(artifact, times):
        page.fact(label, value, indent=2, style=_STYLES.get(label, ""))


def show_all(page: Page, job: Data, times: Times, *, whole: bool) -> None:
    """Prints the blocks of a job's artifacts."""
    for artifact in job.get("artifacts", ()):
        show(page, artifact, times, whole=whole)


def _facts(artifact: Data, times: Times) -> Iterator[tuple[str, str]]:
    yield "id", artifact["id"]
    size = artifact["size"]
    if size is not None:
        yield "size", size_of(size) if size < 1024 else f"{size_of(size)} ({size} bytes)"
        yield "sha256", artifact["sha256"]
    if artifact["content_type"]:
        yield "content", artifact["content_type"]
    yield "staged at", f"{artifact['store']}/{artifact['path']}"
    ready = f", ready {times.show(artifact['ready_at'])}" if artifact["ready_at"] else ", has not ended"
    yield "upload", f"begun {times.show(artifact['made_at'])}{ready if artifact['state'] != 'discarded' else ''}"
    if other := artifact["mismatch"]:
        there = "no object was there" if other["size"] is None else _other(other)
        yield "mismatch", f"{times.show(other['at'])}, found by {other['by']}: {there}"
    if said := artifact["acknowledged"]:
        login = "" if said["login"] == said["by"] else f" (login {said['login']})"
        yield "acknowledged", f"{times.show(said['at'])} by {said['by']}{login}, whose copy is at {said['copied_to']}"
    elif artifact["expires_at"] and not artifact["removing"]:
        yield "kept until", f"{times.ahead(artifact['expires_at'])}, unless it is acknowledged before"
    if artifact["removing"]:
        yield "removed" if artifact["removed_at"] else "to remove", _removal(artifact, times)


def _removal(artifact: Data, times: Times) -> str:
    removing: Data = artifact["removing"]
    why = _WHY.get(removing["why"], str(removing["why"]))
    if removing["detail"]:  # its worker has given it up, and says why
        why = f"its upload failed: {removing['detail']}"
    gone = artifact["removed_at"]
    return f"{times.show(gone) if gone else 'since ' + times.show(removing['at'])}, {why}"


def _other(found: Data) -> str:
    sha256 = f" with SHA-256 {found['sha256']}" if found["sha256"] else ""
    return f"{found['size']} bytes{sha256} were there"
