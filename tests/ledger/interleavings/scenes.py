"""The stage: one ledger whose clock is gated, and the scene with which each order of steps begins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg

from tests.ledger.interleavings.gates import Gates
from tests.ledger.interleavings.outside import Outside
from tests.ledger.ledger_caller import Place
from tests.ledger.ledger_clock import LedgerClock
from tests.ledger.ledger_driver import Doors, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Self
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.effects import OpenReview
    from tests.databases import Database
    from tests.ledger.ledger_caller import Caller

# What the tests themselves write down, beside the ledger: rings as they are made, write-once facts that were written
# again, and what the users' own transactions write. A trigger looks at the clock once a key's insert is done, so that a
# submission can be stopped there.
_NOTES: Final = """
create schema notes;
create table notes.ring (ticket uuid primary key, job_id uuid not null);
create table notes.overwritten (job_id uuid not null, fact text not null);
create table notes.payment (job_id uuid not null, attempt_id uuid not null, kind text not null);
create function notes.keep_ring() returns trigger language plpgsql as $$
begin
  insert into notes.ring values (new.ticket, new.job_id) on conflict do nothing;
  return null;
end $$;
create trigger notes_ring after insert on brokerjobs.outbox for each row when (new.kind = 'doorbell')
  execute function notes.keep_ring();
create function notes.keep_overwritten() returns trigger language plpgsql as $$
begin
  insert into notes.overwritten values (old.job_id, tg_argv[0]);
  return null;
end $$;
create trigger notes_closed after update on brokerjobs.attempt for each row
  when (old.closed_at is not null and (old.closed_at, old.closed_as) is distinct from (new.closed_at, new.closed_as))
  execute function notes.keep_overwritten('how an attempt was closed');
create trigger notes_reported after update on brokerjobs.attempt for each row
  when (old.reported_at is not null and (old.reported_as, old.verdict) is distinct from (new.reported_as, new.verdict))
  execute function notes.keep_overwritten('what an attempt reported');
create trigger notes_known after update on brokerjobs.effect for each row
  when (old.outcome is not null and (old.outcome, old.result, old.attempt_id, old.known_by)
    is distinct from (new.outcome, new.result, new.attempt_id, new.known_by))
  execute function notes.keep_overwritten('what became of an effect');
create trigger notes_acknowledged after update on brokerjobs.artifact for each row
  when (old.acknowledged_at is not null and (old.copied_to, old.acknowledged_by)
    is distinct from (new.copied_to, new.acknowledged_by))
  execute function notes.keep_overwritten('who has a copy of an artifact');
create function notes.look() returns trigger language plpgsql as $$
begin
  perform brokerjobs.clock();
  return null;
end $$;
create trigger notes_key after insert on brokerjobs.idempotency_key for each statement execute function notes.look();
grant usage on schema notes to public;
grant insert, select on notes.payment to public;
"""
_CLEAR: Final = """
with k as (delete from brokerjobs.idempotency_key where true),
  a as (delete from brokerjobs.attempt where true), e as (delete from brokerjobs.event where true),
  o as (delete from brokerjobs.outbox where true), r as (delete from brokerjobs.review where true),
  l as (delete from brokerjobs.late_report where true), s as (delete from brokerjobs.job_state where true),
  q as (delete from brokerjobs.probe where true), d as (delete from brokerjobs.dead where true),
  t as (delete from brokerjobs.request where true),
  x as (delete from brokerjobs.effect where true), y as (delete from brokerjobs.effect_intent where true),
  u as (delete from brokerjobs.pause where true), v as (delete from brokerjobs.parked where true),
  f as (delete from brokerjobs.artifact where true),
  z as (delete from brokerjobs.resource where true), i as (delete from brokerjobs.waiter where true),
  n as (delete from notes.ring where true), w as (delete from notes.overwritten where true),
  p as (delete from notes.payment where true)
