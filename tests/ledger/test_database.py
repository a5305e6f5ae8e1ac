"""Connections to the ledger: what driver errors become."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import waiting

from brokerjobs.errors import ConfigurationError, LedgerUnavailable, PermissionDenied, SchemaMismatch
from brokerjobs.ledger import calls, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, LedgerConnection, Query
from brokerjobs.ledger.patient import CancellableConnection
from tests.databases import replaced
from tests.flow.troubled import troubled

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.databases import Database
    from tests.ledger.ledger_driver import Doors


@pytest.fixture
def shared(doors: Doors) -> Database:
    """A ledger that these tests leave as it is."""
    return doors.database


def test_fetch__under_a_stricter_default_isolation_says_what_to_set(database: Database) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(f"alter database {database.name} set default_transaction_isolation = 'repeatable read'".encode())
    connection = LedgerConnection(ConnectOptions(database.worker_url))

    with pytest.raises(
        ConfigurationError, match=r"READ COMMITTED only, this transaction is REPEATABLE READ.*ALTER ROLE"
    ):
        connection.fetch(calls.renew([], []))
    connection.close()


def test_fetch__of_what_the_login_may_not_is_denied(shared: Database) -> None:
    connection = LedgerConnection(ConnectOptions(shared.reader_url))

    with pytest.raises(PermissionDenied, match="--grant"):
        connection.fetch(calls.renew([], []))
    connection.close()


def test_fetch__without_a_ledger_names_set_up(blank_database: Database) -> None:
    connection = LedgerConnection(ConnectOptions(blank_database.worker_url))

    with pytest.raises(SchemaMismatch) as refused:
        connection.fetch(services.schema_version())
    connection.close()
    assert refused.value.command == "brokerjobs setup"


def test_fetch__with_a_wrong_password_names_the_login_and_not_the_password(shared: Database) -> None:
    """libpq gives no SQLSTATE for a refused connection, so it looks like a server that is away, but says why."""
    url = replaced(shared.worker_url, login="brokerjobs_test_worker", password="wrong-secret")
    connection = LedgerConnection(ConnectOptions(url))

    # PgBouncer says as much, but not whose login it was.
    said = 'authentication failed for user "brokerjobs_test_worker"|SASL authentication failed'
    with pytest.raises((PermissionDenied, LedgerUnavailable), match=said) as refused:
        connection.fetch(services.schema_version())
    assert "wrong-secret" not in str(refused.value)


async def test_fetch__after_its_session_ended_raises_once_and_connects_again(shared: Database) -> None:
    connection = AsyncLedgerConnection(ConnectOptions(shared.direct.worker_url, application="doomed"))
    await connection.fetch(services.schema_version())
    with psycopg.connect(shared.admin_url, autocommit=True) as admin:
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'doomed'")

    with pytest.raises(LedgerUnavailable):
        await connection.fetch(services.schema_version())
    assert len(await connection.fetch(services.schema_version())) == 1
    await connection.close()


async def test_fetch__that_was_cancelled_leaves_a_connection_that_answers(shared: Database) -> None:
    connection = AsyncLedgerConnection(ConnectOptions(shared.worker_url))
    with psycopg.connect(shared.owner_url) as owner:
        owner.execute("lock table brokerjobs.meta in access exclusive mode")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.fetch(services.schema_version()), 0.2)

        assert await asyncio.wait_for(connection.fetch(calls.renew([], [])), 5) == []
    await connection.close()


async def test_connection__looks_up_now_and_then_while_the_server_works(shared: Database) -> None:
    """psycopg's `wait_async` by itself asks without a pause, and takes all of a processor for it."""

    def looks() -> Generator[waiting.Wait, waiting.Ready | int, int]:
        end = time.monotonic() + 1.0
        count = 0
        while time.monotonic() < end:
            yield waiting.WAIT_R
            count += 1
        return count

    connection = await CancellableConnection.connect(**ConnectOptions(shared.worker_url).arguments())
    assert 1 <= await connection.wait(looks()) <= 20
    await connection.close()


async def test_fetch__makes_a_statement_again_that_met_a_deadlock(database: Database) -> None:
    """Twice: the first time again is like the first time."""
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute("create sequence public.tried")
        admin.execute(
            "create function public.third_time() returns bigint language plpgsql security definer as $$ begin"
            " if nextval('public.tried') < 3 then raise sqlstate '40P01'; end if;"
            " return currval('public.tried'); end $$"
        )
    connection = AsyncLedgerConnection(ConnectOptions(database.worker_url))

    assert await connection.fetch(Query("select public.third_time()", [], calls.Count)) == [calls.Count(3)]
    await connection.close()


@dataclass(frozen=True, slots=True)
class Prepared:
    statements: int


async def test_fetch__prepares_what_it_asks_often(shared: Database) -> None:
    """At the server itself; tests/containers has a pooler."""
    connection = AsyncLedgerConnection(ConnectOptions(shared.direct.worker_url))
    for _ in range(7):
        assert len(await connection.fetch(services.schema_version())) == 1

    query = Query("select count(*)::integer from pg_prepared_statements", [], Prepared)
    assert await connection.fetch(query) == [Prepared(1)]
    await connection.close()


async def test_statement__that_is_cancelled_waits_no_longer_for_a_silent_server(database: Database) -> None:
    async with troubled(database.worker_url) as (line, url):
        connection = AsyncLedgerConnection(ConnectOptions(url))
        await connection.fetch(services.schema_version())
        line.silence()
        asking = asyncio.create_task(connection.fetch(services.schema_version()))
        await asyncio.wait({asking}, timeout=0.2)
        asking.cancel()
        ended, _ = await asyncio.wait({asking}, timeout=3)
        await connection.close()
    assert ended == {asking}
    assert asking.cancelled()


async def test_statement__of_a_thread_that_is_hurried_waits_no_longer_for_a_silent_server(database: Database) -> None:
    async with troubled(database.worker_url) as (line, url):
        connection = LedgerConnection(ConnectOptions(url))
        await asyncio.to_thread(connection.fetch, services.schema_version())
        line.silence()
        asking = asyncio.create_task(asyncio.to_thread(connection.fetch, services.schema_version()))
        await asyncio.wait({asking}, timeout=0.2)
        connection.hurry(0.2)
        ended, _ = await asyncio.wait({asking}, timeout=3)
    assert ended == {asking}
    assert isinstance(asking.exception(), LedgerUnavailable)
