"""The demo's database on a server that others use too."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import errors, sql

from brokerjobs.errors import LedgerUnavailable, PermissionDenied
from brokerjobs.examples.demo.servers import start_database
from brokerjobs.examples.pictures.contracts import app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from brokerjobs.servers.finder import Server

VARIABLE = "BROKERJOBS_DEMO_DATABASE_URL"


@pytest.fixture
def login(postgres: Server) -> Iterator[Callable[[LiteralString], str]]:
    """Makes a login with the given rights; its URL."""
    made: list[sql.Identifier] = []
    with psycopg.connect(postgres.url, autocommit=True) as connection:

        def make(rights: LiteralString) -> str:
            name, password = f"demo_test_{secrets.token_hex(4)}", secrets.token_hex(8)
            statement = sql.SQL("create role {} login password {} {}")
            connection.execute(statement.format(sql.Identifier(name), sql.Literal(password), sql.SQL(rights)))
            made.append(sql.Identifier(name))
            parts = urlsplit(postgres.url)
            return urlunsplit(parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}"))

        yield make
        for name in made:
            connection.execute(sql.SQL("drop role {}").format(name))


def names_on(postgres: Server) -> set[str]:
    """The databases and roles of the server."""
    with psycopg.connect(postgres.url) as connection:
        rows = connection.execute("select datname from pg_database union all select rolname from pg_roles").fetchall()
    return {str(row[0]) for row in rows}


def test_database__gives_each_process_a_login_that_may_do_no_more_than_it_needs(
    postgres: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, postgres.url)
    before = names_on(postgres)
    database = start_database(tmp_path, app)
    try:
        insert = "insert into made values (gen_random_uuid(), 1, 'thumbnail', '{}')"
        with psycopg.connect(database.urls["worker"]) as connection:
            connection.execute(insert)
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute("select * from made")
        for role in ("producer", "coordinator", "reader"):
            with psycopg.connect(database.urls[role]) as connection:
                with pytest.raises(errors.InsufficientPrivilege):
                    connection.execute(insert)
                connection.rollback()
                with pytest.raises(errors.InsufficientPrivilege):
                    connection.execute("select * from brokerjobs.job")
        assert database.most_rows_of_a_job() == 0
    finally:
        database.end()

    assert names_on(postgres) == before


def test_database__shares_a_login_that_may_create_databases_alone(
    postgres: Server, login: Callable[[LiteralString], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, login("createdb"))
    before = names_on(postgres)
    database = start_database(tmp_path, app)
    try:
        assert database.logins == []
        assert set(database.urls.values()) == {database.owner_url}
        assert names_on(postgres) - before == {database.name}
    finally:
        database.end()

    assert names_on(postgres) == before


def test_database__is_refused_to_a_login_that_may_not_create_one(
    postgres: Server, login: Callable[[LiteralString], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, login(""))
    before = names_on(postgres)

    with pytest.raises(PermissionDenied, match="may not create databases"):
        start_database(tmp_path, app)

    assert names_on(postgres) == before


def test_database__says_that_its_server_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, "postgresql://nobody:secret@127.0.0.1:1/postgres")

    with pytest.raises(LedgerUnavailable) as raised:
        start_database(tmp_path, app)

    assert "secret" not in str(raised.value)


def test_database__that_cannot_be_finished_is_dropped(
    postgres: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, postgres.url)
    monkeypatch.setattr("brokerjobs.examples.demo.servers._TABLE", "create table made (never")
    before = names_on(postgres)

    with pytest.raises(errors.SyntaxError):
        start_database(tmp_path, app)

    assert names_on(postgres) == before
