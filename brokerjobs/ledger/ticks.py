"""The queries of the coordinator's services: each takes or keeps the lead and does its work in one statement.

The work is given `leading` by the lead, so that PostgreSQL has to ask for the lead first; a process that is not
leading works on nothing.  Nothing depends on the lead but the number of statements: the work is safe in any number
of copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger.calls import Nothing, ProcessIdentity, array_literal
from brokerjobs.ledger.database import Query
from brokerjobs.ledger.services import Route

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Candidacy:
    """A process that wants the lead of a service, for `seconds` from the statement's time on."""

    service: str
    process: ProcessIdentity
    seconds: float

    def params(self) -> list[object]:
        """Parameters of the ledger's `lead`."""
        return [self.service, self.process.id, self.process.name, self.seconds]


@dataclass(frozen=True, slots=True)
class Message:
    """A doorbell, or what is said of a failed job or a review with its body, that the relay is to publish."""

    kind: str
    ticket: UUID
    job_id: UUID
    namespace: str
    type: str
    route: str
    traceparent: str | None
    body: str | None


@dataclass(frozen=True, slots=True)
class Relayed:
    """A row of `relay`: one message, or (kind `mark`) where the next scan may start."""

    leading: bool
    kind: str | None
    ticket: UUID | None
    job_id: UUID | None
    namespace: str | None
    type: str | None
    route: str | None
    traceparent: str | None
    body: str | None
    mark: str | None

    def message(self) -> Message | None:
        """The message of this row, None if it is the mark."""
        if self.ticket is None or self.job_id is None:
            return None
        names = (self.namespace or "", self.type or "", self.route or "")
        return Message(self.kind or "", self.ticket, self.job_id, *names, self.traceparent, self.body)


def relay(candidacy: Candidacy, start_at: str, limit: int) -> Query[Relayed]:
    """Takes messages from the outbox; `start_at` is the mark of the last scan, "0" for all."""
    return Query(
        "select l.leads, t.kind, t.ticket, t.job_id, t.namespace, t.type, t.route, t.traceparent, t.body,"
        " t.mark::text from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.outbox_messages(%s::xid8, case when l.leads then %s else 0 end,"
        " '{doorbell,dead,review}') t on true",
        [*candidacy.params(), start_at, limit],
        Relayed,
    )


def outbox_refused(tickets: Sequence[UUID]) -> Query[Nothing]:
    """Gives back messages that the broker has in no queue, for another try after a second or more."""
    return Query("select brokerjobs.outbox_refused(%s::uuid[])", [list(tickets)], Nothing)


@dataclass(frozen=True, slots=True)
class Reaped:
    """A row of `reap`; without a job if nothing was given up. `opened`: the review that its step has opened."""

    leading: bool
    job_id: UUID | None
    attempt_id: UUID | None
    state: str | None
    until: datetime | None
    opened: dict[str, Any] | None


def reap(candidacy: Candidacy, limit: int) -> Query[Reaped]:
    """Gives up attempts whose lease is over; with limit 0 it only keeps the lead, and so the reaper's tick."""
    return Query(
        "select l.leads, t.job_id, t.attempt_id, t.state, t.until,"
        " case t.state when 'review' then brokerjobs.review_opening(t.job_id) end"
        " from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.expire(%s, case when l.leads then %s else 0 end) t on true",
        [*candidacy.params(), candidacy.process.name, limit],
        Reaped,
    )


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A row of `schedule`; without a job if none was due. `opened`: the review that its deadline has opened."""

    leading: bool
    job_id: UUID | None
    state: str | None
    opened: dict[str, Any] | None


def schedule(candidacy: Candidacy, limit: int) -> Query[Scheduled]:
    """Ends the waiting of jobs that are due, or past their deadline."""
    return Query(
        "select l.leads, t.job_id, t.state, case t.state when 'review' then brokerjobs.review_opening(t.job_id) end"
        " from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.due(case when l.leads then %s else 0 end) t on true",
        [*candidacy.params(), limit],
        Scheduled,
    )


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A row of `partition`; without a name if no partition was missing."""

    leading: bool
    name: str | None


