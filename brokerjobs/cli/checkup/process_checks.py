"""Who is there, who leads, and what waits for somebody who is not."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.cli.checkup.findings import fail, ok, several, warn
from brokerjobs.cli.failures import ExitCode
from brokerjobs.cli.moments import rough
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.broker.inspection import Inspection
    from brokerjobs.cli.checkup.findings import Finding, Limits
    from brokerjobs.ledger.inspection import LedgerLook

_COORDINATOR: Final = "brokerjobs coordinator"
_COUNTED: Final = 10_000  # as far as the ledger counts
# Led for seconds at a time: without a leader of these no coordinator is there.  The others are led for up to an hour.
_QUICK: Final = frozenset({"relay", "reaper", "scheduler"})


def coordinators(ledger: LedgerLook, services: frozenset[str], limits: Limits) -> Iterator[Finding]:
    """Is each service led, and by whom?  Without that no retry, schedule, deadline or expiry comes about."""
    # Where nobody is there at all, nobody can be about to take over.
    silent = limits.grace.total_seconds() if ledger.processes else 0.0
    lost = {name for name in services if name not in ledger.services or ledger.services[name].seconds_left < -silent}
    if lost >= _QUICK:
        message = "no coordinator runs: nothing is rung, retried, expired or ended"
        if ledger.outbox_messages or ledger.waiting:
            yield fail("coordinator", f"{message}, and jobs wait for it", _COORDINATOR, ExitCode.UNREACHABLE)
        else:
            yield warn("coordinator", message, _COORDINATOR)
        return
    if lost:
        message = f"services that nobody leads: {several(sorted(lost))}"
        yield warn("coordinator", message, f"{_COORDINATOR} says in its log why it does not run one")
    led = services - lost
    holders = sorted({ledger.services[name].holder for name in led})
    yield ok("coordinator", f"{len(led)} of {len(services)} services are led, by {several(holders)}")


def outbox(ledger: LedgerLook, limits: Limits) -> Iterator[Finding]:
    """Rings and dead letters that should have been published."""
    age = timedelta(seconds=round(ledger.outbox_oldest_seconds or 0.0))
    said = f"{_counted(ledger.outbox_messages, 'message waits', 'messages wait')} to be published"
    if ledger.outbox_messages and age > limits.outbox:
        message = f"{said}, the oldest for {show_duration(age)}"
        yield warn("outbox", message, f"is the broker up, does every route exist? The log of {_COORDINATOR} says it")
    else:
        yield ok("outbox", said)


def waiting(ledger: LedgerLook) -> Iterator[Finding]:
    """Jobs that wait for a delivery on a route that no living worker serves."""
    served = {route for one in ledger.processes if one.role == "worker" for route in one.routes}
    alone = {route: count for route, count in sorted(ledger.waiting.items()) if route not in served}
    for route, count in alone.items():
        message = f"{_counted(count, 'job waits', 'jobs wait')} on {route}, which no worker serves"
        yield warn("workers", message, "brokerjobs worker module:app, of the application that has the job type")
    if not alone:
        workers = sum(one.role == "worker" for one in ledger.processes)
        there = counted(workers, "is there", "are there")
        waits = _counted(sum(ledger.waiting.values()), "job waits", "jobs wait")
        yield ok("workers", f"{there}; {waits} for a delivery")


def processes(ledger: LedgerLook) -> Iterator[Finding]:
    """Processes that fell silent without a word, and handlers that hold places and cannot be stopped."""
    gone, leaking = ledger.gone, {one.name: one.leaked for one in ledger.processes if one.leaked}
    if gone.count:
        age = rough(timedelta(seconds=max(1, round(gone.last_seconds))))
        message = (
            f"{counted(gone.count, 'process', 'processes')} of the last day fell silent without a word, the last one "
            f"{age} ago: {several(gone.names)}{' …' if gone.count > len(gone.names) else ''}"
        )
        yield warn(
            "processes", message, "their supervisor's log says why (killed, want of memory); their jobs are tried again"
        )
    if leaking:
        on = several([f"{name} ({count})" for name, count in sorted(leaking.items())])
        message = f"handlers that cannot be stopped hold places after the end of their attempts, on {on}"
        next_ = "that worker's log names their jobs; at worker.leaked_threads it ends with code 12, to be started again"
        yield warn("processes", message, next_)
    if not gone.count and not leaking:
        draining = sum(one.state == "draining" for one in ledger.processes)
        said = f"{counted(len(ledger.processes), 'is there', 'are there')}, {draining} of them draining"
        yield ok("processes", f"{said}; none fell silent without a word")


def probes(ledger: LedgerLook, lost_after: timedelta) -> Iterator[Finding]:
    """Probes that are under way, and those that should have come back: their queues stand still, or lost them."""
    for one in ledger.probes:
        age = timedelta(seconds=round(one.oldest_seconds))
        if age >= lost_after:
            out = counted(one.count, "probe has", "probes have")
            message = f"{out} not come back through {one.route}, the oldest for {show_duration(age)}"
            yield warn(
                "probes", message, "is a worker of it stopped? The queue's messages and consumers say what stands"
            )
    under_way = [one for one in ledger.probes if one.oldest_seconds < lost_after.total_seconds()]
    if len(under_way) == len(ledger.probes):
        oldest = max((one.oldest_seconds for one in under_way), default=0.0)
        since = f", the oldest for {show_duration(timedelta(seconds=round(oldest)))}" if under_way else ""
        count = sum(one.count for one in under_way)
        yield ok("probes", f"{counted(count, 'probe is', 'probes are')} under way{since}; none is lost")


def reviews(ledger: LedgerLook) -> Iterator[Finding]:
    """Jobs whose outcome is unknown: nothing happens to them by itself."""
    if ledger.reviews:
        message = f"{_counted(ledger.reviews, 'job is', 'jobs are')} in review: the outcome is unknown"
        yield warn("reviews", message, "brokerjobs review list")
    else:
        yield ok("reviews", "no job is in review")


def quarantine(ledger: LedgerLook, broker: Inspection | None) -> Iterator[Finding]:
    """Messages that were not ours to run, in the last day, and those that lie at the broker."""
    next_ = "brokerjobs quarantine list"
    reasons = [f"{reason} ({count})" for reason, count in sorted(ledger.quarantined.items(), key=lambda one: -one[1])]
    if reasons:
        count = sum(ledger.quarantined.values())
        said = _counted(count, "message", "messages")
        yield warn("quarantine", f"{said} in the last day: {several(reasons)}", next_)
    lying = {
        one.name: one.messages
        for one in (broker.found if broker else ())
        if one.messages and one.name.endswith(".quarantine")
    }
    for name, messages in lying.items():
        lies = _counted(messages, "message lies", "messages lie")
        take = f"brokerjobs quarantine export --namespace {name.removesuffix('.quarantine')} --take FILE"
        yield warn("quarantine", f"{lies} in {name}", take)
    if not reasons and not lying:
        yield ok("quarantine", "nothing")


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} or more {several}" if count >= _COUNTED else counted(count, one, several)
