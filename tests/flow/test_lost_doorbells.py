"""Doorbells that the broker lost, that somebody holds, or that went to quarantine: every job is run all the same."""

from __future__ import annotations

import asyncio
import signal
import struct
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg

from brokerjobs import App
from brokerjobs.broker import codec, names
from brokerjobs.broker.names import route_name
from brokerjobs.broker.protocol import Delivery
from brokerjobs.ledger import services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.worker.hand_back import HandBack
from tests import deliveries
from tests.broker import raw
from tests.deliveries import delivery
from tests.flow.driving import Flow, coordinating, flow
from tests.flow.processes import stage
from tests.flow.proxy import proxied
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path
    from uuid import UUID

    import pytest

    from tests.databases import Database

QUICK: dict[str, Any] = {"reconcile": timedelta(milliseconds=200), "hand_back": timedelta(minutes=5)}
HEARTBEAT = timedelta(milliseconds=300)


async def rows(database: Database, query: str, *params: object) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        return await (await connection.execute(query.encode(), params)).fetchall()


async def count(database: Database, query: str, *params: object) -> int:
    return int((await rows(database, query, *params))[0][0])


async def lose_rings(made: Flow, jobs: Iterable[UUID]) -> None:
    """As if the broker had confirmed them, and lost them then."""
    tickets = await rows(made.database, "select ticket from brokerjobs.outbox where job_id = any (%s)", list(jobs))
    losing = AsyncLedgerConnection(ConnectOptions(made.database.coordinator_url))
    await losing.fetch(services.outbox_done([ticket for (ticket,) in tickets]))
    await losing.close()


async def all_succeeded(made: Flow, jobs: Iterable[UUID], within_seconds: float = 40.0) -> None:
    wanted = list(jobs)

    async def have() -> bool:
        done = "select count(*) from brokerjobs.job_state where job_id = any (%s) and state = 'succeeded'"
        return await count(made.database, done, wanted) == len(wanted)

    await eventually(have, within_seconds)


async def holds(url: str, queue: str, messages: int) -> None:
    """Waits until so many messages of the queue, or more, are with no consumer: a probe may be among them."""

    async def does() -> bool:
        return await raw.messages_in(url, queue) >= messages

    await eventually(does, 40)


@asynccontextmanager
async def hog(url: str, route: str, prefetch: int) -> AsyncGenerator[list[Any]]:
    """A consumer that is none of ours, and never acknowledges."""
    held: list[Any] = []

    async def keep(message: Any) -> None:
        held.append(message)

    async with raw.channel(url) as channel:
        await channel.basic_qos(prefetch_count=prefetch)
        await channel.basic_consume(route, keep)
        yield held


async def empty(url: str, namespace: str, queue: str = "default") -> None:
    """Removes all that a namespace has at the broker: to it that is a new broker."""
    async with raw.channel(url) as channel:
        for gone in (route_name(namespace, queue), names.dead_queue(namespace), names.quarantine_queue(namespace)):
            await channel.queue_delete(gone)
        for exchange_of in (names.jobs_exchange, names.dead_exchange, names.quarantine_exchange):
            await channel.exchange_delete(exchange_of(namespace))


async def test_broker__that_is_replaced_by_an_empty_one_costs_no_job(
    database: Database, namespace: str, broker_url: str
) -> None:
    """Its worker lives through it, the coordinator declares what is gone, and the ledger rings a thousand jobs."""
    app = App(namespace)
    go = asyncio.Event()

    @app.job("work", repeatable=True)
    async def work(payload: int) -> int:
        await go.wait()
        return payload

    async with flow(app, database, broker_url) as made:
        jobs = await made.submit_many(work, range(1000))
        worker = made.worker(concurrency=20, deliveries=40, heartbeat=HEARTBEAT)
        async with coordinating(made, **QUICK), made.working(worker):
            await holds(broker_url, route_name(namespace, "default"), 960)
            await empty(broker_url, namespace)
            go.set()
            await all_succeeded(made, jobs)
    rung = await count(database, "select count(*) from brokerjobs.event where kind = 'rung_again'")
    # All but those that it held, and at most what it holds once more.
    assert 940 <= rung <= 1040
    assert await count(database, "select max(number) from brokerjobs.job_state") == 1


