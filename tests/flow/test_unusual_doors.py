"""Connections that users have made their own, and things that only look like a transaction."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from brokerjobs import ConfigurationError, IdempotencyConflict, StaleAttempt, Submission
from brokerjobs.effects import transaction as fenced
from tests.flow import djangos
from tests.flow.producing import Charge, Receipt
from tests.flow.storefront import Storefront, Street, street
from tests.flow.untyped import (
    asyncpg,
    django_cache,
    django_db,
    django_sqlite,
    django_transaction,
    psycopg2,
    psycopg2_extras,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from brokerjobs.client import SyncClient
    from brokerjobs.servers.finder import Server
    from tests.databases import Databases

RECEIPT = Receipt(reference="r-1")


@pytest.fixture(scope="module")
def high_street(databases: Databases, rabbitmq: Server) -> Iterator[Street]:
    database = databases.with_ledger()
    with street(database, rabbitmq.url) as opened:
        yield opened
    databases.drop(database)


@pytest.fixture
def shop(high_street: Street, namespace: str) -> Storefront:
    return high_street.storefront(namespace)


@pytest.fixture
def client(shop: Storefront) -> Iterator[SyncClient]:
    with shop.client() as opened:
        yield opened


def _submit_and_refuse(shop: Storefront, client: SyncClient, within: Any) -> UUID:
    """One job, many in a savepoint, and a conflict; answers the first job's id."""
    handle = client.submit(shop.charge, Charge(), key="order-1", within=within)
    client.submit_many(shop.charge, [Submission(Charge(), key="order-2")], within=within)
    with pytest.raises(IdempotencyConflict):
        client.submit_many(shop.charge, [Submission(Charge(cents=3), key="order-2")], within=within)
    return handle.id


def test_psycopg__with_rows_cursors_and_types_of_the_users_own(shop: Storefront, client: SyncClient) -> None:
    with psycopg.connect(shop.database.producer_url, cursor_factory=psycopg.RawCursor) as connection:
        connection.row_factory = cast("Any", dict_row)
        connection.adapters.register_loader("uuid", TextLoader)
        job_id = _submit_and_refuse(shop, client, connection)
    assert shop.jobs()["order-1"] == job_id
    assert set(shop.jobs()) == {"order-1", "order-2"}


def test_psycopg__in_autocommit_with_a_transaction_open(shop: Storefront, client: SyncClient) -> None:
    with psycopg.connect(shop.database.producer_url, autocommit=True) as connection:
        with connection.transaction():
            _submit_and_refuse(shop, client, connection)
            assert shop.jobs() == {}
        assert set(shop.jobs()) == {"order-1", "order-2"}


@pytest.mark.parametrize("autocommit", [False, True])
def test_psycopg2__with_cursors_of_the_users_own(shop: Storefront, client: SyncClient, autocommit: bool) -> None:
    """In autocommit his own BEGIN has opened the transaction."""
    connection = psycopg2.connect(shop.database.producer_url, cursor_factory=psycopg2_extras.RealDictCursor)
    connection.autocommit = autocommit
    with connection.cursor() as cursor:
        cursor.execute("begin" if autocommit else "select 1")
        _submit_and_refuse(shop, client, connection)
        assert shop.jobs() == {}
        cursor.execute("commit")
    connection.close()
    assert set(shop.jobs()) == {"order-1", "order-2"}


def test_asyncpg__lent_by_a_pool(shop: Storefront) -> None:
    async def submit() -> None:
        pool = await asyncpg.create_pool(shop.database.producer_url, min_size=1, max_size=1)
        async with shop.async_client() as client, pool.acquire() as connection:
            async with connection.transaction():
                await client.submit(shop.charge, Charge(), key="order-1", within=connection)
                assert shop.jobs() == {}
            assert set(shop.jobs()) == {"order-1"}
        await pool.close()

    asyncio.run(submit())


def test_async_session__in_its_sync_part(shop: Storefront, client: SyncClient) -> None:
    """What SQLAlchemy runs by `run_sync` has a sync Session over an async driver."""
    engine = create_async_engine(
        shop.database.producer_url.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool
    )

    async def submit() -> None:
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda within: _submit_and_refuse(shop, client, within))
            assert shop.jobs() == {}
            await session.commit()

    asyncio.run(submit())
    assert set(shop.jobs()) == {"order-1", "order-2"}


