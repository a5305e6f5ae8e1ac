"""Messages on a route that are no doorbells of ours: to quarantine with a reason, and no neighbour is harmed."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
from pamqp.commands import Basic
from psycopg.rows import dict_row

from brokerjobs import App
from brokerjobs.broker import names
from brokerjobs.broker.codec import encode_doorbell
from tests.broker import raw
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.databases import Database

NOBODY = UUID("01a22a0a-dbec-7661-9f9d-11aae7f81501")


@dataclass(frozen=True)
class Sent:
    """A message that differs from a doorbell in what is said of it."""

    reason: str
    body: bytes = encode_doorbell(NOBODY)
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    exchange: str | None = None
    routing_key: str | None = None


def job(value: object) -> bytes:
    return json.dumps({"v": 1, "job": value}).encode()


STRANGE = (
    Sent("the body is not JSON", b"\x00\xff garbage"),
    Sent("the body is not JSON", b""),
    Sent("the body is not JSON", b"[" * 1000),
    Sent('the body is not {"v": 1, "job": "…"}', b"null"),
    Sent('the body is not {"v": 1, "job": "…"}', b'{"v": 1, "job": NaN}'),
    Sent('the body is not {"v": 1, "job": "…"}', b'{"v": 1, "job": "%s", "run": "rm"}' % str(NOBODY).encode()),
    Sent("the body is of version 2, this code reads 1", b'{"v": 2, "job": "x", "more": []}'),
    Sent("the body's job is not a UUID in its usual form", job("\0\ud800")),
    Sent("the body is 10485760 bytes, a doorbell has at most 1024", b"x" * 10 * 2**20),
    Sent("the body is 100014 bytes", b'{"v":1,"job":' + b"9" * 100_000 + b"}"),
    Sent("unknown_job"),
    Sent("its type is 'os.system' instead of 'brokerjobs.doorbell'", properties={"message_type": "os.system"}),
    Sent("its type is None", properties={"message_type": None}),
    Sent("its message_id is not a UUID in its usual form", properties={"message_id": "1"}),
    Sent("its message_id is not a UUID in its usual form", properties={"message_id": None}),
    Sent("it came by exchange '' instead of", exchange=""),
    Sent(
        "unknown_job",
        properties={
            "content_type": "application/x-python-pickle",
            "reply_to": "amq.rabbitmq.trace",
            "priority": 255,
            "expiration": "3600000",
            "headers": {"x-death": [{"count": 99}], "x-delivery-count": 99, "CC": [], "traceparent": "\n" * 200},
        },
    ),
)


async def send(url: str, namespace: str, sent: Sent) -> None:
    """Send it as any client of the broker can."""
    route = names.route_name(namespace, "default")
    properties: dict[str, Any] = {
        "message_id": str(uuid4()),
        "message_type": names.DOORBELL_TYPE,
        "delivery_mode": 2,
    } | sent.properties
    async with raw.channel(url) as channel:
        await channel.basic_publish(
            sent.body,
            exchange=names.jobs_exchange(namespace) if sent.exchange is None else sent.exchange,
            routing_key=route if sent.routing_key is None else sent.routing_key,
            properties=Basic.Properties(**properties),
        )


async def quarantined(database: Database) -> list[dict[str, Any]]:
    async with (
        await psycopg.AsyncConnection.connect(database.admin_url) as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        await cursor.execute("select * from brokerjobs.quarantine order by id")
        return await cursor.fetchall()


async def test_strange_messages__go_to_quarantine_with_a_reason_and_neighbours_are_done(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)

    @app.job("double", repeatable=True)
    async def double(payload: int) -> int:
        return 2 * payload

    async with flow(app, database, broker_url) as made, coordinating(made):
        jobs: list[UUID] = []
        for number, sent in enumerate(STRANGE):
            jobs.append((await made.submit(double, number)).id)
            await made.ring(jobs[-1])
            await send(broker_url, namespace, sent)
        hostile = {raw.TIMESTAMP: struct.pack(">Q", 2**63), raw.HEADERS: raw.nested_tables(1100)}
        message = raw.RawMessage(names.jobs_exchange(namespace), f"{namespace}.q.default".encode(), hostile, b"{}")
        await raw.publish(broker_url, message)
        async with made.working(made.worker()):
            for number, job_id in enumerate(jobs):
                record = await made.reached(job_id, "succeeded", 30)
                assert record["result"] == 2 * number
                assert [attempt["delivery"]["redelivered"] for attempt in record["attempts"]] == [False]
            await raw.comes_to_hold(broker_url, names.quarantine_queue(namespace), len(STRANGE) + 1)
        rows = await quarantined(database)
    unread = [row["reason"] for row in rows if row["reason"] != "unknown_job"]  # which the ledger says, later
    expected = [sent.reason for sent in STRANGE if sent.reason != "unknown_job"]
    assert [reason[: len(words)] for reason, words in zip(unread[:-1], expected, strict=True)] == expected
    assert unread[-1].startswith("its properties cannot be decoded: headers")
    assert len(rows) - len(unread) == 2
    assert {row["worker"] for row in rows} == {"worker-a"}
    assert [row["job_id"] for row in rows].count(NOBODY) == 7
    assert all(row["digest"] for row in rows if row["reason"] != "unknown_job")


async def test_flood_of_strange_messages__is_recorded_in_batches(
    database: Database, namespace: str, broker_url: str
) -> None:
    """One commit each would keep the jobs behind them waiting for as many."""
    app = App(namespace)

    @app.job("double", repeatable=True)
    async def double(payload: int) -> int:
        return 2 * payload

    async with flow(app, database, broker_url) as made, coordinating(made):
        route = f"{namespace}.q.default".encode()
        flood = [raw.RawMessage(names.jobs_exchange(namespace), route, {}, b"?")] * 400
        await raw.publish(broker_url, *flood)
        async with made.working(made.worker()):
            (job,) = await made.submit_many(double, [1])
            await made.reached(job, "succeeded", 30)
            await raw.comes_to_hold(broker_url, names.quarantine_queue(namespace), len(flood))
        async with await psycopg.AsyncConnection.connect(database.admin_url) as connection:
            found = await connection.execute("select count(*), count(distinct xmin::text) from brokerjobs.quarantine")
            row = await found.fetchone()
    assert row is not None
    assert row[0] == len(flood)
    assert row[1] < len(flood) / 4


async def test_forged_doorbell__on_another_queue_or_of_another_namespace_runs_nothing_there(
    database: Database, namespace: str, broker_url: str
) -> None:
    ran: list[str] = []
    app, other = App(namespace), App(f"{namespace}x")

    @app.job("here", repeatable=False, queue="sums")
    async def here(payload: int) -> int:
        ran.append("here")
        return payload

    @app.job("near", repeatable=True)
    async def near(payload: int) -> int:
        return payload

    @other.job("here", repeatable=False, queue="sums")
    async def there(payload: int) -> int:
        ran.append("there")
        return payload

    async with (
        flow(app, database, broker_url) as made,
        flow(other, database, broker_url) as elsewhere,
        coordinating(made),
        made.working(made.worker()),
    ):
        later = await made.submit(here, 1, not_before=timedelta(hours=1))
        foreign = await elsewhere.submit(there, 2, not_before=timedelta(hours=1))
        await made.ring(later.id, queue="default")  # a right job by a wrong queue
        await made.ring(
            foreign.id, queue="sums"
        )  # a wrong namespace by a queue whose worker has a type of the same name
        neighbour = await made.submit(near, 3)
        await made.ring(neighbour.id)
        await made.reached(neighbour.id, "succeeded", 20)

        async def both() -> list[dict[str, Any]]:
            rows = await quarantined(database)
            return rows if len(rows) == 2 else []

        rows = await eventually(both, 20)
        states = [await made.state(later.id), await elsewhere.state(foreign.id)]
        attempts = [(await made.record(job_id))["attempts"] for job_id in (later.id, foreign.id)]
    assert {(row["job_id"], row["route"], row["reason"]) for row in rows} == {
        (later.id, f"{namespace}.q.default", "wrong_route"),
        (foreign.id, f"{namespace}.q.sums", "wrong_route"),
    }
    assert (states, attempts, ran) == (["queued", "queued"], [[], []], [])
