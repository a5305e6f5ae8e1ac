"""Why none of the living workers runs a job: what each need fails by, and the worker that comes nearest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from brokerjobs.rules.needs import AtLeast, Equal, Has, OneOf, worker_needs
from brokerjobs.rules.placement import NO_TEXTS, Unmet, checked, what
from brokerjobs.rules.quantities import read_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from brokerjobs.rules.capabilities import Capabilities
    from brokerjobs.rules.needs import Need, WorkerNeed

Because: TypeAlias = Literal["none", "busy", "draining", "paused"]


class Seen(NamedTuple):
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


class _Fleet:
    """The capabilities of some workers, one name at a time: made once for all job types that the same workers see."""

    def __init__(self, capabilities: Sequence[Capabilities]) -> None:
        self._texts = [one.texts for one in capabilities]
        self._known: dict[str, tuple[list[tuple[str, ...]], Counter[tuple[str, ...]]]] = {}

    def having(self, name: str) -> tuple[list[tuple[str, ...]], Counter[tuple[str, ...]]]:
        """What each worker has of that name, in their order, and how many have the same."""
        if name not in self._known:
            each = [texts.get(name, NO_TEXTS) for texts in self._texts]
            self._known[name] = each, Counter(each)
        return self._known[name]


_fleet = lru_cache(maxsize=64)(_Fleet)


def explain(needs: Iterable[Need], workers: Sequence[Seen], *, job_type: str) -> Report:
    """Why a job of `job_type` (such as "payments/charge") with these needs is run by none of the living workers.

    Each need is compared once with each different capability of its name.  Asked again for the same workers it costs
    least if they share their capabilities.
    """
    fleet = _fleet(tuple([one.capabilities for one in workers]))
    missed = [0 if one.handles else 1 for one in workers]
    counted: list[UnmetBy] = []
    ways: list[tuple[list[tuple[str, ...]], dict[tuple[str, ...], Unmet]]] = []
    for need in worker_needs(needs):
        each, tally = fleet.having(need.name)
        found = {texts: miss for texts in tally if (miss := checked(need, texts)) is not None}
        if found:
            missed = [count + (texts in found) for count, texts in zip(missed, each, strict=True)]
            ways.append((each, found))
            counted += _counted(need, tally, found)
    able = [one for one, count in zip(workers, missed, strict=True) if not count]
    no_handler = sum(not one.handles for one in workers)
    lines = list(dict.fromkeys(one.text for one in counted))  # two needs of one name may fail alike
    if no_handler:
        lines.append(f"{no_handler} {'has' if no_handler == 1 else 'have'} no handler for {job_type}")
    because = _because(able)
    return Report(
        workers=len(workers),
        qualified=len(able),
        because=because,
        unmet=tuple(counted),
        no_handler=no_handler,
        nearest=None if able else _nearest(workers, missed, ways, job_type),
        text=_text(len(workers), len(able), because, lines),
    )


def _counted(
    need: WorkerNeed, tally: Mapping[tuple[str, ...], int], found: Mapping[tuple[str, ...], Unmet]
) -> Iterator[UnmetBy]:
    """First those who lack it, then those who have something else."""
    for lacks in (True, False):
        ways = {texts: found[texts] for texts in found if found[texts].lacks is lacks}
        if ways:
            count = sum(tally[texts] for texts in ways)
            yield UnmetBy(need, count, f"{count} {_together(need, ways, count)}")


def _together(need: WorkerNeed, ways: Mapping[tuple[str, ...], Unmet], count: int) -> str:
    """How some workers fail a need; where they have different texts, in words that fit them all."""
    first = next(iter(ways.values()))
    if first.lacks:
        return f"{'lacks' if count == 1 else 'lack'} {what(need)}"
    if len(ways) == 1:
        return first.text
    match need:
        case AtLeast(name, value):
            return f"{name} {_range(need, ways)} < {value}"
        case OneOf(name, values):
            return f"{name} is not {' or '.join(values)}"
        case Equal(name, value) | Has(name, value):
            return f"{name} is not {value}"


def _range(need: AtLeast, several: Iterable[tuple[str, ...]]) -> str:
    single = {texts[0]: read_quantity(texts[0]) for texts in several if len(texts) == 1}
    read = {text: one for text, one in single.items() if one is not None and one.unit == need.quantity.unit}
    if not read:
        return "no quantity"
    ordered = sorted(read, key=lambda text: (read[text].amount, text))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


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
    workers: Sequence[Seen],
    missed: Sequence[int],
    ways: Iterable[tuple[list[tuple[str, ...]], dict[tuple[str, ...], Unmet]]],
    job_type: str,
) -> tuple[str, tuple[str, ...]] | None:
    """The worker that misses least, the first by name, and what it misses."""
    if not workers:
        return None
    fewest = min(missed)
    name, place = min((one.name, place) for place, one in enumerate(workers) if missed[place] == fewest)
    lines = dict.fromkeys(found[each[place]].text for each, found in ways if each[place] in found)
    return name, (*lines, *(() if workers[place].handles else (f"has no handler for {job_type}",)))


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
