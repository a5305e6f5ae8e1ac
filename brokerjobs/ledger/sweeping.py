"""The queries of the sweeper: objects of artifacts leave their store, each only once the ledger says that it may.

As in `ticks`, the work is given the lead by its own statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from brokerjobs.ledger.arrays import Texts, Uuids
from brokerjobs.ledger.calls import Nothing, array_literal
from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from brokerjobs.ledger.ticks import Candidacy


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """After what time the sweeper removes what is safe to remove."""

    incomplete: timedelta = timedelta(hours=1)
    """Uploads that were never finished, from their beginning."""
    rejected: timedelta = timedelta(days=1)
    """Outputs that cannot be accepted any more, from when that was first seen."""
    grace: timedelta = timedelta(hours=1)
    """Acknowledged ones, from their acknowledgement."""


@dataclass(frozen=True, slots=True)
class ToRemove:
    """A row of `artifacts_to_remove`; without an id if nothing is to be removed, or (`more`) not all was looked at."""

    leading: bool
    id: UUID | None
    path: str | None
    why: str | None


def artifacts_to_remove(candidacy: Candidacy, store: str, limits: Limits, limit: int) -> Query[ToRemove]:
    """Records what is to be removed from `store`, and answers it, with what was asked before and is not gone yet."""
    return Query(
        "select l.leads, t.id, t.path, t.why from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.artifacts_to_remove(%s, %s, %s, %s, case when l.leads then %s else 0 end) t"
        " on true",
        [*candidacy.params(), store, limits.incomplete, limits.rejected, limits.grace, limit],
        ToRemove,
    )


def artifacts_removed(ids: Sequence[UUID]) -> Query[Nothing]:
    """Records that the objects of artifacts are gone."""
    return Query("select brokerjobs.artifacts_removed(%s::uuid[])", [Uuids(ids)], Nothing)


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object that a store has: known | removed (its row says that it is gone: delete it) | orphan (recorded)."""

    path: str
    verdict: str


def artifacts_known(store: str, paths: Sequence[str], sizes: Sequence[int]) -> Query[KnownObject]:
    """Asks about objects that were found in `store` by looking, with their sizes in bytes."""
    return Query(
        "select * from brokerjobs.artifacts_known(%s, %s::text[], %s::bigint[])",
        [store, Texts(paths), array_literal(sizes)],
        KnownObject,
    )


@dataclass(frozen=True, slots=True)
class OrphanToRemove:
    """A row of `orphans_to_remove`; without a path if there is none."""

    leading: bool
    path: str | None


def orphans_to_remove(candidacy: Candidacy, store: str, after: timedelta, limit: int) -> Query[OrphanToRemove]:
    """Objects without any row that were first seen in `store` longer ago than `after`."""
    return Query(
        "select l.leads, t.path from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.orphans_to_remove(%s, %s, case when l.leads then %s else 0 end) t(path) on true",
        [*candidacy.params(), store, after, limit],
        OrphanToRemove,
    )


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object of which the ledger knows nothing; `size` in bytes, seen by looks into its store."""

    store: str
    path: str
    size: int
    first_seen_at: datetime
    last_seen_at: datetime


def list_orphans(store: str | None, after: Orphan | None, limit: int) -> Query[Orphan]:
    """Those in `store`, or in any, by store and when they were first seen; `after`: the last one seen; 1000 at most."""
    seen = (None, None, None) if after is None else (after.store, after.first_seen_at, after.path)
    return Query("select * from brokerjobs.list_orphans(%s, %s, %s, %s, %s)", [store, *seen, limit], Orphan)


def orphans_removed(store: str, paths: Sequence[str]) -> Query[Nothing]:
    """Records that orphans are gone."""
    return Query("select brokerjobs.orphans_removed(%s, %s::text[])", [store, Texts(paths)], Nothing)


def orphans_gone(store: str, since: timedelta) -> Query[Nothing]:
    """Records that orphans are gone which a look through the whole store, begun `since` ago, has not found."""
    return Query("select brokerjobs.orphans_gone(%s, %s)", [store, since], Nothing)
