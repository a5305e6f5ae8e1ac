"""One typed query for each ledger function of processes and coordinator services: who lives, who leads, what is due.

As in `calls`, a query does nothing by itself; `fetch` of a connection runs it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from brokerjobs.ledger.calls import Nothing, ProcessIdentity, array_literal
from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Expired:
    """An attempt that was given up, and where its job went."""

    job_id: UUID
    attempt_id: UUID
    state: str
    until: datetime | None


def expire(process: ProcessIdentity, limit: int) -> Query[Expired]:
    """Gives up attempts whose lease is over."""
    return Query("select * from brokerjobs.expire(%s, %s)", [process.name, limit], Expired)


@dataclass(frozen=True, slots=True)
class Due:
    """A job whose waiting ended."""

    job_id: UUID
    state: str


def due(limit: int) -> Query[Due]:
    """Ends the waiting of jobs that are due, or past their deadline."""
    return Query("select * from brokerjobs.due(%s)", [limit], Due)


@dataclass(frozen=True, slots=True)
class Taken:
    """A message to publish; the last row has kind `mark` and says where the next scan may start."""

    kind: str
    ticket: UUID | None
    job_id: UUID | None
    namespace: str | None
    type: str | None
    route: str | None
    traceparent: str | None
    body: str | None
    mark: str | None


def outbox_take(start_at: str, limit: int) -> Query[Taken]:
    """Takes messages from the outbox; `start_at` is the mark of the last scan, "0" for all."""
    return Query(
        "select kind, ticket, job_id, namespace, type, route, traceparent, body, mark::text"
        " from brokerjobs.outbox_take(%s::xid8, %s)",
        [start_at, limit],
        Taken,
    )


def outbox_done(tickets: Sequence[UUID]) -> Query[Nothing]:
    """Marks messages whose publish was confirmed."""
    return Query("select brokerjobs.outbox_done(%s::uuid[])", [array_literal(tickets)], Nothing)


@dataclass(frozen=True, slots=True)
class Route:
    """A route that must exist at the broker."""

    name: str
    namespace: str


def routes_declared(names: Sequence[str]) -> Query[Nothing]:
    """Records that routes exist at the broker."""
    return Query("select brokerjobs.routes_declared(%s::text[])", [list(names)], Nothing)


def routes_refused(troubles: Mapping[str, dict[str, Any]]) -> Query[Nothing]:
    """Records why routes could not be declared: {queue, argument, existing, wanted}, by the route's name."""
    texts = [json.dumps(trouble) for trouble in troubles.values()]
    return Query("select brokerjobs.routes_refused(%s::text[], %s::text[]::jsonb[])", [list(troubles), texts], Nothing)


@dataclass(frozen=True, slots=True)
class RouteStanding:
    """Whether a route is declared, and what stands in the way if that is known."""

    name: str
    namespace: str
    declared: bool
    trouble: dict[str, Any] | None


def routes_standing(names: Sequence[str]) -> Query[RouteStanding]:
    """How routes stand at the broker, as far as whoever may declare them has found out."""
    return Query("select * from brokerjobs.routes_standing(%s::text[])", [list(names)], RouteStanding)


@dataclass(frozen=True, slots=True)
class Leads:
    """Does this process lead the service now?"""

    leading: bool


def lead(service: str, process: ProcessIdentity, seconds: float) -> Query[Leads]:
    """Takes or keeps the lead of a service; 0 seconds gives it up."""
    return Query("select brokerjobs.lead(%s, %s, %s, %s)", [service, process.id, process.name, seconds], Leads)


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a service, and for how long yet (negative: nobody does)."""

    service: str
    holder: UUID
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a process says of itself with each heartbeat."""

    process: ProcessIdentity
    role: str
    namespace: str | None
    types: Sequence[str]
    routes: Sequence[str]
    state: str
    observed_at: datetime
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Beaten:
    """A row of the answer to a heartbeat: one leader, or none if no service ever had one, and the ledger's clock.

    `paused` are the process's types that are paused, the same in every row.
    """

    service: str | None
    holder: UUID | None
    seconds_left: float | None
    at: datetime
    paused: list[str]


def leaders(rows: Sequence[Beaten]) -> list[Leader]:
    """The leaders that a heartbeat was answered with."""
    return [
        Leader(row.service, row.holder, row.seconds_left)
        for row in rows
        if row.service is not None and row.holder is not None and row.seconds_left is not None
    ]


def heartbeat(beat: Heartbeat) -> Query[Beaten]:
    """Keeps a process in the list of the living; answers `leaders`, clock and paused types."""
    return Query(
        "select * from brokerjobs.sign_of_life(%s, %s, %s, %s, %s, %s, %s::text[], %s::text[], %s, %s, %s::jsonb)",
        _said(beat),
        Beaten,
    )


def _said(beat: Heartbeat) -> list[Any]:
    process = beat.process
    return [
        process.id,
        beat.role,
        beat.namespace,
        process.name,
        process.host,
        process.pid,
        list(beat.types),
        list(beat.routes),
        beat.state,
        beat.observed_at,
        json.dumps(beat.detail),
    ]


@dataclass(frozen=True, slots=True)
class WorkerBeaten:
    """The answer to a heartbeat: the ledger's clock, who leads what, what is paused, the routes of its types."""

    at: datetime
    leaders: list[dict[str, Any]]
    paused: list[str]
    paused_queues: list[str]
    routes: list[dict[str, Any]]

    def who_leads(self) -> list[Leader]:
        """The leaders of the services that ever had one."""
        return [Leader(one["service"], UUID(one["holder"]), one["seconds_left"]) for one in self.leaders]


def worker_beat(beat: Heartbeat) -> Query[WorkerBeaten]:
    """Keeps a worker in the list of the living; `routes` are as of `routes_of_types`."""
    return Query(
        "select * from brokerjobs.worker_beat(%s, %s, %s, %s, %s, %s, %s::text[], %s::text[], %s, %s, %s::jsonb)",
        _said(beat),
        WorkerBeaten,
    )


@dataclass(frozen=True, slots=True)
class RoutesOfTypes:
    """{name, queue, lane, needs, types, declared} of each route."""

    routes: list[dict[str, Any]]


def routes_of_types(namespace: str, types: Sequence[str]) -> Query[RoutesOfTypes]:
    """The routes by which jobs of these types come now."""
    return Query("select brokerjobs.routes_of_types(%s, %s::text[]) as routes", [namespace, list(types)], RoutesOfTypes)


@dataclass(frozen=True, slots=True)
class Registered:
    """What registering a job type did: added | same | differs | changed."""

    name: str
    verdict: str
    was: dict[str, Any] | None
    wanted: dict[str, Any] | None


def register_types(namespace: str, types: Sequence[dict[str, Any]], *, change: bool) -> Query[Registered]:
    """Registers job types; only `change`, which is the owner's, changes the terms of known ones."""
    if change:
        sql: LiteralString = "select * from brokerjobs.change_types(%s, %s::jsonb)"
    else:
        sql = "select * from brokerjobs.register_types(%s, %s::jsonb)"
    return Query(sql, [namespace, json.dumps(list(types))], Registered)


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The ledger's schema and the oldest code that it serves."""

    schema_version: int
    oldest_code: int


def schema_version() -> Query[SchemaVersion]:
    """What schema the ledger has."""
    return Query("select * from brokerjobs.schema_version()", [], SchemaVersion)
