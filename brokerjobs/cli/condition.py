"""What the ledger's overview means: at most ten lines, the worst first, each with the next command.

In this order: what stops everything first, then what loses time or waits for a person, last
what is only worth knowing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.cli import condition_artifacts
from brokerjobs.cli.checkup.findings import Level, several
from brokerjobs.cli.condition_words import DOCTOR, Line, age, be, jobs, many, short
from brokerjobs.coordinator import sweeper
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerjobs.cli.condition_words import Data

__all__ = ["MOST_LINES", "WAITS_TOO_LONG", "Condition", "Line", "condition_of"]

MOST_LINES: Final = 10
WAITS_TOO_LONG: Final = timedelta(minutes=5)
"""From when on a job that waits for a delivery is told of: a job is usually claimed in milliseconds."""
_QUICK: Final = frozenset({"relay", "reaper", "scheduler"})  # led for seconds at a time: one that is not stands still
_GRACE_SECONDS: Final = 15.0  # within that time another coordinator takes over
_BEHIND_SECONDS: Final = 30.0  # ten times what a relay takes for a backlog of thousands
_UNTAKEN_SECONDS: Final = 60.0  # the reaper spares attempts for a lease after an outage
_SWEEPERS: Final = sweeper.service_name("")
_COORDINATOR: Final = "brokerjobs coordinator"
_WORKER: Final = "brokerjobs worker MODULE:APP"
_WORKERS: Final = "brokerjobs workers"


@dataclass(frozen=True, slots=True)
class Condition:
    """What runs and waits in a sentence, and what is not as it should be, the worst first."""

    summary: str
    lines: list[Line]

    @property
    def well(self) -> bool:
        """Whether nothing is wrong; what is only worth knowing (level OK) is not wrong."""
        return all(line.level is Level.OK for line in self.lines)


def condition_of(overview: Data) -> Condition:
    """Judge an overview of the ledger."""
    lines = [line for judge in _JUDGES for line in judge(overview)]
    lines.sort(key=lambda line: line.level)  # stable: within a level they stay in the order of the judges
    workers = overview["workers"]
    there = f"{counted(workers['online'], 'worker', 'workers')} alive"
    running = f"{many(overview['running']['jobs'])} running, {many(overview['queued'])} waiting; {there}"
    if len(lines) > MOST_LINES - 1:
        kept, left = lines[: MOST_LINES - 2], lines[MOST_LINES - 2 :]
        about = several([line.about for line in left])
        lines = [*kept, Line("more", left[0].level, f"also: {about}", "brokerjobs status -o json")]
    return Condition(running, lines)


def _coordinators(overview: Data) -> Iterator[Line]:
    # That of a store is told of when something is left lying there: settings may have gone to another store.
    services = {one["name"]: one for one in overview["services"] if not one["name"].startswith(_SWEEPERS)}
    silent = {
        name: -services[name]["seconds_left"] if name in services else None
        for name in sorted(_QUICK | services.keys())
        if name not in services or services[name]["seconds_left"] < -_GRACE_SECONDS
    }
    if silent.keys() >= _QUICK:
        ages = [seconds for name, seconds in silent.items() if name in _QUICK and seconds is not None]
        since = f" for {age(min(ages))}" if ages else ""
        yield Line(
            "coordinator",
            Level.FAIL,
            f"no coordinator is alive{since}: nothing is rung, retried, expired or ended",
            _COORDINATOR,
        )
    elif silent:
        yield Line(
            "coordinator",
            Level.FAIL if silent.keys() & _QUICK else Level.WARN,
            f"services without a tick: {several(list(silent))}",
            DOCTOR,
        )


def _outbox(overview: Data) -> Iterator[Line]:
    waiting = overview["outbox"]
    if waiting["messages"] and waiting["oldest_seconds"] > _BEHIND_SECONDS:
        yield Line(
            "outbox",
            Level.FAIL,
            f"{many(waiting['messages'])} messages wait to be published, the oldest for "
            f"{age(waiting['oldest_seconds'])}",
            DOCTOR,
        )


def _deadlines(overview: Data) -> Iterator[Line]:
    past = overview["past_deadline"]
    if past["jobs"]:
        yield Line(
            "deadlines",
            Level.FAIL,
            f"{jobs(past['jobs'], 'is', 'are')} past the deadline, not yet recorded, by up to "
            f"{age(past['oldest_seconds'])}",
            f"brokerjobs jobs show {past['example']}",
        )


def _leases(overview: Data) -> Iterator[Line]:
    running = overview["running"]
    if running["expired"] and running["oldest_expired_seconds"] > _UNTAKEN_SECONDS:
        yield Line(
            "leases",
            Level.FAIL,
            f"{many(running['expired'])} expired {be(running['expired'], 'lease')} not yet taken, the oldest ended "
            f"{age(running['oldest_expired_seconds'])} ago",
            f"brokerjobs jobs show {running['example']}",
        )


def _waiting(overview: Data) -> Iterator[Line]:
    routes: Sequence[Data] = overview["waiting"]
    if not routes:
        return
    judged = sorted((_why(route) for route in routes), key=lambda one: one[0])
    (level, why, next_), route = judged[0], min(routes, key=lambda one: _why(one)[0])
    others = f" (and {counted(len(routes) - 1, 'other route', 'other routes')})" if len(routes) > 1 else ""
    yield Line(
        "waiting",
        level,
        f"{jobs(route['jobs'], 'waits', 'wait')} for a delivery on {route['route']}, up to "
        f"{age(route['oldest_seconds'])} already: {why}{others}",
        next_,
    )


def _unplaceable(overview: Data) -> Iterator[Line]:
    stuck: Sequence[Data] = overview["unplaceable"]
    if stuck:
        worst = stuck[0]
        others = f" (and {counted(len(stuck) - 1, 'other type', 'other types')})" if len(stuck) > 1 else ""
        yield Line(
            "placement",
            Level.FAIL,
            f"{jobs(worst['jobs'], 'waits', 'wait')} for a worker that can run {worst['type']}, "
            f"which none can for {age(worst['seconds'])}: {worst['text']}{others}",
            f"brokerjobs jobs explain {worst['example']}",
        )


def _why(route: Data) -> tuple[Level, str, str]:
    """Why jobs of a route wait so long, and what to do."""
    trouble = route["trouble"]
    if trouble:
        return Level.FAIL, f"its queue cannot be declared ({trouble['argument']} differs)", DOCTOR
    if route["declared"] is False:
        return Level.FAIL, "its queue is not declared yet", DOCTOR
    if not route["workers"]:
        return Level.FAIL, "no live worker serves it", _WORKER
    if not route["consuming"]:
        return (
            Level.FAIL,
            f"{counted(route['workers'], 'worker serves', 'workers serve')} it and none consumes it",
            DOCTOR,
        )
    if route["never_rung"] == route["jobs"]:
        return Level.FAIL, "the broker has confirmed no doorbell of theirs", DOCTOR
    busy = counted(route["consuming"], "worker is", "workers are")
    return Level.WARN, f"its {busy} behind", f"brokerjobs jobs show {route['example']}"


def _reviews(overview: Data) -> Iterator[Line]:
    reviews = overview["reviews"]
    if reviews["open"]:
        yield Line(
            "reviews",
            Level.WARN,
            f"{many(reviews['open'])} {be(reviews['open'], 'review')} open, "
            f"the oldest for {age(reviews['oldest_seconds'])}",
            "brokerjobs review list",
        )


def _dead(overview: Data) -> Iterator[Line]:
    dead = overview["dead"]
    if dead["jobs"]:
        largest = dead["largest"]
        what = ": ".join(filter(None, (largest["error_type"], largest["message"])))
        yield Line(
            "dead",
            Level.WARN,
            f"{jobs(dead['jobs'], 'has', 'have')} failed in the last day; the largest group, {largest['jobs']}, "
            f"of {largest['type']}: {short(what)}",
            f"brokerjobs dead show {largest['group_id']}",
        )


def _storms(overview: Data) -> Iterator[Line]:
    storms: Sequence[Data] = overview["storms"]
    if storms:
        worst = storms[0]
        others = f" (and {len(storms) - 1} more)" if len(storms) > 1 else ""
        yield Line(
            "retries",
            Level.WARN,
            f"{worst['route']} is in a storm of retries, {worst['retries']} to {worst['first_attempts']} first "
            f"attempts in five minutes: delays are stretched {worst['stretch']:.1f} times{others}",
            "brokerjobs jobs list --state queued",
        )


def _workers(overview: Data) -> Iterator[Line]:
    workers = overview["workers"]
    if workers["gone"]:
        yield Line(
            "workers",
            Level.WARN,
            f"{counted(workers['gone'], 'process is', 'processes are')} gone without a word, the last one "
            f"{age(workers['gone_seconds'])} ago: {several(workers['gone_names'])}",
            DOCTOR,
        )
    if workers["leaked"]:
        places = counted(int(workers["leaked"]), "place is", "places are")
        yield Line(
            "leaks",
            Level.WARN,
            f"{places} held by handlers that cannot be stopped, on {several(workers['leaked_names'])}",
            _WORKERS,
        )


def _quarantine(overview: Data) -> Iterator[Line]:
    gone = overview["quarantined"]
    if gone["messages"]:
        yield Line(
            "quarantine",
            Level.WARN,
            f"{many(gone['messages'])} {'message' if gone['messages'] == 1 else 'messages'} went to quarantine in the "
            f"last day, the last one {age(gone['last_seconds'])} ago; most often: {gone['reason']}",
            "brokerjobs quarantine list",
        )


def _paused(overview: Data) -> Iterator[Line]:
    paused: Sequence[Data] = overview["paused"]
    if not paused:
        return
    first = paused[0]
    name = f"{first['namespace']}/{first['type']}"
    others = f" (and {counted(len(paused) - 1, 'other type', 'other types')})" if len(paused) > 1 else ""
    yield Line(
        "paused",
        Level.OK,
        f"{name} is paused for {age(first['seconds'])} by {first['by']}: {short(first['reason'])}; "
        f"{many(first['parked'])} parked{others}",
        f"brokerjobs types resume {name}" if len(paused) == 1 else "brokerjobs types list",
    )


def _paused_queues(overview: Data) -> Iterator[Line]:
    paused: Sequence[Data] = overview["paused_queues"]
    if not paused:
        return
    first = paused[0]
    name = f"{first['namespace']}/{first['queue']}"
    until = f" until {first['until']}" if "until" in first else ""
    others = f" (and {counted(len(paused) - 1, 'other queue', 'other queues')})" if len(paused) > 1 else ""
    yield Line(
        "queues",
        Level.OK,
        f"queue {name} is paused for {age(first['seconds'])}{until} by {first['by']}: {first['reason'][:80]}; "
        f"{many(first['parked'])} parked{others}",
        f"brokerjobs queues resume {name}" if len(paused) == 1 else "brokerjobs queues list",
    )


def _draining(overview: Data) -> Iterator[Line]:
    workers = overview["workers"]
    if workers["draining"]:
        yield Line(
            "draining",
            Level.OK,
            f"{counted(workers['draining'], 'worker is', 'workers are')} draining: "
            f"{several(workers['draining_names'])}",
            _WORKERS,
        )


# The order of what is equally bad.
_JUDGES: Final = (
    _coordinators,
    _outbox,
    _deadlines,
    _leases,
    _unplaceable,
    _waiting,
    _reviews,
    _dead,
    condition_artifacts.artifacts,
    _storms,
    _workers,
    _quarantine,
    _paused,
    _paused_queues,
    _draining,
)
