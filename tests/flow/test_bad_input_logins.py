"""A database that does not let a login in: said at once to whoever begins, and waited out by what runs already."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from brokerjobs import App, LedgerUnavailable, LoginRefused, PermissionDenied, ResultTimeout, Submission
from brokerjobs.client import SyncClient
from tests.cli.urls import AWAY_DATABASE, with_login, with_path
from tests.databases import replaced
from tests.flow.driving import coordinating, flow
from tests.flow.producing import Charge, Receipt, Shop, shop
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.databases import Database

LONG = timedelta(seconds=50)


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        yield opened


@pytest.mark.parametrize(
    "login", ["brokerjobs_test_producer:s3cret", "nobody_knows:s3cret", "brokerjobs_test_producer"]
)
async def test_producer__whose_login_is_refused_is_told_at_once(made: Shop, login: str) -> None:
    url = with_login(made.database.producer_url, login)
    began = time.monotonic()
    async with made.client(database_url=url, patience=LONG) as client:
        unknown = client.handle(made.charge, (await _a_job(made)).id)
        for asked in (
            client.submit(made.charge, Charge()),
            client.submit_many(made.charge, [Submission(Charge())]),
            client.find(made.charge, key="k"),
            unknown.status(),
            unknown.record(),
            unknown.cancel(reason="r"),
            unknown.result(timeout=LONG),
        ):
            with pytest.raises(
                LoginRefused, match=r"refused the login: .*; check user, password and pg_hba.conf"
            ) as told:
                await asked
            assert isinstance(told.value, (LedgerUnavailable, PermissionDenied))
            assert "s3cret" not in str(told.value)
            assert "may or may not" not in str(told.value)
    assert time.monotonic() - began < 30
    with SyncClient(made.client_options(database_url=url, patience=LONG)) as from_threads, pytest.raises(LoginRefused):
        from_threads.submit(made.charge, Charge())


async def test_producer__whose_database_is_not_there_hears_that_it_may_try_again(made: Shop) -> None:
    for url, words in (
        (AWAY_DATABASE, "Connection refused"),
        (with_path(made.database.producer_url, "/nowhere"), 'database "nowhere" does not exist'),
        ("postgresql://u@no.such.host.invalid/x", "failed to resolve host 'no.such.host.invalid'"),
    ):
        async with made.client(database_url=url, patience=timedelta(0)) as client:
            with pytest.raises(
                LedgerUnavailable, match=r"may or may not have been submitted: .* gave no answer"
            ) as told:
                await client.submit(made.charge, Charge())
            assert words in str(told.value)
            assert not isinstance(told.value, PermissionDenied)


async def test_what_runs_already__waits_until_its_login_is_let_in_again(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)

    @app.job("double", repeatable=True)
    async def double(payload: int) -> int:
        return 2 * payload

    async with flow(app, database, broker_url) as made, coordinating(made), _a_login(database) as (login, url):
        first = await made.submit(double, 1)
        async with made.working(made.worker(database_url=url, heartbeat=timedelta(milliseconds=200))):
            await made.reached(first.id, "succeeded")
            await login.refused()
            second = await made.submit(double, 2)
            await made.ring(second.id)

            async def was_refused_thrice() -> bool:
                return caplog.text.count("cannot claim: the ledger (PostgreSQL) refused the login") >= 3

            await eventually(was_refused_thrice, 30)
            assert await made.state(second.id) == "queued"
            await login.let_in()
            assert (await made.reached(second.id, "succeeded", 30))["result"] == 4


async def test_wait__that_began_survives_a_login_that_is_refused_for_a_while(made: Shop) -> None:
    async with _a_login(made.database, "producer") as (login, url), made.client(database_url=url) as client:
        handle = await client.submit(made.charge, Charge())
        began = asyncio.create_task(handle.result(timeout=timedelta(seconds=40)))
        with pytest.raises(ResultTimeout, match=r"queued \(delivery\)"):
            await handle.result(timeout=timedelta(milliseconds=300))  # by the same polls
        await login.refused()
        with pytest.raises(LoginRefused):
            await handle.result(timeout=LONG)
        made.complete(handle.id, Receipt(reference="r-1"))
        await login.let_in()
        assert await began == Receipt(reference="r-1")


class _Login:
    def __init__(self, admin: psycopg.AsyncConnection[Any], name: str) -> None:
        self._admin = admin
        self._name = name

    async def refused(self) -> None:
        """Takes its right to log in, and ends its connections."""
        await self._alter("nologin")
        await self._admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", [self._name]
        )

    async def let_in(self) -> None:
        await self._alter("login")

    async def _alter(self, what: LiteralString) -> None:
        await self._admin.execute(sql.SQL("alter role {} {}").format(sql.Identifier(self._name), sql.SQL(what)))


async def _a_job(made: Shop) -> Any:
    async with made.client() as client:
        return await client.submit(made.charge, Charge())


@asynccontextmanager
async def _a_login(database: Database, kind: str = "worker") -> AsyncGenerator[tuple[_Login, str]]:
    """A login of the test's own."""
    name = f"{database.name}_{kind}"
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as admin:
        await admin.execute(sql.SQL("create role {} login password 'p'").format(sql.Identifier(name)))
        group = sql.Identifier(f"brokerjobs_{kind}")
        await admin.execute(sql.SQL("grant {} to {}").format(group, sql.Identifier(name)))
        yield _Login(admin, name), replaced(database.admin_url, login=name, password="p")
        await admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
