"""Artifacts: can their store be used, is it private, and does somebody remove what may go?"""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.cli.checkup.findings import ok, warn
from brokerjobs.cli.moments import rough
from brokerjobs.coordinator.sweeper import service_name
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.cli.checkup.findings import Finding, Limits
    from brokerjobs.cli.checkup.store_look import StoreLook
    from brokerjobs.ledger.inspection import LedgerLook, StoreFigures

_CHECK: Final = "artifacts"
_COUNTED: Final = 10_000  # as far as the ledger counts


def artifacts(ledger: LedgerLook | None, store: StoreLook | None, limits: Limits) -> Iterator[Finding]:
    """What is wrong with each store that is recorded, and with the one of the settings."""
    found = [finding for one in (ledger.stores if ledger else ()) for finding in _of(one, ledger, limits)]
    if store is not None:
        found += [_problem(problem) for problem in store.problems]
    yield from found
    if store is not None and not found:
        tried = "takes, gives and removes objects" if store.probed else "has not been used yet"
        yield ok(_CHECK, f"{store.store} {tried}; {_staged(ledger, store.store)}")


def _of(one: StoreFigures, ledger: LedgerLook | None, limits: Limits) -> Iterator[Finding]:
    lead = ledger.services.get(service_name(one.store)) if ledger else None
    led = lead is not None and lead.seconds_left >= -limits.grace.total_seconds()
    if one.artifacts and not led:
        message = (
            f"{_many(one.artifacts, 'artifact is', 'artifacts are')} in {one.store}, from which nobody removes any"
        )
        yield warn(_CHECK, message, "set artifacts.url of a coordinator to it; its log says why it cannot")
    elif one.unremoved and one.unremoved_seconds is not None:
        message = f"{_many(one.unremoved, 'artifact has', 'artifacts have')} not gone from {one.store}"
        since = f", the first for {_age(one.unremoved_seconds)}"
        yield warn(_CHECK, message + since, "the log of the coordinator says what the store answers")
    elif one.unswept and one.unswept_seconds is not None:
        message = f"the sweeper of {one.store} is {_age(one.unswept_seconds)} behind"
        yield warn(_CHECK, message, "the log of the coordinator says what keeps it")
    if one.orphans:
        message = f"the ledger knows nothing of {_many(one.orphans, 'object', 'objects')} in {one.store}"
        next_ = (
            f"brokerjobs artifacts orphans --store {shlex.quote(one.store)} lists them; remove them, or set "
            "artifacts.remove_orphans_after; give each ledger a store or a prefix of its own"
        )
        yield warn(_CHECK, message, next_)


def _staged(ledger: LedgerLook | None, store: str) -> str:
    """How many are staged, and where else than in this store: its settings may be those of another machine."""
    counts = {one.store: one.artifacts for one in ledger.stores if one.artifacts} if ledger else {}
    here = _many(counts.pop(store, 0), "artifact is", "artifacts are")
    return ", ".join([f"{here} staged", *(f"{_figure(count)} in {other}" for other, count in counts.items())])


def _problem(problem: str) -> Finding:
    message, _, next_ = problem.rpartition(": ")
    has_next = next_.startswith(("chmod", "set "))
    return warn(_CHECK, message, next_) if has_next else warn(_CHECK, problem, "mend it")


def _many(count: int, one: str, more: str) -> str:
    return f"{_figure(count)} {more}" if count >= _COUNTED else counted(count, one, more)


def _figure(count: int) -> str:
    return f"{count} or more" if count >= _COUNTED else str(count)


def _age(seconds: float) -> str:
    return rough(timedelta(seconds=max(1, round(seconds))))
