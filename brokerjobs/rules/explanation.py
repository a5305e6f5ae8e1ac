"""Why none of the living workers runs a job: what each need fails by, and the worker that comes nearest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from brokerjobs.rules.needs import AtLeast, Equal, Has, OneOf, worker_needs
from brokerjobs.rules.placement import NO_TEXTS, Unmet, checked, what
from brokerjobs.rules.quantities import Quantity, read_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from brokerjobs.rules.capabilities import Capabilities
    from brokerjobs.rules.needs import Need, WorkerNeed

Because: TypeAlias = Literal["none", "busy", "draining", "paused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A living worker, as its last heartbeat shows it to one job type."""

    name: str
    capabilities: Capabilities
    handles: bool  # has it a handler for the type?
    draining: bool = False
    paused: bool = False  # are the type or its queue paused, for this worker?
    free: bool = True  # may it take one more job now?


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Why a job waits for placement: what the living workers do not meet, and the one that comes nearest.

    `because`: "none" (no living worker qualifies), else the qualified ones are all "busy", "draining" or "paused"; None
    if one of them may take the job now.
    """

    workers: int
    qualified: int
    because: Because | None
    unmet: tuple[UnmetBy, ...]
    no_handler: int
    nearest: tuple[str, tuple[str, ...]] | None
    text: str

    def as_data(self) -> dict[str, Any]:
        """The report as JSON values: the ledger's form."""
        return {
            "workers": self.workers,
            "qualified": self.qualified,
            "because": self.because,
            "unmet": [{"need": one.need.as_data(), "workers": one.workers, "text": one.text} for one in self.unmet],
            "no_handler": self.no_handler,
            "nearest": self.nearest and {"worker": self.nearest[0], "unmet": list(self.nearest[1])},
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class UnmetBy:
    """A need, and how many workers fail it in one way: "2 lack gpu"."""

    need: WorkerNeed
    workers: int
    text: str


def explain(needs: Iterable[Need], workers: Sequence[Seen], *, job_type: str) -> Report:
    """Why a job of `job_type` (such as "payments/charge") with these needs is run by none of the living workers.

    Each need is compared once with each different capability of its name; workers whose capabilities are equal are
    looked at together, which is cheapest if they share the object.
    """
    groups: dict[Capabilities, list[Seen]] = {}
    for worker in workers:
        groups.setdefault(worker.capabilities, []).append(worker)
    failed: list[tuple[Capabilities, list[Unmet]]] = [(one, []) for one in groups]
    counted: list[UnmetBy] = []
    for need in worker_needs(needs):
        known: dict[tuple[str, ...], Unmet | None] = {}
        by_way: dict[bool, list[tuple[int, Unmet, tuple[str, ...]]]] = {}
        for capabilities, misses in failed:
            texts = capabilities.texts.get(need.name, NO_TEXTS)
            if texts not in known:
                known[texts] = checked(need, texts)
            if (miss := known[texts]) is not None:
                misses.append(miss)
                by_way.setdefault(miss.lacks, []).append((len(groups[capabilities]), miss, texts))
        counted += (_together(need, by_way[way]) for way in sorted(by_way, reverse=True))
    able = [one for capabilities, misses in failed if not misses for one in groups[capabilities] if one.handles]
    no_handler = sum(not one.handles for one in workers)
    lines = [one.text for one in counted]
    if no_handler:
        lines.append(f"{no_handler} {'has' if no_handler == 1 else 'have'} no handler for {job_type}")
    because = _because(able)
    return Report(
        workers=len(workers),
        qualified=len(able),
        because=because,
        unmet=tuple(counted),
        no_handler=no_handler,
        nearest=None if able else _nearest(failed, groups, job_type),
        text=_text(len(workers), len(able), because, lines),
    )


def _together(need: WorkerNeed, ways: list[tuple[int, Unmet, tuple[str, ...]]]) -> UnmetBy:
    """All workers that fail a need in the same way; where they have different texts, in words that fit them all."""
    count = sum(workers for workers, _, _ in ways)
    miss = ways[0][1]
    if miss.lacks:
        return UnmetBy(need, count, f"{count} {'lacks' if count == 1 else 'lack'} {what(need)}")
    if len(ways) == 1 or len({one.text for _, one, _ in ways}) == 1:
        return UnmetBy(need, count, f"{count} {miss.text}")
    match need:
        case AtLeast(name, value):
            return UnmetBy(need, count, f"{count} {name} {_range(need, [texts for _, _, texts in ways])} < {value}")
        case OneOf(name, values):
            return UnmetBy(need, count, f"{count} {name} is not {' or '.join(values)}")
        case Equal(name, value) | Has(name, value):
            return UnmetBy(need, count, f"{count} {name} is not {value}")


def _range(need: AtLeast, several: list[tuple[str, ...]]) -> str:
    read: list[tuple[Quantity, str]] = []
    for texts in several:
        quantity = read_quantity(texts[0]) if len(texts) == 1 else None
        if quantity is not None and quantity.unit == need.quantity.unit:
            read.append((quantity, texts[0]))
    read.sort(key=lambda one: one[0].amount)
    return f"{read[0][1]} to {read[-1][1]}" if len(read) > 1 else read[0][1] if read else "no quantity"


def _because(able: list[Seen]) -> Because | None:
    if not able:
        return "none"
    staying = [one for one in able if not one.draining]
    if not staying:
        return "draining"
    taking = [one for one in staying if not one.paused]
    if not taking:
        return "paused"
    return None if any(one.free for one in taking) else "busy"


def _nearest(
    failed: list[tuple[Capabilities, list[Unmet]]], groups: Mapping[Capabilities, list[Seen]], job_type: str
) -> tuple[str, tuple[str, ...]] | None:
    near = [
        (len(misses) + (not worker.handles), worker.name, worker.handles, misses)
        for capabilities, misses in failed
        for worker in groups[capabilities]
    ]
    if not near:
        return None
    _, name, handles, misses = min(near, key=lambda one: one[:2])
    lines = [one.text for one in misses] + ([] if handles else [f"has no handler for {job_type}"])
    return name, tuple(lines)


def _text(workers: int, qualified: int, because: Because | None, lines: list[str]) -> str:
    if not workers:
        return "no worker is alive"
    several = "worker" if workers == 1 else "workers"
    if not qualified:
        return f"0 of {workers} {several}: {', '.join(lines)}"
    verb = "qualifies" if qualified == 1 else "qualify"
    says = {
        None: "and may take it now",
        "none": "",
        "busy": "all busy" if qualified > 1 else "busy",
        "draining": "about to stop" if qualified == 1 else "all about to stop",
        "paused": "paused",
    }[because]
    return f"{qualified} of {workers} {several} {verb}, {says}"
