"""A ledger and a broker with one namespace, and the few steps around the coordinator's: submit, claim, fail, look."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

import aio_pika
import psycopg
from psycopg.rows import dict_row
from uuid_utils.compat import uuid7

from brokerjobs.broker.names import route_name
from brokerjobs.broker.topology import Topology, declare
from brokerjobs.coordinator.service import Periods
from brokerjobs.ledger import calls, inquiries, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.ledger.ticks import Candidacy
from brokerjobs.rules.retries import RetryPolicy
from brokerjobs.rules.terms import Terms

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from aio_pika.abc import AbstractIncomingMessage

    from brokerjobs.ledger.database import Query
    from brokerjobs.rules.needs import Need
    from tests.databases import Database

Row = TypeVar("Row")

NOW = timedelta(0)
LEASE = timedelta(milliseconds=300)
PERIODS = Periods(
    service_lease=timedelta(milliseconds=600),
    relay_poll=timedelta(milliseconds=20),
    tick=timedelta(milliseconds=100),
    partitions=timedelta(seconds=30),
    batch=50,
)


def process(name: str = "coordinator-a") -> calls.ProcessIdentity:
    return calls.ProcessIdentity(uuid7(), name, "host", os.getpid())


def candidacy(service: str, seconds: float = 4.0, by: calls.ProcessIdentity | None = None) -> Candidacy:
    return Candidacy(service, by or process(), seconds)


class Time:
    """A monotonic clock that a test moves, by itself by `step` with each look."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 1000.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@dataclass(frozen=True, slots=True)
class Status:
    """Where a job stands."""

    state: str
    waiting: str | None
    failure_class: str | None


@dataclass
class Stage:
    """What the tests do before and after the coordinator's part."""

    database: Database
    broker_url: str
    namespace: str
    owner: psycopg.AsyncConnection[dict[str, Any]]
    producer: AsyncLedgerConnection
    worker: AsyncLedgerConnection
    coordinator: AsyncLedgerConnection

    def route(self, queue: str = "default") -> str:
        return route_name(self.namespace, queue)

    async def sql(self, query: str, *params: Any) -> list[dict[str, Any]]:
        """Runs plain SQL as the ledger's owner."""
        cursor = await self.owner.execute(cast("Any", query), params)
        return await cursor.fetchall() if cursor.description else []

    async def value(self, query: str, *params: Any) -> Any:
        """The one value that a query answers."""
        (row,) = await self.sql(query, *params)
        (value,) = row.values()
        return value

    async def register(
        self,
        name: str = "work",
        *,
        queue: str = "default",
        lease: timedelta = LEASE,
        needs: Sequence[Need] = (),
        placement_deadline: timedelta | None = None,
    ) -> None:
        """Registers a repeatable job type, whose route nobody has declared."""
        retry = RetryPolicy(attempts=2, first_delay=timedelta(milliseconds=10))
        terms = Terms(repeatable=True, queue=queue, lease=lease, retry=retry, needs=tuple(needs))
        if placement_deadline is not None:
            terms = replace(terms, placement_deadline=placement_deadline)
        data = {"name": name, **terms.as_data()}
        query = services.register_types(self.namespace, [{**data, "fingerprint": "f" * 64}], change=False)
        await self.worker.fetch(query)

    async def declare(self, *queues: str) -> None:
        """Declares routes at the broker, without a word to the ledger."""
        await declare(self.broker_url, Topology(routes=frozenset(map(self.route, queues or ("default",)))))

    async def submit(
        self,
        count: int = 1,
        kind: str = "work",
        *,
        not_before: datetime | None = None,
        deadline: datetime | None = None,
    ) -> list[UUID]:
        """Submits jobs as a caller's transaction does: nobody but the relay rings them."""
        jobs = [inquiries.NewJob(uuid7(), "{}", None, {}, not_before, deadline, None) for _ in range(count)]
        batch = inquiries.SubmitBatch(
            self.namespace, kind, "tester", "f" * 64, datetime.now(UTC), announced=False, jobs=jobs
        )
        answers = await self.producer.fetch(inquiries.submit(batch))
        assert {answer.verdict for answer in answers} == {"created"}
        return [answer.id for answer in answers]

    async def claim(self, job: UUID, kind: str = "work") -> calls.Claimed:
        """Claims a job as a worker would for one delivery."""
        request = calls.ClaimRequest(job, uuid7(), self.route(), uuid7(), redelivered=False, delivered_at=_now())
        (answer,) = await self.worker.fetch(calls.claim(process("worker"), self.namespace, [kind], [request]))
        return answer

    async def report(self, claimed: calls.Claimed, failure: dict[str, Any] | None = None) -> calls.Reported:
        """Reports a result, or a failure."""
        holding = calls.Holding(claimed.job_id, claimed.attempt_id, claimed.fencing_number)
        report = calls.Report(holding, json.dumps(failure or {"done": True}), _now(), None)
        query: Query[calls.Reported] = calls.fail([report]) if failure else calls.complete([report])
        (answer,) = await self.worker.fetch(query)
        return answer

    async def status(self, job: UUID) -> Status:
        """Where a job stands."""
        (row,) = await self.sql("select state, waiting, failure_class from brokerjobs.job_state where job_id = %s", job)
        return Status(**row)

    async def outbox(self) -> int:
        """How many messages wait to be published."""
        return int(await self.value("select count(*) from brokerjobs.outbox"))

    async def let_holds_run_out(self) -> None:
        """Lets the ten seconds pass for which a taken message is held."""
        await self.sql("update brokerjobs.outbox set hold_until = clock_timestamp()")

    async def leader(self, service: str) -> str | None:
        """The name of the process that leads a service at this moment."""
        rows = await self.sql(
            "select holder_name from brokerjobs.service where name = %s and until > clock_timestamp()", service
        )
        return rows[0]["holder_name"] if rows else None


def _now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def stage(database: Database, broker_url: str, namespace: str) -> AsyncGenerator[Stage]:
    connection = await psycopg.AsyncConnection[dict[str, Any]].connect(
        database.owner_url, autocommit=True, row_factory=dict_row
    )
    logins = [
        AsyncLedgerConnection(ConnectOptions(url))
        for url in (database.producer_url, database.worker_url, database.coordinator_url)
    ]
    made = Stage(database, broker_url, namespace, connection, *logins)
    try:
        await made.register()
        yield made
    finally:
        for login in logins:
            await login.close()
        await connection.close()


async def arrived(url: str, queue: str) -> list[AbstractIncomingMessage]:
    """Takes what lies in a queue at this moment; the queue must exist."""
    messages: list[AbstractIncomingMessage] = []
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        source = await channel.get_queue(queue)
        while (message := await source.get(no_ack=True, fail=False)) is not None:
            messages.append(message)
    return messages


def rung(messages: list[AbstractIncomingMessage]) -> list[UUID]:
    """The jobs that doorbells name."""
    return [UUID(json.loads(message.body)["job"]) for message in messages]