def partition(candidacy: Candidacy, months_ahead: int) -> Query[Partitioned]:
    """Makes the event partitions that are missing."""
    return Query(
        "select l.leads, t.name from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.make_partitions(case when l.leads then %s else -1 end) t(name) on true",
        [*candidacy.params(), months_ahead],
        Partitioned,
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A row of `wanted_routes`; without a name if all routes are declared."""

    leading: bool
    name: str | None
    namespace: str | None

    def route(self) -> Route | None:
        """The route to declare, if the row has one."""
        return None if self.name is None or self.namespace is None else Route(self.name, self.namespace)


def wanted_routes(candidacy: Candidacy) -> Query[Wanted]:
    """Routes that are not yet declared at the broker."""
    return Query(
        "select l.leads, t.name, t.namespace from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join brokerjobs.routes_wanted() t on l.leads",
        candidacy.params(),
        Wanted,
    )


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a walk through the waiting jobs stands: the probes that it settles, and the last job that was looked at."""

    tickets: Sequence[UUID]
    after: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """How a look for lost doorbells is bounded."""

    rows: int
    """Waiting jobs that one statement looks at."""
    rings: int
    """Jobs that one statement rings again at most."""
    lost_seconds: float
    """After what time without its return a probe is followed by another."""
    hand_back_seconds: float
    """After what time no worker has what it received before a probe came back."""


@dataclass(frozen=True, slots=True)
class Probing:
    """A probe that is to be published through a route."""

    ticket: UUID
    route: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A row of `reconcile`: a probe, or (kind `walk`) what was rung again and how the walk goes on."""

    leading: bool
    kind: str | None
    ticket: UUID | None
    route: str | None
    namespace: str | None
    rung: int | None
    tickets: list[UUID] | None
    last: UUID | None

    def probe(self) -> Probing | None:
        """The probe to publish, if the row is one."""
        if self.ticket is None:
            return None
        return Probing(self.ticket, self.route or "", self.namespace or "")

    def walk(self) -> Walk | None:
        """How the walk goes on; None at its end."""
        return None if self.last is None else Walk(self.tickets or [], self.last)


def reconcile(candidacy: Candidacy, walk: Walk | None, looking: Looking) -> Query[Reconciled]:
    """Rings again, of the next jobs that wait for a delivery, those whose doorbell was lost; None begins a walk."""
    return Query(
        "select l.leads, t.* from brokerjobs.lead(%s, %s, %s, %s) l(leads)"
        " left join lateral brokerjobs.reconcile(%s, %s::uuid[], %s::uuid, case when l.leads then %s else 0 end, %s,"
        " make_interval(secs => %s), make_interval(secs => %s)) t on true",
        [
            *candidacy.params(),
            candidacy.process.name,
            array_literal(walk.tickets if walk else []),
            walk.after if walk else None,
            looking.rows,
            looking.rings,
            looking.lost_seconds,
            looking.hand_back_seconds,
        ],
        Reconciled,
    )


def probe_sent(confirmed: Sequence[UUID], others: Sequence[UUID]) -> Query[Nothing]:
    """Records which probes the broker has in their queues; `others` are forgotten, and made anew by the next look."""
    return Query(
        "select brokerjobs.probe_sent(%s::uuid[], %s::uuid[])",
        [array_literal(confirmed), array_literal(others)],
        Nothing,
    )


def give_up(process: ProcessIdentity, services: Sequence[str]) -> Query[Nothing]:
    """Gives up the lead of services; a lead that the process does not hold stays as it is."""
    return Query(
        "select brokerjobs.lead(s, %s, %s, 0) from unnest(%s::text[]) s",
        [process.id, process.name, list(services)],
        Nothing,
    )