delete from brokerjobs.job where true
"""
_LOOKS: Final = """
select (select array_agg(array[
      s.state, s.waiting, s.number::text, s.charged::text, s.uncharged::text, s.reported::text, s.started::text,
      s.failure_class, s.forgiven::text, (s.attempt_id is null)::text, (s.cancel is null)::text,
      (s.rung_at is null)::text,
      (s.wait_until <= %(now)s)::text, (s.lease_until <= %(now)s)::text, s.wait_detail ->> 'last',
      s.unknown_effect::text] order by s.job_id)
    from brokerjobs.job_state s),
  (select array_agg(array[a.number::text, a.closed_as, a.reported_as, a.verdict, a.verdict_reason, a.late::text,
      a.answer_state, (a.started_at is null)::text] order by a.job_id, a.number) from brokerjobs.attempt a),
  (select array_agg((o.hold_until <= %(now)s)::text order by o.hold_until) from brokerjobs.outbox o),
  (select array_agg(r.closed_as || coalesce(r.decision, '') order by r.closed_as) from brokerjobs.review r),
  (select array_agg(l.reported_as || l.reason order by l.reported_as, l.reason) from brokerjobs.late_report l),
  (select array_agg(p.kind order by p.kind) from notes.payment p),
  (select array_agg((q.settled_at is null)::text order by q.made_at) from brokerjobs.probe q),
  (select array_agg((k.record_gone_at is null)::text order by k.job_id) from brokerjobs.idempotency_key k),
  (select array_agg((u.resumed_at is null)::text order by u.paused_at) from brokerjobs.pause u),
  (select count(*)::text from brokerjobs.parked),
  (select array_agg(array[e.name, e.try::text, e.repeatable::text, (e.valid_until <= %(now)s)::text, e.outcome,
      e.known_by, e.late::text, (e.contradicted_at is null)::text, (e.settled_at is null)::text] order by e.name, e.try)
    from brokerjobs.effect e),
  (select array_agg(array[i.name, i.try::text, a.number::text] order by i.name, i.try, a.number)
    from brokerjobs.effect_intent i join brokerjobs.attempt a on a.id = i.attempt_id),
  (select array_agg(array[r.asked::text, (r.ask_at <= %(now)s)::text] order by r.opened_at) from brokerjobs.review r),
  (select array_agg(array[p.name, p.place::text, (p.attempt_id is null)::text,
      (select count(*) from brokerjobs.job_state z where z.job_id < p.job_id)::text,
      (select count(*) from brokerjobs.attempt b where b.fencing_number < p.fencing_number)::text]
      order by p.name, p.place)
    from brokerjobs.resource p),
  (select array_agg(array[w.name, (select count(*) from brokerjobs.job_state z where z.job_id < w.job_id)::text,
      (w.rung_at <= %(now)s - interval '5 seconds')::text] order by w.name, w.since, w.job_id)
    from brokerjobs.waiter w),
  (select array_agg(array[f.state, f.removing_why, f.copied_to, (f.look_at <= %(now)s)::text,
      (f.unacceptable_at is null)::text] order by f.id)
    from brokerjobs.artifact f)
"""
# Functions that wait for a row wait longer here than a busy machine may need; test_waiters.py has their real time.
_PATIENT: Final = """
do $$ declare f regprocedure; begin
  for f in select oid::regprocedure from pg_proc where pronamespace = 'brokerjobs'::regnamespace
      and exists (select from unnest(proconfig) c where c like 'lock_timeout=2%') loop
    execute format('alter function %s set lock_timeout = %L', f, '60s');
  end loop;
