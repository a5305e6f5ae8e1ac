"""One process that calls the ledger: one method a call, on one connection with the login of one role."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar
from uuid import UUID, uuid4

from psycopg.rows import args_row
from uuid_utils.compat import uuid7

from brokerjobs.ledger import calls, decisions, inquiries, services, ticks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.database import Query
    from brokerjobs.rules.needs import Need
    from tests.ledger.ledger_clock import LedgerClock

Row = TypeVar("Row")
RESULT = {"done": True}
TEMPORARY = {"class": "temporary", "classified": True, "type": "TemporaryFailure", "message": "try again"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a namespace's jobs are: what callers need to know of it."""

    namespace: str
    types: tuple[str, ...] = ("work", "once")

    def route(self, queue: str = "default") -> str:
        """The route of a queue."""
        return f"{self.namespace}.q.{queue}"


@dataclass(slots=True)
class Caller:
    """One process with a login of one role."""

    connection: psycopg.Connection
    place: Place
    clock: LedgerClock
    process: calls.ProcessIdentity = field(
        default_factory=lambda: calls.ProcessIdentity(uuid4(), f"w-{uuid4().hex[:6]}", "host", 1)
    )

    def fetch(self, query: Query[Row]) -> list[Row]:
        """Runs one query; driver errors come as they are."""
        with self.connection.cursor(row_factory=args_row(query.row)) as cursor:
            cursor.execute(query.sql, query.params)
            return cursor.fetchall()

    def sql(self, query: LiteralString, *params: Any) -> list[tuple[Any, ...]]:
        """Runs plain SQL, as a program in another language would."""
        cursor = self.connection.execute(query, params)
        return cursor.fetchall() if cursor.description else []

    def begin(self, isolation: LiteralString = "read committed") -> None:
        """Opens a transaction around the calls that follow."""
        self.sql("begin isolation level " + isolation)

    def commit(self) -> None:
        """Commits it."""
        self.sql("commit")

    def rollback(self) -> None:
        """Rolls it back."""
        self.sql("rollback")

    def end(self, how: str) -> None:
        """Does one or the other."""
        {"commit": self.commit, "rollback": self.rollback}[how]()

    # A worker's calls.

    def claim(self, job: UUID, attempt: UUID | None = None, **other: Any) -> calls.Claimed:
        """Claims one job; `other`: types, namespace, route, ticket, redelivered."""
        (answer,) = self.claim_all([(job, attempt or uuid7())], **other)
        return answer

    def claim_all(
        self,
        wanted: Sequence[tuple[UUID, UUID]],
        *,
        types: Sequence[str] | None = None,
        namespace: str | None = None,
        route: str | None = None,
        ticket: UUID | None = None,
        redelivered: bool = False,
    ) -> list[calls.Claimed]:
        """Claims jobs in one batch, each with the id of its attempt."""
        route = route or self.place.route()
        requests = [
            calls.ClaimRequest(job, attempt, route, ticket or uuid4(), redelivered, self.clock.now)
            for job, attempt in wanted
        ]
        namespace = namespace or self.place.namespace
        return self.fetch(calls.claim(self.process, namespace, types or self.place.types, requests))

    def take(self, job: UUID) -> Holding:
        """Claims one job, which must be granted."""
        answer = self.claim(job)
        assert answer.verdict == "granted", answer
        return holding_of(answer)

    def start(self, holding: Holding) -> str:
        """Commits a start."""
        return self.fetch(calls.start([holding], [self.clock.now]))[0].verdict

    def renew(self, holding: Holding, started_at: datetime | None = None) -> calls.Renewed:
        """Renews one lease."""
        return self.fetch(calls.renew([holding], [started_at]))[0]

    def complete(self, holding: Holding, result: Any = RESULT, **other: Any) -> calls.Reported:
        """Reports a result."""
        return self.fetch(calls.complete([self.report(holding, result, **other)]))[0]

    def fail(self, holding: Holding, failure: Mapping[str, Any] = TEMPORARY, **other: Any) -> calls.Reported:
        """Reports a failure."""
        return self.fetch(calls.fail([self.report(holding, failure, **other)]))[0]

    def release(self, holding: Holding, why: str = "drain", **failure: Any) -> calls.Reported:
        """Gives an attempt back; a snooze and a "not here" count as classified, as the worker says it."""
        body = {"why": why, "classified": why in {"snooze", "not_here"}, **failure}
        return self.fetch(calls.release([self.report(holding, body)]))[0]

    def snooze(self, holding: Holding, seconds: float) -> calls.Reported:
        """Gives an attempt back for so many seconds, as its handler wished."""
        return self.release(holding, "snooze", until=f"{self.clock.after(seconds):%Y-%m-%dT%H:%M:%S.%fZ}")

    def report(self, holding: Holding, body: Any, **other: Any) -> calls.Report:
        """A report of this caller; observed now."""
        facts: dict[str, Any] = {"observed_at": self.clock.now, "started_at": None, **other}
        return calls.Report(holding, json.dumps(body), **facts)

    def asked(self, holding: Holding) -> calls.Asked:
        """Asks whether an attempt has reported."""
        return self.fetch(calls.asked(holding))[0]

    def hand_back(self, *jobs: UUID) -> int:
        """Gives unclaimed deliveries back."""
        return self.fetch(calls.hand_back(self.process.name, jobs))[0].count

    def fence_v1(self, holding: Holding) -> None:
        """Raises unless the attempt is the running one."""
        self.sql("select brokerjobs.fence_v1(%s, %s, %s)", *_place_of(holding))

    def complete_v1(self, holding: Holding, result: Any = RESULT) -> bool:
        """Accepts a result in this caller's transaction; answers whether it was late."""
        text = json.dumps(result)
        return bool(self.sql("select brokerjobs.complete_v1(%s, %s, %s, %s::jsonb)", *_place_of(holding), text)[0][0])

    # A coordinator's.

    def expire(self, limit: int = 1000) -> dict[UUID, services.Expired]:
        """Gives up attempts whose lease is over; by job."""
        return {row.job_id: row for row in self.fetch(services.expire(self.process, limit))}

    def due(self, limit: int = 1000) -> dict[UUID, str]:
        """Ends the waiting of jobs that are due; the state of each by job."""
        return {row.job_id: row.state for row in self.fetch(services.due(limit))}

    def outbox_take(self, mark: str = "0", limit: int = 1000) -> tuple[list[services.Taken], str]:
        """Takes messages from the outbox; with the mark for the next scan."""
        *messages, last = self.fetch(services.outbox_take(mark, limit))
        assert last.kind == "mark"
        assert last.mark is not None
        return messages, last.mark

    def outbox_done(self, *tickets: UUID) -> None:
        """Marks messages as published."""
        self.fetch(services.outbox_done(tickets))

    def outbox_refused(self, *tickets: UUID) -> None:
        """Gives back messages that the broker refused."""
        self.fetch(ticks.outbox_refused(tickets))

    def lead(self, service: str, seconds: float = 4) -> bool:
        """Takes or keeps the lead."""
        return self.fetch(services.lead(service, self.process, seconds))[0].leading

    # A producer's.

    def cancel(self, job: UUID, reason: str = "not wanted any more") -> inquiries.Cancelled:
        """Cancels a job."""
        return self.fetch(inquiries.cancel(job, "tester", reason))[0]

    def record(self, job: UUID) -> dict[str, Any]:
        """The record of a job."""
        record = self.fetch(inquiries.record(job))[0].record
        assert record is not None
        return record

    # A person's.

    def review(self, job: UUID) -> dict[str, Any]:
        """The review of a job, or the one with this id."""
        (shown,) = self.fetch(decisions.review_show(job))
        review: dict[str, Any] = json.loads(shown.review)
        return review

    def resolve(self, job: UUID, decision: str, *, version: int | None = None, **other: Any) -> dict[str, Any]:
        """Decides a review, as it stands now unless a version is named.

        `other`: reference, result, checked, request.
        """
        request: decisions.Request = other.pop("request", None) or asking()
        if decision == "happened":
            other.setdefault("reference", "receipt 7")
        read = int(self.review(job)["version"]) if version is None else version
        resolution = decisions.Resolution(decision=decision, **other)
        return self.fetch(decisions.review_resolve(job, read, resolution, request))[0].answer

    def replay(
        self,
        *jobs: UUID,
        attempts: int | None = None,
        deadline: datetime | timedelta | None = None,
        request: decisions.Request | None = None,
    ) -> list[str]:
        """Replays failed jobs; the verdicts."""
        rows = self.fetch(decisions.dead_replay(jobs, attempts, deadline, request or asking()))
        return [f"{row.verdict}, repeated" if row.repeated else row.verdict for row in rows]

    def discard(self, *jobs: UUID, request: decisions.Request | None = None) -> list[str]:
        """Discards failed jobs; the verdicts."""
        rows = self.fetch(decisions.dead_discard(jobs, request or asking()))
        return [f"{row.verdict}, repeated" if row.repeated else row.verdict for row in rows]

    def adopt(self, holding: Holding, request: decisions.Request | None = None) -> dict[str, Any]:
        """Adopts the kept success of an attempt."""
        query = decisions.adopt(holding.job_id, holding.attempt_id, request or asking())
        return self.fetch(query)[0].answer

    def groups(self) -> list[decisions.Group]:
        """The groups of failed jobs of this namespace."""
        return self.fetch(decisions.dead_list(self.place.namespace, None, None, 100))


def asking(reason: str = "looked into it") -> decisions.Request:
    """A new request of a person."""
    return decisions.Request(id=uuid4(), by="ann", reason=reason)


def holding_of(answer: calls.Claimed) -> Holding:
    """What a granted claim lets its worker hold."""
    return calls.Holding(answer.job_id, answer.attempt_id, answer.fencing_number)


def _place_of(holding: Holding) -> tuple[UUID, UUID, int]:
    return holding.job_id, holding.attempt_id, holding.fencing_number


def new_job(
    payload: Any = None,
    *,
    key: str | None = None,
    tags: Mapping[str, str] | None = None,
    not_before: datetime | timedelta | None = None,
    deadline: datetime | timedelta | float | None = None,
    job_id: UUID | None = None,
    priority: str = "normal",
    needs: Sequence[Need] = (),
) -> inquiries.NewJob:
    """One submission; a deadline that is a number counts in seconds."""
    if isinstance(deadline, (int, float)):
        deadline = timedelta(seconds=deadline)
    text = json.dumps({} if payload is None else payload)
    return inquiries.NewJob(job_id or uuid7(), text, key, tags or {}, not_before, deadline, None, priority, needs)
