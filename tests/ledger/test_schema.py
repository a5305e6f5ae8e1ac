"""Set-up of the ledger: repeatable, once at a time, and refused where code and schema do not fit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors

from brokerjobs.errors import ConfigurationError, LedgerUnavailable, PermissionDenied, SchemaMismatch
from brokerjobs.ledger import schema
from brokerjobs.ledger.roles import GRANTS, ROLES
from tests.databases import replaced
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import PostgresFactory
    from tests.databases import Database
    from tests.nodes import PostgresNode

SHAPE = """
select 'column', table_name::text, column_name || ' ' || data_type || ' ' || coalesce(column_default, '') || is_nullable
  from information_schema.columns where table_schema = 'brokerjobs'
union all select 'index', tablename::text, indexdef from pg_indexes where schemaname = 'brokerjobs'
union all select 'function', proname, pg_get_functiondef(oid) || coalesce(proacl::text, '') from pg_proc
  where pronamespace = 'brokerjobs'::regnamespace
union all select 'trigger', tgrelid::regclass::text, tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = 'brokerjobs'::regnamespace
union all select 'migration', name, checksum from brokerjobs.migration
order by 1, 2, 3
"""


def _shape(database: Database) -> list[tuple[str, str, str]]:
    with psycopg.connect(database.owner_url) as connection:
        return connection.execute(SHAPE).fetchall()


def _do(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_apply__makes_the_ledger_and_then_changes_nothing(blank_database: Database) -> None:
    first = schema.apply(blank_database.owner_url)
    made = _shape(blank_database)
    second = schema.apply(blank_database.owner_url)

    assert first.applied == tuple(migration.name for migration in schema.migrations())
    assert (first.version, len(first.partitions), first.functions) == (
        schema.code_version(),
        4,
        len(schema.functions()),
    )
    assert (second.applied, second.partitions, second.roles_missing) == ((), (), ())
    assert _shape(blank_database) == made


def test_apply__by_two_at_once_is_done_once(blank_database: Database) -> None:
    barrier = threading.Barrier(2)

    def apply() -> schema.SchemaReport:
        barrier.wait()
        return schema.apply(blank_database.owner_url)

    with ThreadPoolExecutor(2) as threads:
        reports = [future.result() for future in [threads.submit(apply) for _ in range(2)]]

    assert sorted(len(report.applied) for report in reports) == [0, len(schema.migrations())]


def test_apply__keeps_what_is_recorded_and_the_fencing_generation(database: Database) -> None:
    _do(database.owner_url, "update brokerjobs.meta set generation = 7, timeline = '0000000A'")
    schema.apply(database.owner_url)

    with psycopg.connect(database.owner_url) as connection:
        row = connection.execute(
            "select generation, timeline, schema_version, oldest_code from brokerjobs.meta"
        ).fetchone()
    assert row == (7, "0000000A", schema.code_version(), 1)


def test_apply__mends_functions_and_rights(database: Database) -> None:
    before = _shape(database)
    _do(
        database.owner_url,
        "create or replace function brokerjobs.clock() returns timestamptz language sql volatile as 'select now()';"
        " grant execute on all functions in schema brokerjobs to public; grant usage on schema brokerjobs to public;"
        " drop function brokerjobs.rfc3339(timestamptz)",
    )

    schema.apply(database.owner_url)

    assert _shape(database) == before


@pytest.mark.parametrize(
    ("change", "says", "command"),
    [
        (
            "update brokerjobs.migration set checksum = 'other'",
            "other contents",
            "pip install --force-reinstall brokerjobs",
        ),
        (
            "insert into brokerjobs.migration values (99, '0099_future', 'x')",
            "is 99, newer",
            "pip install --upgrade brokerjobs",
        ),
    ],
)
def test_apply__refuses_a_schema_that_is_not_its_own(database: Database, change: str, says: str, command: str) -> None:
    _do(database.owner_url, change + "; drop function brokerjobs.rfc3339(timestamptz)")
    before = _shape(database)

    with pytest.raises(SchemaMismatch, match=says) as refused:
        schema.apply(database.owner_url)

    assert refused.value.command == command
    assert _shape(database) == before


def test_check__serves_its_own_and_newer_schemas_that_say_so() -> None:
    code = schema.code_version()
    schema.check(code, code)
    schema.check(code + 3, code)  # a rolling release: the schema is ahead, this code is still served

    with pytest.raises(SchemaMismatch) as older:
        schema.check(code - 1, 1)
    assert older.value.command == "brokerjobs setup"
    with pytest.raises(SchemaMismatch) as newer:
        schema.check(code + 3, code + 1)
    assert newer.value.command == "pip install --upgrade brokerjobs"


def test_migrations__are_numbered_without_a_gap() -> None:
    assert [migration.number for migration in schema.migrations()] == list(range(1, schema.code_version() + 1))


def test_functions__are_one_a_file_under_their_own_name(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        there: dict[str, int] = dict(
            connection.execute(
                "select proname, count(*) from pg_proc where pronamespace = 'brokerjobs'::regnamespace"
                " and prorettype <> 'trigger'::regtype group by proname"
            ).fetchall()
        )

    assert there == dict.fromkeys(schema.functions(), 1)
    assert set().union(*GRANTS.values()) <= set(there)


def test_apply__without_the_right_to_make_a_schema_says_so(blank_database: Database) -> None:
    with pytest.raises(PermissionDenied):
        schema.apply(blank_database.worker_url)


def test_apply__of_a_server_that_is_away_says_so(database: Database) -> None:
    with pytest.raises(LedgerUnavailable):
        schema.apply("postgresql://nobody:x@127.0.0.1:1/none")


def test_grant__refuses_an_unknown_kind_and_an_unknown_login(database: Database) -> None:
    with pytest.raises(ConfigurationError, match="producer, worker, coordinator, reader, operator"):
        schema.grant(database.owner_url, "admin", "brokerjobs_test_worker")
    with pytest.raises(ConfigurationError, match="no role 'nobody'"):
        schema.grant(database.owner_url, "worker", "nobody")


@pytest.fixture(scope="module")
def server(postgres_factory: PostgresFactory) -> PostgresNode:
    """A server on which nobody has set a ledger up: the group roles belong to the whole server."""
    return postgres_factory()


@pytest.fixture
def fresh(server: PostgresNode) -> Iterator[str]:
    """Its administrator's URL; the group roles are gone, and come to an end again."""
    yield server.url
    with psycopg.connect(server.url, autocommit=True) as admin:
        for name in ("one", "two"):
            admin.execute(f"drop database if exists {name} with (force)".encode())
        for role in (*ROLES, "landlord", "tenant"):
            admin.execute(f"drop role if exists {role}".encode())


