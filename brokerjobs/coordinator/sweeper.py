"""Removes staged copies from the store of artifacts, each once the ledger has recorded that it may go.

    recorded as to be removed (SQL) ─▶ deleted from the store ─▶ recorded as gone (SQL)

Ended at any step, what was recorded and is not gone is asked for again a minute later; deleting twice is harmless.  The
store is also looked through, page by page and round and round: what is there though it was recorded as gone (a paused
upload that has ended since) is deleted again, what the ledger does not know is recorded, and removed only if that is
asked for.  The ledger's connection, which all services of a process share, is never held while the store is asked.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from brokerjobs.coordinator.hands import Hands
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import ArtifactStoreRefused, ArtifactStoreUnavailable
from brokerjobs.ledger import sweeping
from brokerjobs.ledger.sweeping import Limits
from brokerjobs.ledger.ticks import Candidacy
from brokerjobs.rules.texts import counted, first_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.calls import ProcessIdentity
    from brokerjobs.ledger.database import AsyncLedgerConnection

Trouble: TypeAlias = ArtifactStoreUnavailable | ArtifactStoreRefused

NAME: Final = "sweeper"
_PAGE: Final = 1_000  # what S3 answers to one request
_LONGEST_TICK: Final = timedelta(minutes=1)
# Ten times as many are looked at in one statement, which takes half a millisecond for each (measured); the process's
# other services wait for it.  While there is more, the sweeper takes a third of the connection's time.
_BATCH: Final = 25
_REST: Final = 2
_MORE: Final = "more"
_SHORTEST_REST: Final = timedelta(milliseconds=20)
_KINDS: Final = 20  # of failures that are told of
_KIND: Final = 80  # characters
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# What else lies in a bucket was never ours, and is neither recorded nor removed.
_OURS: Final = re.compile(rf"{_UUID}/{_UUID}/{_UUID}")

_log = logging.getLogger(__name__)


class Store(Protocol):
    """What the sweeper needs of a store (`artifacts.store.ArtifactStore`); all of it blocks."""

    public: str

    def delete(self, path: str) -> None:
        """Removes an object, if it is there."""
        ...

    def page(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """The next paths behind `after` in order, with sizes in bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeping:
    """What the sweeper is told."""

    store: Store
    limits: Limits = field(default_factory=Limits)
    every: timedelta = timedelta(minutes=1)
    """How often it looks, while there is nothing more to remove."""
    remove_orphans_after: timedelta | None = None
    """After what time objects of which the ledger knows nothing are removed; None: never."""


def service_name(store: str) -> str:
    """Each store has a lead of its own: those who cannot reach it do not keep it from those who can."""
    return f"{NAME} {store}"


