"""A small typed driver over the ledger's calls: one method a call, one connection a caller, roles as in production.

    job = ledger.submit()
    first = ledger.worker.take(job)
    ledger.clock.advance(31)
    ledger.coordinator.expire()
    assert ledger.worker.complete(first).verdict == "accepted"

A caller is in autocommit; `begin`, `commit` and `rollback` hold a transaction open around calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

import psycopg

from brokerjobs.ledger import inquiries, services
from brokerjobs.rules.retries import RetryPolicy
from brokerjobs.rules.terms import Terms
from tests.ledger.ledger_caller import Caller, Place, new_job
from tests.ledger.ledger_rows import LedgerRows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from types import TracebackType
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.databases import Database
    from tests.ledger.ledger_clock import LedgerClock

Row = TypeVar("Row")


class Doors:
    """Connections to one database, kept for the tests that follow: logging in takes longer than most tests."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._idle: dict[str, list[psycopg.Connection]] = {}

    def connect(self, kind: str) -> psycopg.Connection:
        """A connection of a role's login, the owner's or the administrator's, in autocommit, with a name of its own."""
        idle = self._idle.setdefault(kind, [])
        if idle:
            return idle.pop()
        url, name = getattr(self.database, f"{kind}_url"), f"test {uuid4().hex}"
        return psycopg.connect(url, autocommit=True, application_name=name)

    def give_back(self, kind: str, connection: psycopg.Connection) -> None:
        """Keeps a connection that is as good as new."""
        if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        else:
            self._idle[kind].append(connection)

    def close(self) -> None:
        """Closes those that are kept."""
        for idle in self._idle.values():
            for connection in idle:
                connection.close()


class Ledger:
    """A test's ledger: a caller of each role, the clock, what is written, and the two job types `work` and `once`."""

    def __init__(self, doors: Doors, clock: LedgerClock, place: Place) -> None:
        self.database = doors.database
        self.clock = clock
        self.place = place
        self._doors = doors
        self._opened: list[tuple[str, psycopg.Connection]] = []
        self.setting_up = self.open("owner")
        self._admin = self.open("admin").connection
        self.owner = self.setting_up.connection
        self.rows = LedgerRows(self.owner)
        self.worker = self.open("worker")
        self.producer = self.open("producer")
        self.coordinator = self.open("coordinator")
        self.operator = self.open("operator")
        self.declare("work")
        self.declare("once", repeatable=False)

    def open(self, kind: str = "worker") -> Caller:
        """One more caller."""
        connection = self._doors.connect(kind)
        self._opened.append((kind, connection))
        return Caller(connection, self.place, self.clock)

    def declare(self, name: str, *, change: bool = True, **terms: Any) -> services.Registered:
        """Registers a job type; terms as in `Terms`, those of the retry policy beside them."""
        retry = {key: terms.pop(key) for key in list(terms) if key in RetryPolicy.__dataclass_fields__}
        terms.setdefault("repeatable", True)
        wanted = Terms(**terms, retry=RetryPolicy(**retry))
        data = {"name": name, **wanted.as_data(), "fingerprint": "f" * 64}
        caller = self.setting_up if change else self.worker
        return caller.fetch(services.register_types(self.place.namespace, [data], change=change))[0]

    def submit(
        self,
        kind: str = "work",
        *,
        not_before: timedelta | None = None,
        deadline: float | None = None,
        rung: bool = False,
        by: Caller | None = None,
    ) -> UUID:
        """Submits one job, which must be created; `deadline` in seconds; `rung`: its doorbell is published."""
        answer = self.submit_all([new_job(not_before=not_before, deadline=deadline)], kind, by=by)[0]
        assert answer.verdict == "created", answer
        if rung and answer.ticket is not None:
            self.coordinator.outbox_done(answer.ticket)
        return answer.id

    def submit_all(
        self,
        jobs: Sequence[inquiries.NewJob],
        kind: str = "work",
        *,
        by: Caller | None = None,
        announced: bool = False,
        namespace: str | None = None,
    ) -> list[inquiries.Submitted]:
        """Submits jobs in one batch."""
        batch = inquiries.SubmitBatch(
            namespace or self.place.namespace, kind, "tester", "f" * 64, self.clock.now, announced, jobs
        )
        return (by or self.producer).fetch(inquiries.submit(batch))

    def lose(self, holding: Holding) -> services.Expired:
        """Lets the lease of a running attempt run out and has it given up."""
        state = self.rows.state(holding.job_id)
        assert state.lease_until is not None
        self.clock.set(state.lease_until)
        return self.coordinator.expire()[holding.job_id]

    def is_blocked(self, caller: Caller) -> bool:
        """Whether a caller waits for another's lock just now."""
        # By name: the server's process is another one than the connection knows of, if a pooler stands between.
        name = caller.connection.info.parameter_status("application_name")
        query = "select from pg_stat_activity where application_name = %s and cardinality(pg_blocking_pids(pid)) > 0"
        return self._admin.execute(query, [name]).fetchone() is not None

    def ring_again(self, job: UUID) -> None:
        """Lets the waiting of a queued job end."""
        until = self.rows.state(job).wait_until
        assert until is not None
        self.clock.set(max(until, self.clock.now))
        self.coordinator.due()

    def close(self) -> None:
        """Gives all connections back."""
        for kind, connection in self._opened:
            self._doors.give_back(kind, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["Doors", "Ledger", "Place"]
