"""The product through PgBouncer in transaction mode; `--pgbouncer` sends all tests of the ledger through it."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
import pytest
from psycopg import errors

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger import schema, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, LedgerConnection
from tests.containers import pgbouncer
from tests.containers.pgbouncer import PgBouncer
from tests.flow.driving import coordinating
from tests.flow.processes import stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.servers.finder import Server
    from tests.databases import Database


_OF_A_SESSION: Final = re.compile(
    r"pg_(?:try_)?advisory_(?:un)?lock(?:_shared)?\(|set_config\([^;]*?, false\)|\bset session\b"
    r"|execute\(f?\"set (?!local)|\b(?:un)?listen \w+;|\bcreate temp|\bdiscard all\b|\bwith hold\b",
    re.IGNORECASE,
)


def test_ledger__keeps_nothing_in_a_session() -> None:
    """A look at the words; `--pgbouncer-fresh` shows it."""
    texts = {name: re.sub("--.*", "", text) for name, text in _texts()}

    assert {name: found for name, text in texts.items() if (found := _OF_A_SESSION.findall(text))} == {}


def _texts() -> Iterator[tuple[str, str]]:
    yield from schema.functions().items()
    yield from ((migration.name, migration.text) for migration in schema.migrations())
    folder = Path(schema.__file__).parent
    yield from ((file.name, file.read_text()) for file in folder.glob("*.py"))


@pytest.fixture(scope="module")
def bouncer(postgres: Server, server_folder: Path) -> Iterator[PgBouncer]:
    if pgbouncer.program() is None:
        pytest.skip(pgbouncer.INSTALL)
    with PgBouncer.start(server_folder / "pgbouncer-here", postgres.url) as started:
        yield started


@pytest.fixture
def pooled(database: Database, bouncer: PgBouncer) -> Database:
    return bouncer.before(database)


async def test_connections__that_take_turns_on_a_servers_sessions_prepare_nothing(pooled: Database) -> None:
    connections = [AsyncLedgerConnection(ConnectOptions(pooled.worker_url)) for _ in range(4)]
    for _ in range(12):
        answers = await asyncio.gather(*(one.fetch(services.schema_version()) for one in connections))
        assert [len(answer) for answer in answers] == [1] * 4
    assert {cast("Any", one)._connection.prepare_threshold for one in connections} == {None}
    for one in connections:
        await one.close()


def test_plain_connections__that_prepare_meet_each_others_statements(pooled: Database) -> None:
    """What the one above would do without looking who is there: it could fail."""
    if pgbouncer.version() >= (1, 21):
        pytest.skip("this PgBouncer follows prepared statements")
    with (
        psycopg.connect(pooled.worker_url, autocommit=True, prepare_threshold=1) as one,
        psycopg.connect(pooled.worker_url, autocommit=True, prepare_threshold=1) as two,
        pytest.raises((errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName)),
    ):
        _ask_in_turns(one, two)


def _ask_in_turns(*connections: psycopg.Connection) -> None:
    for _ in range(12):
        for connection in connections:
            connection.execute("select schema_version from brokerjobs.schema_version()")


def test_setup__makes_a_ledger_and_grants_through_it(blank_database: Database, bouncer: PgBouncer) -> None:
    made = bouncer.before(blank_database)
    assert schema.apply(made.owner_url).applied
    assert schema.apply(made.owner_url).applied == ()
    schema.grant(made.owner_url, "worker", "brokerjobs_test_worker")

    connection = LedgerConnection(ConnectOptions(made.worker_url))
    assert connection.fetch(services.schema_version())[0].schema_version == schema.code_version()
    connection.close()


def test_fetch__that_gets_no_session_in_time_is_told_so_and_may_be_asked_again(
    database: Database, postgres: Server, server_folder: Path, bouncer: PgBouncer
) -> None:
    """Handlers' transactions hold all that this login has."""
    scarce = "default_pool_size = 1\nmin_pool_size = 0\nquery_wait_timeout = 1\n"
    with PgBouncer.start(server_folder / "pgbouncer-scarce", postgres.url, more=scarce) as front:
        made = front.before(database)
        connection = LedgerConnection(ConnectOptions(made.worker_url))
        assert len(connection.fetch(services.schema_version())) == 1
        with psycopg.connect(made.worker_url, prepare_threshold=None) as handler:
            handler.execute("select 1")
            with pytest.raises(LedgerUnavailable, match=r"query_wait_timeout.*may be made again"):
                connection.fetch(services.schema_version())

        assert len(connection.fetch(services.schema_version())) == 1
        connection.close()


@pytest.mark.timeout(120)
async def test_jobs__are_run_lost_and_run_again_through_it(
    pooled: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    """Leases, group commit, a handler's fenced transaction, the services: all that a worker has connections for."""
    async with stage(pooled, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        with on.worker() as first:
            quick = [await on.made.submit(on.repeatable, ["fenced"]) for _ in range(20)]
            for job in quick:
                await on.made.reached(job.id, "succeeded", 30)
            lost = await on.made.submit(on.repeatable, ["line:ran", "touch:began", "wait:go", "fenced"])
            await on.marked("began")
            first.signal(signal.SIGKILL)
        on.mark("go")
        with on.worker("worker-b") as second:
            record = await on.made.reached(lost.id, "succeeded", 40)
            assert await second.drain() == 0
        effects = await on.effects()
    assert [attempt["state"] for attempt in record["attempts"]] == ["timed_out", "completed"]
    assert sorted(effects) == sorted([*(job.id for job in quick), lost.id])