class Sweeper:
    """The service of one store."""

    def __init__(
        self,
        ledger: AsyncLedgerConnection,
        process: ProcessIdentity,
        told: Sweeping,
        periods: Periods,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        lead = told.every + _LONGEST_TICK + periods.service_lease
        self.name = service_name(told.store.public)
        self._ledger = ledger
        self._candidacy = Candidacy(self.name, process, lead.total_seconds())
        self._told = told
        self._store = told.store
        self._batch = min(periods.batch, _BATCH)
        self._piece = periods.batch
        self._monotonic = monotonic
        self._hands = Hands()
        self._until = 0.0
        """When the tick has to end."""
        self._rests_until = 0.0
        # A process that has just come first removes what is due.
        now = monotonic()
        self._round = _Round(now, next_page_at=now + told.every.total_seconds())
        self._complaints: set[str] = set()

    async def run_once(self) -> timedelta:
        """Remove one batch, and look at one page once in a period; soon again if there is more to remove.

        Raises ArtifactStoreUnavailable and ArtifactStoreRefused if nothing could be done: another process may do
        better. This one then leaves the store alone for a period.
        """
        began = self._monotonic()
        if began < self._rests_until:
            return LED_ELSEWHERE
        self._until = began + _LONGEST_TICK.total_seconds()
        query = sweeping.artifacts_to_remove(self._candidacy, self._store.public, self._told.limits, self._batch)
        rows = await self._ledger.fetch(query)
        if not rows[0].leading:
            return LED_ELSEWHERE
        asked = self._monotonic()
        due = {row.path: row for row in rows if row.path is not None}
        gone, trouble = await self._delete(list(due))
        await self._record(due, gone)
        if not (trouble and not gone) and began >= self._round.next_page_at:
            trouble = await self._look() or trouble
        if trouble and not gone:
            self._rests_until = self._monotonic() + self._told.every.total_seconds()
            raise trouble
        if not trouble:
            self._complaints.clear()
        if trouble or rows[-1].why != _MORE:
            return self._told.every
        return min(self._told.every, max(_SHORTEST_REST, timedelta(seconds=(asked - began) * _REST)))

    async def _record(self, due: dict[str, sweeping.ToRemove], gone: Sequence[str]) -> None:
        removed = [due[path] for path in gone]
        if not removed:
            return
        ids: list[UUID] = [row.id for row in removed if row.id is not None]
        await self._ledger.fetch(sweeping.artifacts_removed(ids))
        reasons = Counter(row.why for row in removed)
        what = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items(), key=str))
        lost = reasons["unacknowledged"] + reasons["mismatch"]
        # What nobody has said to have a safe copy of is worth a warning.
        level = logging.WARNING if lost else logging.INFO
        _log.log(level, "removed %s from %s: %s", counted(len(ids), "artifact", "artifacts"), self._store.public, what)

    async def _look(self) -> Trouble | None:
        """Asks the ledger about one page of the store, and removes what may go."""
        after, found = self._round.after, list[tuple[str, int]]()
        asked = await self._hands.each(
            lambda limit: found.extend(self._store.page(after, limit)), [_PAGE], self._left()
        )
        if not asked.done:
            return self._complain(asked.failed, "could not be listed")
        self._round.next_page_at = self._monotonic() + self._told.every.total_seconds()
        again: list[str] = []
        ours = [(path, size) for path, size in found if _OURS.fullmatch(path)]
        for some in _pieces(ours, self._piece):
            paths, sizes = [path for path, _ in some], [size for _, size in some]
            for known in await self._ledger.fetch(sweeping.artifacts_known(self._store.public, paths, sizes)):
                if known.verdict == "removed":
                    again.append(known.path)
                self._round.orphans += known.verdict == "orphan"
        gone, trouble = await self._delete(again)
        if gone:
            _log.info("deleted again what had come back to %s: %s", self._store.public, _objects(len(gone)))
        if len(found) < _PAGE:
            await self._end_round()
        else:
            self._round.after = found[-1][0]
        return await self._remove_orphans() or trouble

    async def _end_round(self) -> None:
        """What was recorded as an orphan before this round, and was not seen in it, is gone."""
        ended, now = self._round, self._monotonic()
        since = timedelta(seconds=now - ended.began)
        await self._ledger.fetch(sweeping.orphans_gone(self._store.public, since))
        if ended.orphans != ended.orphans_before and ended.orphans:
            message = "%s has %s of which the ledger knows nothing: brokerjobs doctor"
            _log.warning(message, self._store.public, _objects(ended.orphans))
        self._round = _Round(now, orphans_before=ended.orphans, next_page_at=ended.next_page_at)

    async def _remove_orphans(self) -> Trouble | None:
        after = self._told.remove_orphans_after
        if after is None:
            return None
        query = sweeping.orphans_to_remove(self._candidacy, self._store.public, after, self._batch)
        rows = await self._ledger.fetch(query)
        gone, trouble = await self._delete([row.path for row in rows if row.path is not None])
        if gone:
            await self._ledger.fetch(sweeping.orphans_removed(self._store.public, gone))
            message = "removed from %s, of which the ledger knew nothing for %g s: %s"
            _log.warning(message, self._store.public, after.total_seconds(), _objects(len(gone)))
        return trouble

    async def _delete(self, paths: Sequence[str]) -> tuple[Sequence[str], Trouble | None]:
        """Those that are gone now, and what kept others from going."""
        if not paths:
            return (), None
        outcome = await self._hands.each(self._store.delete, paths, self._left())
        missed = len(paths) - len(outcome.done)
        if not missed:
            return outcome.done, None
        return outcome.done, self._complain(outcome.failed, f"kept {missed} of {_objects(len(paths))}")

    def _left(self) -> float:
        return max(0.0, self._until - self._monotonic())

    def _complain(self, failed: Sequence[tuple[object, Exception]], what: str) -> Trouble:
        """What a failure means for the lead; each kind is told of once until all is well."""
        trouble = self._trouble(failed)
        kind = type(trouble).__name__ + trouble.problem[:_KIND].partition(":")[0]
        if kind not in self._complaints and len(self._complaints) < _KINDS:
            self._complaints.add(kind)
            _log.warning("the store %s, which is asked again later: %s", what, trouble)
        return trouble

    def _trouble(self, failed: Sequence[tuple[object, Exception]]) -> Trouble:
        if not failed:
            problem = f"no answer in time, {counted(self._hands.hanging, 'call is', 'calls are')} still waiting"
            return ArtifactStoreUnavailable(store=self._store.public, problem=problem)
        error = failed[0][1]
        if isinstance(error, (ArtifactStoreUnavailable, ArtifactStoreRefused)):
            return error
        problem = first_part(f"unexpected {type(error).__name__}: {error}", 400)
        return ArtifactStoreUnavailable(store=self._store.public, problem=problem)


@dataclass(slots=True)
class _Round:
    """One way through the whole store."""

    began: float
    orphans_before: int = 0
    next_page_at: float = 0.0
    after: str | None = None
    orphans: int = 0


def _objects(count: int) -> str:
    return counted(count, "object", "objects")


def _pieces(items: Sequence[tuple[str, int]], size: int) -> Iterator[Sequence[tuple[str, int]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