end $$
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What a session was answered by a transaction that committed."""

    who: str
    call: str
    word: str
    answer: Any
    again: Callable[[Caller, Scene], Any] | None = None  # the same call with the same ids


@dataclass(slots=True)
class Scene:
    """The jobs of one order of steps, and what the world outside the ledger knows of them."""

    ledger: Ledger
    job: UUID
    holding: Holding | None = None  # of the attempt that the sessions argue about
    others: list[UUID] = field(default_factory=list[Any])
    other_holdings: list[Holding] = field(default_factory=list[Any])
    deadline: datetime | None = None
    loses_rings: bool = False  # the broker loses them, and probes find out
    pays: bool = False  # the handler of the attempt in hand completes it in a transaction of its own
    outside: Outside = field(default_factory=Outside)  # what handlers' effects did there
    artifact: UUID | None = None  # that the sessions argue about
    was_ready: bool = False  # when they entered, and not yet part of a result
    reviewing: OpenReview | None = None  # the review that a reconciler has taken up
    broker: list[UUID] = field(default_factory=list[Any])  # jobs whose doorbell is published and not acknowledged
    told: list[Told] = field(default_factory=list[Told])
    broken: list[str] = field(default_factory=list[str])  # promises whose breach a program saw
    began_at: datetime | None = None

    @property
    def held(self) -> Holding:
        """The attempt in hand."""
        assert self.holding is not None
        return self.holding

    @property
    def staged(self) -> UUID:
        """The artifact in question."""
        assert self.artifact is not None
        return self.artifact

    @property
    def holdings(self) -> list[Holding]:
        """The attempts in hand of all jobs."""
        return [self.held, *self.other_holdings]

    @property
    def jobs(self) -> list[UUID]:
        """All jobs of the scene."""
        return [self.job, *self.others]

    def begin(self) -> None:
        """The sessions enter."""
        self.began_at = self.ledger.clock.now

    @property
    def age(self) -> float:
        """Seconds since then, by the ledger's clock."""
        assert self.began_at is not None
        return (self.ledger.clock.now - self.began_at).total_seconds()

    def looks(self) -> str:
        """What has been committed, in one line that is the same for scenes that differ in ids and times alone."""
        (row,) = self.ledger.owner.execute(_LOOKS.encode(), {"now": self.ledger.clock.now}).fetchall()
        return f"{row} {len(self.broker)} {self.outside.looks(self.ledger.clock.now)}"

    def job_is_there(self) -> bool:
        """Whether the ledger still has its record: retention may remove it."""
        query = "select exists (select from brokerjobs.job_state where job_id = %s)"
        return self.ledger.rows.scalar(query, [self.job], of=bool)

    def probe_returns(self) -> None:
        """A while later a probe goes through the queue and comes back; it says what was lost before it was made."""
        now, route = self.ledger.clock.advance(1), self.ledger.place.route()
        self.ledger.owner.execute(
            "insert into brokerjobs.probe (ticket, route, made_at, sent_at, returned_at) values"
            " (gen_random_uuid(), %(route)s, %(now)s, %(now)s, %(now)s)",
            {"route": route, "now": now},
        )

    def relay(self) -> None:
        """One relay's whole round: what the outbox holds is published and forgotten."""
        messages, _ = self.ledger.coordinator.outbox_take()
        self.broker += [m.job_id for m in messages if m.kind == "doorbell" and m.job_id is not None]
        self.ledger.coordinator.outbox_done(*(m.ticket for m in messages if m.ticket is not None))


class Stage:
    """One ledger with gates, and three sessions to act on it."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._open = ExitStack()
        self._doors = Doors(database)
        self._open.callback(self._doors.close)
        owner = self._open.enter_context(self._doors.connect("owner"))
        self.ledger = self._open.enter_context(Ledger(self._doors, LedgerClock(owner), Place(namespace)))
        self.threads = [self._open.enter_context(ThreadPoolExecutor(1)) for _ in range(3)]
        self.gates = self._open.enter_context(Gates(database.admin_url))  # closed first: nobody is left at a door
        self.gates.install(owner)
        owner.execute(_NOTES.encode())
        owner.execute(_PATIENT.encode())
        self._sweeper = self._open.enter_context(psycopg.connect(database.admin_url, autocommit=True))
        self._sweeper.execute("set session_replication_role = replica")  # triggers keep nobody from clearing the stage
        self._callers: dict[tuple[int, str], Caller] = {}

    def caller(self, session: int, role: str) -> Caller:
        """The caller of a role for one of the sessions."""
        if (session, role) not in self._callers:
            self._callers[session, role] = self.ledger.open(role)
        return self._callers[session, role]

    def replace(self, *statements: str) -> None:
        """Replaces functions of the product, by wrong ones or by its own."""
        owner = self.ledger.owner
        with owner.transaction():
            owner.execute("set local search_path = brokerjobs, pg_temp")
            for statement in statements:
                owner.execute(statement.encode())
            owner.execute(_PATIENT.encode())

    def clear(self) -> None:
        """Removes all jobs and what was written of them."""
        self._sweeper.execute(_CLEAR.encode())

    def close(self) -> None:
        """Gives everything back."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
