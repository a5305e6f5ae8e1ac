from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors

if TYPE_CHECKING:
    from tests.databases import Database, Databases


def test_database__is_a_fresh_ledger_every_time(databases: Databases) -> None:
    first, second = databases.with_ledger(), databases.with_ledger()
    with psycopg.connect(first.owner_url) as connection:
        connection.execute("create table brokerjobs.only_here ()")

    with psycopg.connect(second.owner_url) as connection:
        row = connection.execute("select to_regclass('brokerjobs.job'), to_regclass('brokerjobs.only_here')").fetchone()

    assert row == ("brokerjobs.job", None)
    databases.drop(first)
    databases.drop(second)


@pytest.mark.parametrize("kind", ["producer", "worker", "coordinator", "reader"])
def test_database__logins_may_call_and_not_look(database: Database, kind: str) -> None:
    url = getattr(database, f"{kind}_url")
    with psycopg.connect(url) as connection:
        roles = connection.execute(
            "select array_agg(rolname::text) from pg_roles"
            " where rolname like 'brokerjobs%' and pg_has_role(rolname, 'member') and rolname <> current_user"
        ).fetchone()
        assert roles == ([f"brokerjobs_{kind}"],)
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("select from brokerjobs.job")


def test_drop__ends_connections_that_are_open(databases: Databases) -> None:
    made = databases.blank()
    with psycopg.connect(made.owner_url, autocommit=True) as connection:
        databases.drop(made)

        with pytest.raises(psycopg.OperationalError):
            connection.execute("select")