def test_apply__of_two_databases_at_once_shares_the_roles(fresh: str) -> None:
    """The lock of set-up belongs to one database, the roles to all of them."""
    for name in ("one", "two"):
        _do(fresh, f"create database {name}")
    holder = psycopg.connect(replaced(fresh, database="one"))
    holder.execute(f"create role {ROLES[0]}".encode())
    with ThreadPoolExecutor(1) as thread:
        report = thread.submit(schema.apply, replaced(fresh, database="two"))
        with psycopg.connect(fresh, autocommit=True) as admin:
            _until_blocked(admin)
        holder.commit()
        holder.close()

        assert report.result().roles_missing == ()
    assert schema.apply(replaced(fresh, database="one")).roles_missing == ()


def _until_blocked(admin: psycopg.Connection) -> None:
    eventually_sync(
        lambda: admin.execute("select from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0").fetchall()
    )


def test_apply__without_createrole_serves_logins_one_by_one(fresh: str) -> None:
    """Managed databases: no group roles, so set-up says which are missing, and `grant` gives the functions."""
    _do(fresh, "create role landlord login nocreaterole password 'landlord'")
    _do(fresh, "create role tenant login password 'tenant'")
    _do(fresh, "create database one owner landlord")
    owner_url = replaced(fresh, database="one", login="landlord", password="landlord")
    tenant_url = replaced(fresh, database="one", login="tenant", password="tenant")

    report = schema.apply(owner_url)
    schema.grant(owner_url, "worker", "tenant")
    again = schema.apply(owner_url)

    assert (report.roles_missing, again.roles_missing) == (ROLES, ROLES)
    with psycopg.connect(tenant_url, autocommit=True) as tenant:
        may = {
            name
            for (name,) in tenant.execute(
                "select proname from pg_proc"
                " where pronamespace = 'brokerjobs'::regnamespace and has_function_privilege(oid, 'execute')"
            )
        }
        assert may == GRANTS["brokerjobs_worker"]
        assert tenant.execute("select schema_version from brokerjobs.schema_version()").fetchone() == (
            schema.code_version(),
        )
        with pytest.raises(errors.InsufficientPrivilege):
            tenant.execute("select from brokerjobs.job")