async def test_lost_doorbells__are_found_behind_a_standing_backlog_and_a_consumer_that_holds_its_prefetch(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    backlogged = True

    @app.job("work", repeatable=True)
    async def work(payload: int) -> int:
        await asyncio.sleep(0.005)
        return payload

    async with flow(app, database, broker_url) as made:
        route = route_name(namespace, "default")
        lost = await made.submit_many(work, range(20))
        await lose_rings(made, lost)
        async with hog(broker_url, route, 10) as held, coordinating(made, **QUICK):
            first = await made.submit_many(work, range(100))
            await holds(broker_url, route, 90)
            assert len(held) == 10
            async with asyncio.TaskGroup() as group:

                async def keep_waiting() -> None:
                    while backlogged:
                        if await raw.messages_in(broker_url, route) < 60:
                            await made.submit_many(work, range(30))

                feeding = group.create_task(keep_waiting())
                worker = made.worker(concurrency=2, deliveries=4, heartbeat=HEARTBEAT)
                async with made.working(worker):
                    await all_succeeded(made, [*lost, *first])
                    assert await raw.messages_in(broker_url, route) > 0
                    assert len(held) == 10
                    backlogged = False
                    await feeding
        rung = "select count(*) from brokerjobs.event where kind = 'rung_again' and job_id = any (%s)"
        assert await count(database, rung, lost) >= 20
        others = "select count(*) from brokerjobs.event where kind = 'rung_again' and job_id <> all (%s)"
        # What the other consumer holds, and a little that was on its way to the worker when it said what it held.
        assert 10 <= await count(database, others, lost) <= 30
    assert await count(database, "select max(number) from brokerjobs.job_state") == 1


async def test_stopped_worker__has_its_prefetch_run_by_others_and_its_duplicates_answered_from_the_ledger(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    """The broker does not miss it for an hour: nothing but the ledger finds these jobs."""
    async with stage(database, namespace, broker_url, tmp_path) as on:
        jobs = await on.made.submit_many(on.repeatable, [["line:ran", "touch:began", "wait:go"]] * 9)
        with on.worker("worker-a", BROKER__HEARTBEAT="1h", WORKER__CONCURRENCY="1", WORKER__PREFETCH="9") as paused:
            async with coordinating(on.made, **QUICK):
                await on.marked("began")

                async def all_are_held() -> bool:
                    said = "select max((detail ->> 'unclaimed')::integer) from brokerjobs.worker"
                    return await count(database, said) == 8

                await eventually(all_are_held, 20)
                paused.signal(signal.SIGSTOP)
                on.mark("go")
                with on.worker("worker-b"):
                    await all_succeeded(on.made, jobs)
                    paused.signal(signal.SIGCONT)

                    async def answered() -> bool:
                        kind = "select count(*) from brokerjobs.event where kind = 'duplicate_delivery'"
                        return await count(database, kind) >= 8

                    await eventually(answered, 20)
    # Its prefetch, once a round.
    assert 8 <= await count(database, "select count(*) from brokerjobs.event where kind = 'rung_again'") <= 16
    accepted = "select count(*) from brokerjobs.attempt where verdict = 'accepted'"
    assert await count(database, accepted) == 9
    assert len(on.lines("ran")) <= 10  # the one that ran when it was stopped may have been tried again


async def test_probe__is_reported_while_every_slot_is_taken_and_takes_none(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    go = asyncio.Event()

    @app.job("work", repeatable=True)
    async def work(payload: int) -> int:
        await go.wait()
        return payload

    async with flow(app, database, broker_url) as made:
        jobs = await made.submit_many(work, range(4))
        worker = made.worker(concurrency=1, deliveries=10, heartbeat=HEARTBEAT)
        async with coordinating(made, **QUICK), made.working(worker):

            async def returned() -> bool:
                return bool(await rows(database, "select from brokerjobs.probe where returned_by = 'worker-a'"))

            await eventually(returned, 20)
            assert worker.unclaimed == 3

            async def said() -> bool:
                """Three heartbeats after the probe's return: it has had its say, and holds what is older."""
                later = "select from brokerjobs.worker w, brokerjobs.probe p where w.heartbeat_at > p.returned_at + %s"
                return bool(await rows(database, later, 3 * HEARTBEAT))

            await eventually(said, 20)
            assert await count(database, "select count(*) from brokerjobs.event where kind = 'rung_again'") == 0
            go.set()
            await all_succeeded(made, jobs)
        assert await raw.messages_in(broker_url, route_name(namespace, "default")) == 0


async def test_hand_back__gives_what_finds_no_slot_to_a_worker_with_one(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    ran: list[int] = []
    go = asyncio.Event()

    @app.job("work", repeatable=True)
    async def work(payload: int) -> None:
        ran.append(payload)
        if payload == 0:
            await go.wait()

    async with flow(app, database, broker_url) as made, coordinating(made):
        (long,) = await made.submit_many(work, [0])
        busy = made.worker("worker-a", concurrency=1, deliveries=4, hand_back=timedelta(milliseconds=500))
        async with made.working(busy):
            await made.reached(long, "running")
            others = await made.submit_many(work, [1, 2, 3])

            async def held() -> bool:
                return busy.unclaimed == 3

            await eventually(held, 20)
            async with made.working(made.worker("worker-b")):
                await all_succeeded(made, others)
            go.set()
            await made.reached(long, "succeeded")
        assert await raw.messages_in(broker_url, route_name(namespace, "default")) == 0
    assert sorted(ran) == [0, 1, 2, 3]
    given = await rows(database, "select job_id, detail ->> 'worker' from brokerjobs.event where kind = 'handed_back'")
    assert {job for job, _ in given} == set(others)
    assert {worker for _, worker in given} == {"worker-a"}


async def test_hand_back__of_a_worker_alone_with_its_backlog_makes_no_storm(
    database: Database, namespace: str, broker_url: str
) -> None:
    """Each delivery is given back once in the time that it may wait, and no oftener, whoever gets it next."""
    app = App(namespace)
    go = asyncio.Event()
    after, rounds, prefetch = timedelta(milliseconds=500), 4, 5

    @app.job("work", repeatable=True)
    async def work(payload: int) -> None:
        await go.wait()

    async with flow(app, database, broker_url) as made, coordinating(made):
        await made.submit_many(work, range(prefetch))
        busy = made.worker(concurrency=1, deliveries=prefetch, hand_back=after)
        async with made.working(busy):

            async def often() -> bool:
                back = "select count(*) from brokerjobs.event where kind = 'handed_back'"
                return await count(database, back) >= rounds * (prefetch - 1)

            await eventually(often, 40)
            again = await rows(
                database,
                "select at - lag(at) over (partition by job_id order by at) from brokerjobs.event"
                " where kind = 'handed_back'",
            )
            go.set()
    apart = [gap for (gap,) in again if gap is not None]
    assert len(apart) >= (rounds - 1) * (prefetch - 1)
    assert min(apart) >= after


async def test_quarantine__of_a_jobs_own_doorbell_has_it_rung_again(
    database: Database, namespace: str, broker_url: str
) -> None:
    """Damaged on its way, or by another queue: with the message that named it the job would have waited for ever."""
    app = App(namespace)

    @app.job("work", repeatable=True)
    async def work(payload: str) -> str:
        return payload

    @app.job("other", repeatable=True, queue="other")
    async def other(payload: str) -> str:
        return payload

    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        damaged, elsewhere = [await made.submit(work, name) for name in ("damaged", "elsewhere")]
        await lose_rings(made, [damaged.id, elsewhere.id])
        hostile = raw.RawMessage(
            names.jobs_exchange(namespace),
            route_name(namespace, "default").encode(),
            {
                raw.DELIVERY_MODE: raw.PERSISTENT,
                raw.TIMESTAMP: struct.pack(">Q", 2**63),
                raw.MESSAGE_ID: raw.short(str(uuid4()).encode()),
                raw.TYPE: raw.short(names.DOORBELL_TYPE.encode()),
            },
            codec.encode_doorbell(damaged.id),
        )
        await raw.publish(broker_url, hostile)
        await made.ring(elsewhere.id, queue="other")

        await all_succeeded(made, [damaged.id, elsewhere.id])

        await raw.comes_to_hold(broker_url, names.quarantine_queue(namespace), 2)
    again = await rows(
        database, "select job_id, detail ->> 'by', detail ->> 'reason' from brokerjobs.event where kind = 'rung_again'"
    )
    by_job = {job: (by, reason) for job, by, reason in again}
    assert len(again) == 2
    assert by_job[elsewhere.id] == ("quarantine", "wrong_route")
    assert by_job[damaged.id][1].startswith("its properties cannot be decoded: timestamp")


async def test_probe__that_comes_while_the_ledger_is_away_is_reported_when_it_is_back(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)

    @app.job("work", repeatable=True)
    async def work(payload: int) -> int:
        return payload

    async with flow(app, database, broker_url) as made, proxied(database.worker_url) as line:
        route, ticket = route_name(namespace, "default"), uuid4()
        worker = made.worker(database_url=line.url)
        async with made.working(worker):

            async def is_up() -> bool:
                return bool(await rows(database, "select from brokerjobs.worker"))

            await eventually(is_up, 20)
            line.cut()
            await rows(
                database,
                "insert into brokerjobs.probe (ticket, route, made_at) values (%s, %s, now()) returning ticket",
                ticket,
                route,
            )
            await made.publisher.publish([codec.probe(ticket=ticket, namespace=namespace, route=route)])
            await raw.comes_to_hold(broker_url, route, 0)
            line.heal()

            async def reported() -> bool:
                return bool(await rows(database, "select from brokerjobs.probe where returned_at is not null"))

            await eventually(reported, 30)
        assert await raw.messages_in(broker_url, route) == 0


async def test_worker__that_may_not_report_probes_says_so_once_and_works_on(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Logins that were granted functions one by one have not got this one before `setup --grant` ran again."""
    app = App(namespace)

    @app.job("work", repeatable=True)
    async def work(payload: int) -> int:
        return payload

    async with await psycopg.AsyncConnection.connect(database.owner_url, autocommit=True) as owner:
        await owner.execute("revoke execute on function brokerjobs.probe_returned from brokerjobs_worker")
    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        route = route_name(namespace, "default")
        for _ in range(2):
            await made.publisher.publish([codec.probe(ticket=uuid4(), namespace=namespace, route=route)])
        await all_succeeded(made, await made.submit_many(work, [1, 2]))
        await raw.comes_to_hold(broker_url, route, 0)
    assert caplog.text.count("may not report probes") == 1


async def test_hand_back__takes_only_what_has_waited_so_long(database: Database) -> None:
    inbox, settled = deliveries.inbox(), list[Delivery]()
    old, young = delivery(60), delivery(1)
    for one in (old, young):
        inbox.put(one)
    ledger = AsyncLedgerConnection(ConnectOptions(database.worker_url))
    looking = asyncio.create_task(HandBack(inbox, ledger, settled.append, "worker-a", timedelta(seconds=30)).run())

    async def given() -> bool:
        return bool(settled)

    await eventually(given, 20)
    looking.cancel()
    await ledger.close()

    assert settled == [old]
    assert inbox.take(5) == [young]
