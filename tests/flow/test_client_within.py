"""Submissions in the caller's own transaction: they are there when he commits, and no refusal costs him his writes."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from brokerjobs import (
    ConfigurationError,
    IdempotencyConflict,
    JobNotFound,
    KeyInFlight,
    Submission,
    SubmissionRefused,
)
from tests.flow.borrowing import WAYS, borrowed
from tests.flow.producing import Charge, Shop, shop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.databases import Database

every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        await opened.execute("create table orders (number integer)", "grant all on orders to public")
        yield opened


@every_way
async def test_within__the_job_is_there_when_the_caller_commits(made: Shop, way: str) -> None:
    not_before = datetime.now(UTC) - timedelta(minutes=1)
    async with made.client() as client, borrowed(way, made.database.producer_url) as caller:
        await caller.order(1)
        handle = await client.submit(
            made.charge,
            Charge(account='quotes " and \\ and {braces}, NULL'),
            key="order-1",
            tags={"order": "1", "na{me": 'a "quoted", \\ value'},
            not_before=not_before,
            deadline=timedelta(hours=1),
            within=caller.within,
        )
        with pytest.raises(JobNotFound):
            await handle.status()
        await caller.commit()
        record = await handle.record()
    assert record.data["payload"]["account"] == 'quotes " and \\ and {braces}, NULL'
    assert record.tags == {"order": "1", "na{me": 'a "quoted", \\ value'}
    assert record.not_before == not_before
    assert record.deadline == record.submitted_at + timedelta(hours=1)
    assert record.data["payload_checked"]
    assert await made.rows("select number from orders") == [{"number": 1}]
    (left,) = await made.rows("select hold_until <= made_at as at_once from brokerjobs.outbox")
    assert left["at_once"], "the relay may publish it as soon as the caller commits"


@every_way
async def test_within__a_rollback_leaves_no_job(made: Shop, way: str) -> None:
    async with made.client() as client, borrowed(way, made.database.producer_url) as caller:
        handle = await client.submit(made.charge, Charge(), key="order-1", within=caller.within)
        await caller.rollback()
        with pytest.raises(JobNotFound):
            await handle.announce()
        assert await client.find(made.charge, key="order-1") is None
    assert await made.count("job") == await made.count("outbox") == await made.count("idempotency_key") == 0


@every_way
async def test_within__a_conflict_leaves_the_callers_transaction_alive(made: Shop, way: str) -> None:
    async with made.client("billing") as billing, made.client() as client:
        first = await billing.submit(made.charge, Charge(cents=1), key="order-1")
        async with borrowed(way, made.database.producer_url) as caller:
            await caller.order(1)
            with pytest.raises(IdempotencyConflict) as refused:
                await client.submit(made.charge, Charge(cents=2), key="order-1", within=caller.within)
            await caller.order(2)
            other = await client.submit(made.charge, Charge(cents=2), key="order-2", within=caller.within)
            await caller.commit()
        assert (await other.status()).attempts == 0
    assert refused.value.job_id == first.id
    assert (refused.value.submitted_by, refused.value.first_submitted_by) == ("orders-api", "billing")
    assert await made.rows("select number from orders order by 1") == [{"number": 1}, {"number": 2}]


@every_way
async def test_within__the_same_key_and_payload_is_the_same_job(made: Shop, way: str) -> None:
    async with made.client() as client, borrowed(way, made.database.producer_url) as caller:
        first = await client.submit(made.charge, Charge(), key="order-1")
        again = await client.submit(made.charge, Charge(), key="order-1", within=caller.within)
        await caller.commit()
    assert again.id == first.id
    assert await made.count("job") == 1


@every_way
async def test_within__many_are_recorded_or_none(made: Shop, way: str) -> None:
    many = [Submission(Charge(cents=cents), key=f"order-{cents}") for cents in range(300)]
    async with made.client() as client:
        await client.submit(made.charge, Charge(cents=-1), key="order-250")
        async with borrowed(way, made.database.producer_url) as caller:
            await caller.order(1)
            with pytest.raises(IdempotencyConflict) as refused:
                await client.submit_many(made.charge, many, within=caller.within)
            await caller.order(2)
            handles = await client.submit_many(made.charge, many[:250], within=caller.within)
            await caller.commit()
        assert [(await handle.record()).key for handle in (handles[0], handles[-1])] == ["order-0", "order-249"]
    assert refused.value.__notes__ == ["submission 251 of 300; none of them was recorded"]
    assert await made.count("job") == 251
    assert await made.count("orders", schema="public") == 2


@every_way
async def test_within__many_do_not_commit_for_the_caller(made: Shop, way: str) -> None:
    async with made.client() as client, borrowed(way, made.database.producer_url) as caller:
        await client.submit_many(made.charge, [Submission(Charge()), Submission(Charge())], within=caller.within)
        await caller.rollback()
    assert await made.count("job") == 0


@every_way
async def test_within__what_the_ledger_refuses_leaves_the_transaction_alive(made: Shop, way: str) -> None:
    async with made.client() as client, borrowed(way, made.database.producer_url) as caller:
        await caller.order(1)
        for wrong in (timedelta.max, timedelta.min, datetime.max.replace(tzinfo=UTC)):
            with pytest.raises(SubmissionRefused, match="deadline"):
                await client.submit(made.charge, Charge(), deadline=wrong, within=caller.within)
        await caller.commit()
    assert await made.count("orders", schema="public") == 1


class _Base(DeclarativeBase):
    pass


class _Order(_Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)


@pytest.mark.parametrize("way", ["session/psycopg", "session/asyncpg"])
async def test_within__a_sessions_objects_are_written_before_the_job(made: Shop, way: str) -> None:
    """Also with autoflush off, so that whatever refuses them does so before the job is submitted."""
    async with made.client() as client, borrowed(way, made.database.producer_url) as caller:
        caller.within.sync_session.autoflush = False
        caller.within.add(_Order(number=7))
        await client.submit(made.charge, Charge(), within=caller.within)
        assert not caller.within.new
        await caller.commit()
    assert await made.rows("select number from orders") == [{"number": 7}]


@pytest.mark.parametrize("way", ["session/psycopg", "connection/asyncpg"])
async def test_within__autocommit_is_refused(made: Shop, way: str) -> None:
    url = made.database.producer_url
    async with made.client() as client, borrowed(way, url, isolation_level="AUTOCOMMIT") as caller:
        with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
            await client.submit(made.charge, Charge(), within=caller.within)
    async with made.client() as client, await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        with pytest.raises(ConfigurationError, match="autocommit"):
            await client.submit(made.charge, Charge(), within=connection)
        async with connection.transaction():
            await client.submit(made.charge, Charge(), within=connection)
    assert await made.count("job") == 1


async def test_within__what_is_no_transaction_is_refused(made: Shop) -> None:
    async with made.client() as client:
        with pytest.raises(ConfigurationError, match=r"within= was given a builtins\.str"):
            await client.submit(made.charge, Charge(), within="session")


@every_way
async def test_key__held_by_another_transaction_is_in_flight(made: Shop, way: str) -> None:
    url = made.database.producer_url
    async with made.client() as client, borrowed(way, url) as holder, borrowed(way, url) as caller:
        held = await client.submit(made.charge, Charge(), key="order-1", within=holder.within)
        await caller.order(1)
        with pytest.raises(KeyInFlight) as refused:
            await client.submit(made.charge, Charge(), key="order-1", within=caller.within)
        assert refused.value.key == "order-1"
        await holder.commit()
        again = await client.submit(made.charge, Charge(), key="order-1", within=caller.within)
        await caller.commit()
    assert again.id == held.id
    assert await made.count("orders", schema="public") == 1


async def test_keys__held_by_another_transaction_are_waited_for_together(made: Shop) -> None:
    """Each may be waited for two seconds; those that share a commit are not waited for one after the other."""
    async with made.client() as client, made.connection() as holder:
        many = [Submission(Charge(), key=f"order-{number}") for number in range(20)]
        await client.submit_many(made.charge, many, within=holder)
        began = time.monotonic()
        answers = await asyncio.gather(
            *(client.submit(made.charge, Charge(), key=one.key) for one in many),
            client.submit_many(made.charge, many),
            return_exceptions=True,
        )
        assert time.monotonic() - began < 10
    assert {type(answer) for answer in answers} == {KeyInFlight}


@every_way
async def test_announce__rings_at_once_after_the_commit(made: Shop, way: str) -> None:
    async with made.client() as client, borrowed(way, made.database.producer_url) as caller:
        handle = await client.submit(made.charge, Charge(), within=caller.within)
        with pytest.raises(JobNotFound):
            await handle.announce()
        await caller.commit()
        assert await made.count("outbox") == 1
        assert await handle.announce()
        assert await made.count("outbox") == 0
        assert not await handle.announce(), "there is nothing left to ring"
        assert await made.arrived(1) == {handle.id}
