"""A producer's side of an app in plain sync code: apps of their own on one ledger that the tests of a module share."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import dict_row
from uuid_utils.compat import uuid7

from brokerjobs import App, JobType
from brokerjobs.broker.names import route_name
from brokerjobs.broker.topology import Topology, declare
from brokerjobs.client import Client, ClientOptions, SyncClient
from brokerjobs.effects.transaction import Place
from brokerjobs.ledger import calls, inquiries, services
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection
from tests.broker.inbox import Inbox
from tests.flow.producing import Charge, Receipt, answered
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Generator
    from uuid import UUID

    from brokerjobs.ledger.database import Query
    from tests.databases import Database

Row = TypeVar("Row")


@dataclass(frozen=True)
class Storefront:
    """One app with one job type, and a table of orders; rows of other apps in the same ledger are not seen."""

    app: App
    charge: JobType[Charge, Receipt]
    street: Street

    @property
    def database(self) -> Database:
        """The ledger's."""
        return self.street.database

    def options(self, submitted_by: str = "orders-web", **options: Any) -> ClientOptions:
        """Those of a client with a producer's login; its submissions wait for an absent ledger only briefly."""
        given: dict[str, Any] = {
            "database_url": self.database.producer_url,
            "broker_url": self.street.broker_url,
            "patience": timedelta(milliseconds=300),
        }
        return ClientOptions(submitted_by=submitted_by, **(given | options))

    def client(self, submitted_by: str = "orders-web", **options: Any) -> SyncClient:
        """A sync client."""
        return SyncClient(self.options(submitted_by, **options))

    def async_client(self, submitted_by: str = "orders-web", **options: Any) -> Client:
        """One that awaits."""
        return Client(self.options(submitted_by, **options))

    def rows(self, sql: str, *params: object) -> list[dict[str, Any]]:
        """What an administrator sees."""
        return self.street.admin.cursor(row_factory=dict_row).execute(sql.encode(), params).fetchall()

    def jobs(self) -> dict[str | None, UUID]:
        """The jobs of this app by their keys."""
        found = self.rows("select key, id from brokerjobs.job where namespace = %s", self.app.namespace)
        return {row["key"]: row["id"] for row in found}

    def state(self, job_id: UUID) -> str:
        """The state of a job."""
        (row,) = self.rows("select state from brokerjobs.job_state where job_id = %s", job_id)
        state: str = row["state"]
        return state

    def bells(self) -> int:
        """How many doorbells of this app are in the outbox."""
        (row,) = self.rows(
            "select count(*) as count from brokerjobs.outbox o join brokerjobs.job j on j.id = o.job_id"
            " where j.namespace = %s",
            self.app.namespace,
        )
        count: int = row["count"]
        return count

    def orders(self) -> list[int]:
        """The numbers of the orders that were written."""
        found = self.rows("select number from orders where app = %s order by 1", self.app.namespace)
        return [row["number"] for row in found]

    def insert_order(self, number: int) -> str:
        """The statement that writes an order."""
        return f"insert into orders (app, number) values ('{self.app.namespace}', {number})"

    def submit(self) -> UUID:
        """Submits one job without any client; its doorbell stays in the outbox."""
        job = inquiries.NewJob(uuid7(), Charge().model_dump_json(), None, {}, None, None, None)
        now = datetime.now(UTC)
        batch = inquiries.SubmitBatch(self.app.namespace, self.charge.name, "tests", None, now, True, [job])
        (submitted,) = self.street.as_producer(inquiries.submit(batch))
        assert submitted.verdict == "created", submitted
        return submitted.id

    def place(self, job_id: UUID) -> Place:
        """The place of an attempt that has claimed a job, as its handler's context has it."""
        process = calls.ProcessIdentity(uuid7(), "worker-a", "host", 1)
        route = route_name(self.app.namespace, self.charge.terms.queue)
        now = datetime.now(UTC)
        request = calls.ClaimRequest(job_id, uuid7(), route, uuid7(), redelivered=False, delivered_at=now)
        claim = calls.claim(process, self.app.namespace, [self.charge.name], [request])
        claimed = answered(lambda: self.street.as_worker(claim))
        assert claimed.verdict == "granted", claimed
        holding = calls.Holding(job_id, claimed.attempt_id, claimed.fencing_number)
        return Place(holding, self.charge)

    def report(self, place: Place, receipt: Receipt) -> None:
        """Reports a result by the plain call."""
        body = self.charge.encode_result(receipt).decode()
        now = datetime.now(UTC)
        report = calls.Report(place.holding, body, now, now)
        reported = answered(lambda: self.street.as_worker(calls.complete([report])))
        assert reported.verdict == "accepted", reported

    def lose(self, place: Place) -> None:
        """Lets somebody else claim the job of an attempt, as after its lease."""
        found = self.rows(
            "update brokerjobs.job_state set attempt_id = gen_random_uuid(), fencing_number = fencing_number + 1"
            " where job_id = %s returning job_id",
            place.holding.job_id,
        )
        assert len(found) == 1

    def open_route(self) -> str:
        """Declares the route of the app, so that it can be rung."""
        route = route_name(self.app.namespace, self.charge.terms.queue)
        asyncio.run(declare(self.street.broker_url, Topology(frozenset({self.app.namespace}), frozenset({route}))))
        return route

    def arrived(self, route: str, count: int) -> set[UUID]:
        """The jobs of so many doorbells on the route; takes them off it."""

        async def arrive() -> set[UUID]:
            async with Inbox(self.street.broker_url, {route: count + 1}) as inbox:
                deliveries = await inbox.has(count)
                inbox.consumer.ack(deliveries)
                await inbox.consumer.flush()
            return {delivery.job_id for delivery in deliveries}

        return asyncio.run(arrive())

    def all_announced(self) -> None:
        """Waits until no doorbell is left in the outbox."""
        eventually_sync(lambda: self.bells() == 0)


@dataclass(frozen=True)
class Street:
    """One ledger, on which any number of apps are."""

    database: Database
    broker_url: str
    admin: psycopg.Connection
    _owner: LedgerConnection = field(repr=False)
    _producer: LedgerConnection = field(repr=False)
    _worker: LedgerConnection = field(repr=False)

    def storefront(self, namespace: str) -> Storefront:
        """A new app, its job type registered."""
        app = App(namespace)
        charge = app.job_type("payment.charge", Charge, Receipt, repeatable=True, queue="payments")
        self._owner.fetch(services.register_types(namespace, [charge.as_data()], change=True))
        return Storefront(app, charge, self)

    def as_producer(self, query: Query[Row]) -> list[Row]:
        """Runs a call of a producer's."""
        return self._producer.fetch(query)

    def as_worker(self, query: Query[Row]) -> list[Row]:
        """Runs a call of a worker's."""
        return self._worker.fetch(query)


@contextmanager
def street(database: Database, broker_url: str) -> Generator[Street]:
    """Opens one, with its table of orders."""
    logins = (database.owner_url, database.producer_url, database.worker_url)
    with psycopg.connect(database.admin_url, autocommit=True) as admin, ExitStack() as stack:
        admin.execute("create table orders (app text, number integer)")
        admin.execute("grant all on orders to public")
        connections = [LedgerConnection(ConnectOptions(url)) for url in logins]
        for connection in connections:
            stack.callback(connection.close)
        yield Street(database, broker_url, admin, *connections)
