"""The broker or the ledger is away: what a producer sees, and what becomes of his jobs."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs import (
    ConfigurationError,
    LedgerUnavailable,
    PermissionDenied,
    ResultTimeout,
    SchemaMismatch,
    Submission,
)
from tests.flow.producing import Charge, Receipt, Shop, shop
from tests.flow.troubled import troubled
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.databases import Database

# Long enough for a poll on a busy machine.
SOON = timedelta(seconds=1.5)
NOWHERE = "amqp://guest@127.0.0.1:1/"


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        yield opened


async def test_broker_down__submissions_succeed_and_are_left_to_the_relay(made: Shop) -> None:
    async with made.client(broker_url=NOWHERE) as client:
        await client.submit(made.charge, Charge())
        await client.submit_many(made.charge, [Submission(Charge())] * 3)
    assert await made.count("job") == await made.count("outbox") == 4


async def test_broker_down__announce_says_that_the_relay_has_to_ring(made: Shop) -> None:
    async with made.client(broker_url=NOWHERE) as client, made.connection() as connection:
        handle = await client.submit(made.charge, Charge(), within=connection)
        await connection.commit()
        assert not await handle.announce()
    assert await made.count("outbox") == 1


async def test_broker__that_comes_back_is_rung_again(made: Shop) -> None:
    async with troubled(made.made.broker_url) as (proxy, url), made.client(broker_url=url) as client:
        await client.submit(made.charge, Charge())
        await made.all_announced()
        await proxy.stop()
        left = await client.submit(made.charge, Charge())
        await client.submit(made.charge, Charge())
        await proxy.start()

        async def one_is_rung() -> bool:
            await client.submit(made.charge, Charge())
            return await made.count("outbox") < await made.count("job") - 1

        await eventually(one_is_rung)
        assert (await left.status()).attempts == 0


async def test_silent_broker__holds_up_neither_submissions_nor_the_end(made: Shop) -> None:
    """It takes the connection and never says a word; publishing would wait five seconds for it."""
    async with troubled(made.made.broker_url) as (proxy, url):
        proxy.silence()
        began = time.monotonic()
        async with made.client(broker_url=url) as client:
            await asyncio.gather(*(client.submit(made.charge, Charge()) for _ in range(50)))
        assert time.monotonic() - began < 4
    assert await made.count("job") == await made.count("outbox") == 50


async def test_ledger_down__is_said_within_the_patience_and_nothing_is_half_submitted(made: Shop) -> None:
    async with troubled(made.database.producer_url) as (proxy, url), made.client(database_url=url) as client:
        await client.submit(made.charge, Charge())
        await proxy.stop()
        began = time.monotonic()
        answers = await asyncio.gather(
            *(client.submit(made.charge, Charge()) for _ in range(50)),
            client.submit_many(made.charge, [Submission(Charge())] * 3),
            return_exceptions=True,
        )
        assert time.monotonic() - began < 5
        assert {type(answer) for answer in answers} == {LedgerUnavailable}
        assert "may or may not have been submitted" in str(answers[0])
        await proxy.start()
        await client.submit(made.charge, Charge())
    for table in ("job", "job_state", "event"):
        assert await made.count(table) == 2


async def test_ledger__that_comes_back_in_time_is_never_noticed(made: Shop) -> None:
    patience = timedelta(seconds=20)
    async with (
        troubled(made.database.producer_url) as (proxy, url),
        made.client(database_url=url, patience=patience) as client,
        asyncio.TaskGroup() as group,
    ):
        await client.submit(made.charge, Charge())
        await proxy.stop()
        one = group.create_task(client.submit(made.charge, Charge()))
        many = group.create_task(client.submit_many(made.charge, [Submission(Charge())] * 3))
        await asyncio.wait([one, many], timeout=0.3)
        assert not one.done()
        await proxy.start()
        assert len({(await one).id, *(handle.id for handle in await many)}) == 4
    assert await made.count("job") == 5


@pytest.mark.parametrize("key", [None, "order-1"])
async def test_lost_reply__asks_again_and_the_job_is_there_once(made: Shop, key: str | None) -> None:
    """The server has committed, and the answer went with the connection."""
    async with troubled(made.database.producer_url) as (proxy, url), made.client(database_url=url) as client:
        proxy.lose_reply_to(b"brokerjobs.submit")
        handle = await client.submit(made.charge, Charge(), key=key)
        assert proxy.lost == 1
        assert (await handle.status()).attempts == 0
    assert await made.count("job") == await made.count("job_state") == await made.count("event") == 1
    assert await made.count("outbox") == 1, "left to the relay"


async def test_lost_reply__to_the_commit_of_many_asks_again_and_they_are_there_once(made: Shop) -> None:
    many = [Submission(Charge(cents=cents), key=f"order-{cents}" if cents % 2 else None) for cents in range(450)]
    async with troubled(made.database.producer_url) as (proxy, url), made.client(database_url=url) as client:
        proxy.lose_reply_to(b"COMMIT")
        handles = await client.submit_many(made.charge, many)
        assert proxy.lost == 1
        assert (await handles[-1].record()).key == "order-449"
    assert len({handle.id for handle in handles}) == 450
    assert await made.count("job") == 450


async def test_wait__survives_the_ledger_and_ends_with_its_time(made: Shop) -> None:
    async with troubled(made.database.producer_url) as (proxy, url), made.client(database_url=url) as client:
        handle = await client.submit(made.charge, Charge())
        waiter = asyncio.create_task(handle.result(timeout=timedelta(seconds=20)))
        with pytest.raises(ResultTimeout) as queued:
            await handle.result(timeout=SOON)
        await proxy.stop()
        with pytest.raises(ResultTimeout) as away:
            await handle.result(timeout=SOON)
        made.complete(handle.id, Receipt(reference="r-1"))
        assert not waiter.done()
        await proxy.start()
        assert await waiter == Receipt(reference="r-1")
    assert queued.value.state == "queued (delivery)"
    assert away.value.state == "in an unknown state"
    assert isinstance(away.value.__cause__, LedgerUnavailable)


async def test_ledger_down__announcing_never_fails(made: Shop) -> None:
    async with troubled(made.database.producer_url) as (proxy, url), made.client(database_url=url) as client:
        async with made.connection() as connection:
            handle = await client.submit(made.charge, Charge(), within=connection)
            await connection.commit()
        await proxy.stop()
        assert not await handle.announce()


async def test_silent_ledger__whoever_still_waits_when_the_client_ends_is_told(made: Shop) -> None:
    """The driver itself takes ten seconds to give up a statement that the server does not even cancel."""
    async with troubled(made.database.producer_url) as (line, url):
        async with made.client(database_url=url) as client:
            await client.submit(made.charge, Charge())
            line.silence()
            late = asyncio.create_task(client.submit(made.charge, Charge()))
            await asyncio.wait([late], timeout=0.1)
        with pytest.raises(ConfigurationError, match="closed"):
            await late


async def test_wrong_login__is_said_at_once(made: Shop) -> None:
    for url in (made.database.reader_url, made.database.worker_url):
        async with made.client(database_url=url, patience=timedelta(seconds=20)) as client:
            with pytest.raises(PermissionDenied, match="--grant"):
                await client.submit(made.charge, Charge())
            with pytest.raises(PermissionDenied):
                await client.submit_many(made.charge, [Submission(Charge())])


async def test_no_ledger__names_the_command(made: Shop, blank_database: Database) -> None:
    async with made.client(database_url=blank_database.producer_url) as client:
        with pytest.raises(SchemaMismatch, match="brokerjobs setup"):
            await client.submit(made.charge, Charge())
