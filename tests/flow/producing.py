"""A producer's side of an app: a client with a least-privileged login, and a worker's hand made of ledger calls."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row
from pydantic import BaseModel
from uuid_utils.compat import uuid7

from brokerjobs import App, JobType
from brokerjobs.broker.names import route_name
from brokerjobs.client import Client, ClientOptions
from brokerjobs.ledger import calls, decisions
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection
from tests.broker.inbox import Inbox
from tests.flow.driving import Flow, flow
from tests.waiting import eventually, eventually_sync

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from uuid import UUID

    from tests.databases import Database


class Charge(BaseModel):
    account: str = "a-1"
    cents: int = 100


class Receipt(BaseModel):
    reference: str


@dataclass(frozen=True)
class Shop:
    """One app with one job type, registered, and its route declared."""

    made: Flow
    charge: JobType[Charge, Receipt]

    @property
    def database(self) -> Database:
        return self.made.database

    def client(self, submitted_by: str = "orders-api", **options: Any) -> Client:
        """A client with a producer's login."""
        return Client(self.client_options(submitted_by, **options))

    def client_options(self, submitted_by: str = "orders-api", **options: Any) -> ClientOptions:
        """Those of such a client; its submissions wait for an absent ledger only briefly."""
        given: dict[str, Any] = {
            "database_url": self.database.producer_url,
            "broker_url": self.made.broker_url,
            "patience": timedelta(milliseconds=300),
        }
        return ClientOptions(submitted_by=submitted_by, **(given | options))

    async def rows(self, sql: str, *params: object) -> list[dict[str, Any]]:
        """What an administrator sees."""
        async with await psycopg.AsyncConnection.connect(self.database.admin_url, autocommit=True) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(sql.encode(), params)
            return await cursor.fetchall()

    async def execute(self, *statements: str) -> None:
        """What an administrator does."""
        async with await psycopg.AsyncConnection.connect(self.database.admin_url, autocommit=True) as connection:
            for statement in statements:
                await connection.execute(statement.encode())

    async def count(self, table: str, schema: str = "brokerjobs") -> int:
        """How many rows a table of the ledger has."""
        (row,) = await self.rows(f"select count(*) as count from {schema}.{table}")
        count: int = row["count"]
        return count

    async def all_announced(self) -> None:
        """Waits until no doorbell is left in the outbox."""

        async def empty() -> bool:
            return await self.count("outbox") == 0

        await eventually(empty)

    async def arrived(self, count: int) -> set[UUID]:
        """The jobs of so many doorbells on the route; takes them off it."""
        async with Inbox(self.made.broker_url, {self.route: count + 1}) as inbox:
            deliveries = await inbox.has(count)
            inbox.consumer.ack(deliveries)
            await inbox.consumer.flush()
        return {delivery.job_id for delivery in deliveries}

    def claim(self, job_id: UUID) -> calls.Holding:
        """Claims a job as a worker would."""
        process = calls.ProcessIdentity(uuid7(), "worker-a", "host", 1)
        request = calls.ClaimRequest(job_id, uuid7(), self.route, uuid7(), redelivered=False, delivered_at=_now())
        claim = calls.claim(process, self.made.app.namespace, [self.charge.name], [request])
        claimed = answered(lambda: self._as_worker(claim))
        assert claimed.verdict == "granted", claimed
        return calls.Holding(job_id, claimed.attempt_id, claimed.fencing_number)

    def complete(self, job_id: UUID, receipt: Receipt) -> None:
        """Claims a job and reports its result."""
        body = self.charge.encode_result(receipt).decode()
        report = calls.Report(self.claim(job_id), body, _now(), _now())
        reported = answered(lambda: self._as_worker(calls.complete([report])))
        assert reported.verdict == "accepted", reported

    def decide(self, job_id: UUID, resolution: decisions.Resolution) -> None:
        """A person decides the review of a job as it stands."""
        connection = LedgerConnection(ConnectOptions(self.database.operator_url))
        [shown] = connection.fetch(decisions.review_show(job_id))
        request = decisions.Request(id=uuid7(), by="ann", reason="looked")
        version = int(json.loads(shown.review)["version"])
        [answer] = connection.fetch(decisions.review_resolve(job_id, version, resolution, request))
        connection.close()
        assert answer.answer["verdict"] == "decided", answer

    def fail(self, holding: calls.Holding, failure: str) -> None:
        """Reports a failure, given as its JSON."""
        report = calls.Report(holding, failure, _now(), _now())
        reported = answered(lambda: self._as_worker(calls.fail([report])))
        assert reported.verdict == "recorded", reported

    def let_time_pass(self, interval: str) -> None:
        """Puts the ledger's clock forward and gives up what is over then, as the coordinator does."""
        with psycopg.connect(self.database.admin_url, autocommit=True) as connection:
            connection.execute(
                "create or replace function brokerjobs.clock() returns timestamptz language sql volatile"
                f" as $$ select clock_timestamp() + interval '{interval}' $$".encode()
            )
            connection.execute(
                "insert into brokerjobs.service select 'reaper', gen_random_uuid(), 'coordinator-a', t, t,"
                " t - interval '1 hour' from brokerjobs.clock() t"
            )
            connection.execute("select * from brokerjobs.expire('coordinator-a', 100)")
            connection.execute("select * from brokerjobs.due(100)")

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
        """A producer's own connection, for `within=`."""
        async with await psycopg.AsyncConnection.connect(self.database.producer_url) as connection:
            yield connection

    @property
    def route(self) -> str:
        return route_name(self.made.app.namespace, self.charge.terms.queue)

    def _as_worker(self, query: Any) -> list[Any]:
        connection = LedgerConnection(ConnectOptions(self.database.worker_url))
        try:
            return connection.fetch(query)
        finally:
            connection.close()


def answered(ask: Callable[[], list[Any]]) -> Any:
    """The ledger's one answer; `locked` is none: a client's doorbell may just be marked on the same row."""
    return eventually_sync(lambda: next((row for row in ask() if row.verdict != "locked"), None))


def _now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def shop(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    """An app that takes payments, set up as by `brokerjobs setup`."""
    app = App(namespace)
    charge = app.job_type("payment.charge", Charge, Receipt, repeatable=True, queue="payments")
    async with flow(app, database, broker_url) as made:
        yield Shop(made, charge)
