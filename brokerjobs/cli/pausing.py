"""What the commands that pause and resume job types and queues share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from brokerjobs.cli import decision, output
from brokerjobs.cli.failures import NotFound, Refused, UsageError
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerjobs.ledger.database import LedgerConnection, Query
    from brokerjobs.ledger.decisions import Request
    from brokerjobs.ledger.pauses import Answer, Unparked

    Data = dict[str, Any]

_BATCH: Final = 200  # parked jobs that one statement rings

Why: TypeAlias = Annotated[str | None, typer.Option("--reason", show_default=False, help="Why, for the record.")]


@dataclass(frozen=True, slots=True)
class Kind:
    """Job types, or queues."""

    key: str  # what its name is called, in the ledger's JSON and ours
    words: str  # what its name comes after in a sentence
    none: str  # what is said of a name that is none
    command: str  # the group of its commands
    more: tuple[str, ...] = ()  # what its pauses have beside who, why and since when

    def place(self, found: Data) -> tuple[str, str]:
        """Namespace and name of one that was found."""
        return found["namespace"], found["name" if self.key == "type" else self.key]

    def only(self, found: Sequence[Data], name: str, namespace: str | None) -> Data:
        """The one that was found; raises NotFound, and UsageError if several namespaces have it."""
        if not found:
            where = f" in namespace {namespace!r}" if namespace else ""
            raise NotFound(f"{self.none.format(repr(name))}{where}", hint=f"{self.command} list")
        if len(found) > 1:
            names = ", ".join("/".join(self.place(one)) for one in found)
            message = f"several namespaces have a {self.words or 'job type '}{name!r}: {names}"
            raise UsageError(message, hint="write NAMESPACE/NAME")
        return found[0]


def pause(kind: Kind, ledger: LedgerConnection, where: tuple[str, str], asked: Request, query: Query[Answer]) -> Data:
    """Pause one; the ledger's answer. Raises NotFound, and Refused for what is paused already."""
    name = "/".join(where)
    [row] = decision.ask(ledger, query, asked)
    _check(kind, row.answer, name)
    if row.answer["verdict"] == "already":
        by, since, reason = (row.answer[key] for key in ("by", "since", "reason"))
        message = f"{kind.words}{name} is paused already, by {by} since {since}: {reason}"
        raise Refused(message, hint=f"{kind.command} resume {name}")
    return row.answer


def put_paused(kind: Kind, where: tuple[str, str], answer: Data, style: output.Format) -> None:
    """Say that it is paused."""
    name = "/".join(where)
    if style is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.pause/1", kind.key: name, "verdict": "paused", **_facts(kind, answer)})
        return
    ends = f"until {answer['until']}, or " if answer.get("until") else ""
    says = f"its jobs are accepted and wait {ends}until `{kind.command} resume {name}`"
    output.put(f"{kind.words}{name} is paused: {says}")


def why_resumed(asked: Request, reason: str | None) -> Request:
    """The request of a resume, which need not say why."""
    return replace(asked, reason=(reason or "").strip())


def resume(
    kind: Kind, ledger: LedgerConnection, where: tuple[str, str], asked: Request, query: Query[Answer]
) -> Data | None:
    """End the pause of one; the ledger's answer, None if it is not paused. Raises NotFound."""
    [row] = decision.ask(ledger, query, asked)
    _check(kind, row.answer, "/".join(where))
    return None if row.answer["verdict"] == "not_paused" else row.answer


def ring(ledger: LedgerConnection, unpark: Callable[[int], Query[Unparked]]) -> int:
    """Ring what is parked, in bounded statements; what is busy just now is left to the coordinator."""
    rung = 0
    while True:
        [step] = ledger.fetch(unpark(_BATCH))
        rung += step.rung
        if not step.taken:
            return rung
        if step.taken == _BATCH:
            output.say(f"{rung} parked jobs rung so far")


def put_resumed(kind: Kind, where: tuple[str, str], answer: Data | None, rung: int, style: output.Format) -> None:
    """Say that it is resumed, or was not paused."""
    name = "/".join(where)
    if style is output.Format.JSON:
        data = {"schema": "brokerjobs.resume/1", kind.key: name, "verdict": "resumed" if answer else "not_paused"}
        output.put_json(data | {"rung": rung} | _facts(kind, answer or {}))
    elif answer is None:
        output.put(f"{kind.words}{name} is not paused")
    else:
        jobs = counted(rung, "parked job was", "parked jobs were")
        output.put(f"{kind.words}{name} is resumed; {jobs} rung")


def _check(kind: Kind, answer: Data, name: str) -> None:
    if answer["verdict"].startswith("unknown_"):
        raise NotFound(kind.none.format(name), hint=f"{kind.command} list")
    if answer["verdict"] == "request_reused":
        message = "--request was used for something else before"
        raise Refused(message, hint="leave it out: an id is made")


def _facts(kind: Kind, answer: Data) -> Data:
    return {key: answer.get(key) for key in ("by", "reason", "since", *kind.more)}