def test_session__with_a_savepoint_of_the_users_own(shop: Storefront, client: SyncClient) -> None:
    engine = create_engine(shop.database.producer_url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        session.execute(text(shop.insert_order(1)))
        with session.begin_nested() as inner:
            _submit_and_refuse(shop, client, session)
            inner.rollback()
        client.submit(shop.charge, Charge(), key="order-3", within=session)
        session.commit()
    engine.dispose()
    assert set(shop.jobs()) == {"order-3"}
    assert shop.orders() == [1]


@pytest.mark.parametrize("wrapper", ["proxy", "wrapper", "driver"])
def test_django__takes_its_connection_in_every_form(shop: Storefront, client: SyncClient, wrapper: str) -> None:
    with djangos.database(shop.database.producer_url) as proxy, django_transaction.atomic():
        with proxy.cursor() as cursor:
            cursor.execute(shop.insert_order(1))
        within = {
            "proxy": proxy,
            "wrapper": django_db.connections["default"],
            "driver": proxy.connection,
        }[wrapper]
        _submit_and_refuse(shop, client, within)
        assert shop.jobs() == {}
    assert set(shop.jobs()) == {"order-1", "order-2"}
    assert shop.orders() == [1]


def test_django__driver_outside_an_atomic_block_is_refused(shop: Storefront, client: SyncClient) -> None:
    with djangos.database(shop.database.producer_url) as connection:
        connection.ensure_connection()
        with pytest.raises(ConfigurationError, match="psycopg connection in autocommit"):
            client.submit(shop.charge, Charge(), within=connection.connection)


def test_django__with_autocommit_off_is_a_transaction(shop: Storefront, client: SyncClient) -> None:
    with djangos.database(shop.database.producer_url) as connection:
        connection.set_autocommit(False)
        _submit_and_refuse(shop, client, connection)
        assert shop.jobs() == {}
        connection.commit()
        connection.set_autocommit(True)
    assert set(shop.jobs()) == {"order-1", "order-2"}


def test_django__after_a_stale_attempt_runs_nothing_more_and_no_hooks(shop: Storefront) -> None:
    """As after an error of its own models: a swallowed one neither commits nor pretends to."""
    place = shop.place(shop.submit())
    shop.lose(place)
    hooks: list[str] = []
    with djangos.database(shop.database.worker_url) as connection:
        with django_transaction.atomic():
            django_transaction.on_commit(lambda: hooks.append("committed"))
            with pytest.raises(StaleAttempt):
                fenced.sync_complete(place, RECEIPT, within=connection)
            with pytest.raises(Exception, match="end of the 'atomic' block"), connection.cursor() as cursor:
                cursor.execute("select 1")
        assert hooks == []


def test_django__announces_on_commit(shop: Storefront, client: SyncClient) -> None:
    route = shop.open_route()
    with djangos.database(shop.database.producer_url) as connection:
        with django_transaction.atomic():
            handle = client.submit(shop.charge, Charge(), within=connection)
            django_transaction.on_commit(handle.announce)
            assert shop.bells() == 0
        assert shop.bells() == 0
    assert shop.arrived(route, 1) == {handle.id}
    assert not handle.announce(), "there is nothing left to ring"


def test_django__over_psycopg2_keeps_the_same_promises(shop: Storefront) -> None:
    current, stale = (shop.place(shop.submit()) for _ in range(2))
    shop.lose(stale)
    given = {
        "namespace": shop.app.namespace,
        "producer_url": shop.database.producer_url,
        "worker_url": shop.database.worker_url,
        "current": [str(current.holding.job_id), str(current.holding.attempt_id), current.holding.fencing_number],
        "stale": [str(stale.holding.job_id), str(stale.holding.attempt_id), stale.holding.fencing_number],
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.flow.older_django"],
        env=os.environ
        | {
            "OLDER_DJANGO": json.dumps(given),
            "BROKERJOBS_DATABASE_URL": shop.database.producer_url,
            "BROKERJOBS_BROKER_URL": shop.street.broker_url,
        },
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    told: dict[str, str] = json.loads(ran.stdout)
    assert told.pop("driver") == "psycopg2"
    assert told.keys() == {"autocommit", "conflict", "stale"}
    assert "with transaction.atomic():" in told["autocommit"]
    assert told["conflict"].startswith("IdempotencyConflict: key 'order-1' was first used by 'older'")
    assert told["stale"].startswith("StaleAttempt: ")
    assert shop.jobs().keys() == {None, "order-1"}
    assert (shop.state(current.holding.job_id), shop.state(stale.holding.job_id)) == ("succeeded", "running")
    assert shop.orders() == [1, 2, 3]


@pytest.mark.parametrize("what", ["engine", "pool", "cursor", "cache", "sqlite", "django sqlite"])
def test_what_only_looks_like_a_transaction__is_refused(shop: Storefront, client: SyncClient, what: str) -> None:
    url = shop.database.producer_url
    with psycopg.connect(url) as connection, djangos.database(url):
        sqlite = create_engine("sqlite://")
        kinds: dict[str, Callable[[], Any]] = {
            "engine": lambda: create_engine(url),
            "pool": lambda: create_engine(url).pool,
            "cursor": connection.cursor,
            "cache": lambda: django_cache.cache,
            "sqlite": lambda: Session(sqlite),
            "django sqlite": _django_sqlite,
        }
        said = {
            "sqlite": "SQLAlchemy transaction of sqlite; the ledger is in PostgreSQL",
            "django sqlite": "Django connection to sqlite; the ledger is in PostgreSQL",
            "cache": "Django connection to something else than a database",
        }.get(what, "here it takes a psycopg Connection, a SQLAlchemy Session or Connection")
        with pytest.raises(ConfigurationError, match=said):
            client.submit(shop.charge, Charge(), within=kinds[what]())
        sqlite.dispose()


def _django_sqlite() -> Any:
    settings = django_db.connections.configure_settings({"default": {"ENGINE": "django.db.backends.sqlite3"}})
    return django_sqlite.DatabaseWrapper(settings["default"])
