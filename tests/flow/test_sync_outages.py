"""The broker or the ledger is away: what a thread sees that submits, and how long it is held up."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from brokerjobs import LedgerUnavailable, ResultTimeout, Submission
from brokerjobs.client import SyncClient
from tests.flow.producing import Charge, Receipt, Shop, shop
from tests.flow.troubled import troubled

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.databases import Database

NOWHERE = "amqp://guest@127.0.0.1:1/"
SOON = timedelta(seconds=1.5)


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        yield opened


def _client(made: Shop, **options: Any) -> SyncClient:
    return SyncClient(made.client_options(**options))


@asynccontextmanager
async def _open(made: Shop, **options: Any) -> AsyncGenerator[SyncClient]:
    """A client that threads use, and one of them closes: the line to its servers is on this event loop."""
    client = _client(made, **options)
    try:
        yield client
    finally:
        await asyncio.to_thread(client.close)


async def test_broker_down__submissions_succeed_and_are_left_to_the_relay(made: Shop) -> None:
    def submit() -> bool:
        with _client(made, broker_url=NOWHERE) as client:
            client.submit(made.charge, Charge())
            client.submit_many(made.charge, [Submission(Charge())] * 3)
            with psycopg.connect(made.database.producer_url) as connection:
                handle = client.submit(made.charge, Charge(), within=connection)
            return handle.announce()

    assert not await asyncio.to_thread(submit)
    assert await made.count("job") == await made.count("outbox") == 5


async def test_silent_broker__holds_nobody_up(made: Shop) -> None:
    """It takes the connection and never says a word; publishing waits five seconds for it."""

    def submit(url: str) -> tuple[float, float, float]:
        began = time.monotonic()
        client = _client(made, broker_url=url)
        for _ in range(20):
            client.submit(made.charge, Charge())
        submitted = time.monotonic()
        with psycopg.connect(made.database.producer_url) as connection:
            handle = client.submit(made.charge, Charge(), within=connection)
        assert not handle.announce()
        announced = time.monotonic()
        client.close()
        return submitted - began, announced - submitted, time.monotonic() - announced

    async with troubled(made.made.broker_url) as (line, url):
        line.silence()
        submitting, announcing, closing = await asyncio.to_thread(submit, url)
    assert submitting < 2
    assert announcing < 4
    assert closing < 4
    assert await made.count("job") == await made.count("outbox") == 21


async def test_ledger_down__is_said_within_the_patience_and_forgotten_when_it_is_back(made: Shop) -> None:
    async with troubled(made.database.producer_url) as (line, url), _open(made, database_url=url) as client:
        # All connections are in use once, and broken afterwards.
        await asyncio.gather(*(asyncio.to_thread(client.submit, made.charge, Charge()) for _ in range(8)))
        await line.stop()
        began = time.monotonic()
        answers = await asyncio.gather(
            *(asyncio.to_thread(client.submit, made.charge, Charge()) for _ in range(8)),
            asyncio.to_thread(client.submit_many, made.charge, [Submission(Charge())] * 3),
            return_exceptions=True,
        )
        assert time.monotonic() - began < 5
        assert {type(answer) for answer in answers} == {LedgerUnavailable}
        assert "may or may not have been submitted" in str(answers[0])
        await line.start()
        handle = await asyncio.to_thread(client.submit, made.charge, Charge())
        assert (await asyncio.to_thread(handle.status)).attempts == 0
    for table in ("job", "job_state", "event"):
        assert await made.count(table) == 9


async def test_silent_ledger__holds_a_thread_up_for_so_long_alone(made: Shop) -> None:
    """The line is there and nothing comes over it: a coroutine could be cancelled."""
    second = timedelta(seconds=1)
    impatient = {"patience": timedelta(milliseconds=10), "answer": second}
    async with (
        troubled(made.database.producer_url) as (line, url),
        _open(made, database_url=url, **impatient) as client,
    ):
        handle = await asyncio.to_thread(client.submit, made.charge, Charge())
        many = [Submission(Charge())] * 3
        await asyncio.to_thread(client.submit_many, made.charge, many)
        line.silence()
        began = time.monotonic()
        with pytest.raises(LedgerUnavailable, match="may or may not have been submitted"):
            await asyncio.to_thread(client.submit, made.charge, Charge())
        assert time.monotonic() - began < 5
        with pytest.raises(ResultTimeout):
            await asyncio.to_thread(handle.result, timeout=second)
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("key", [None, "order-1"])
async def test_lost_reply__asks_again_and_the_job_is_there_once(made: Shop, key: str | None) -> None:
    """The server has committed, and the answer went with the connection."""
    async with troubled(made.database.producer_url) as (line, url), _open(made, database_url=url) as client:
        line.lose_reply_to(b"brokerjobs.submit")
        handle = await asyncio.to_thread(client.submit, made.charge, Charge(), key=key)
        line.lose_reply_to(b"COMMIT")
        many = [Submission(Charge(cents=cents)) for cents in range(300)]
        handles = await asyncio.to_thread(client.submit_many, made.charge, many)
        assert line.lost == 2
        assert (await asyncio.to_thread(handle.status)).attempts == 0
    assert len({handle.id, *(one.id for one in handles)}) == await made.count("job") == 301


async def test_wait__survives_the_ledger_and_ends_with_its_time(made: Shop) -> None:
    async with troubled(made.database.producer_url) as (line, url), _open(made, database_url=url) as client:
        handle = await asyncio.to_thread(client.submit, made.charge, Charge())
        waiter = asyncio.create_task(asyncio.to_thread(handle.result, timeout=timedelta(seconds=20)))
        await line.stop()
        with pytest.raises(ResultTimeout) as away:
            await asyncio.to_thread(handle.result, timeout=SOON)
        made.complete(handle.id, Receipt(reference="r-1"))
        assert not waiter.done()
        await line.start()
        assert await waiter == Receipt(reference="r-1")
    assert away.value.state == "in an unknown state"
    assert isinstance(away.value.__cause__, LedgerUnavailable)
