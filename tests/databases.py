"""Fresh ledgers for tests: copies of one template database, and least-privileged logins for the roles."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, LiteralString
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from brokerjobs.ledger import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("producer", "worker", "coordinator", "reader", "operator")
_OWNER = "brokerjobs_test_owner"


@dataclass(frozen=True, slots=True)
class Database:
    """One database of one test; each URL but `admin_url` belongs to a login without table rights.

    `owner_url` owns the ledger and is no superuser, `admin_url` is the server's administrator.
    `direct` has the same logins at the server itself: it differs where they go through a PgBouncer, for a test that
    needs a session of its own.
    """

    name: str
    admin_url: str
    owner_url: str
    producer_url: str
    worker_url: str
    coordinator_url: str
    reader_url: str
    operator_url: str

    @property
    def direct(self) -> Database:
        """The database without what stands in front of its server."""
        server = urlsplit(self.admin_url)
        assert server.hostname is not None
        return self.through(server.hostname, server.port or 5432)

    def through(self, host: str, port: int) -> Database:
        """The same database and logins, but the administrator's, by way of another place."""
        names = [f"{kind}_url" for kind in ("owner", *KINDS)]
        return replace(self, **{name: at(getattr(self, name), host, port) for name in names})


def at(url: str, host: str, port: int) -> str:
    """The same login and database at another place."""
    parts = urlsplit(url)
    user, mark, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{mark}{host}:{port}"))


def replaced(url: str, *, database: str | None = None, login: str | None = None, password: str | None = None) -> str:
    """The same server with another database, and another login where one is given."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = parts.netloc.rpartition("@")[0] if login is None else f"{quote(login)}:{quote(password or '')}"
    path = parts.path if database is None else f"/{database}"
    return urlunsplit((parts.scheme, f"{user}@{host}" if user else host, path, parts.query, parts.fragment))


class Databases:
    """Makes and drops the databases of one test session on one server.

    `front` is the host and port of a PgBouncer that all logins but the administrator's shall go through.
    """

    def __init__(self, admin_url: str, connection: psycopg.Connection, front: tuple[str, int] | None = None) -> None:
        self.admin_url = admin_url
        self._front = front
        self._session = secrets.token_hex(4)
        self._template = f"bj_{self._session}_template"
        self._passwords = {login: secrets.token_hex(12) for login in (_OWNER, *map(self.login, KINDS))}
        self._count = 0
        self._template_made = False
        self._connection = connection
        self._make_logins()

    @staticmethod
    def login(kind: str) -> str:
        """The login that is a member of the group role of this kind alone."""
        return f"brokerjobs_test_{kind}"

    def blank(self) -> Database:
        """A database without a ledger, owned by `owner_url`."""
        name = self._next_name()
        self._execute("create database {} owner {}", name, _OWNER)
        return self._described(name)

    def with_ledger(self) -> Database:
        """A database with a ledger that nobody has used."""
        if not self._template_made:
            self._make_template()
            self._template_made = True
        name = self._next_name()
        self._execute("create database {} owner {} template {} strategy file_copy", name, _OWNER, self._template)
        return self._described(name)

    def drop(self, database: Database) -> None:
        """Drop a database, ending whoever is still connected."""
        self._execute("drop database if exists {} with (force)", database.name)

    def close(self) -> None:
        """Drop the template; the logins stay, without a known password."""
        self._execute("drop database if exists {} with (force)", self._template)

    def _make_template(self) -> None:
        self._execute("create database {} owner {}", self._template, _OWNER)
        # Not through a pooler: its connections would stay, and a database that somebody uses is not copied.
        owner_url = self._described(self._template).direct.owner_url
        schema.apply(owner_url)
        for kind in KINDS:
            schema.grant(owner_url, kind, self.login(kind))

    def _make_logins(self) -> None:
        """Make the logins or give those of an earlier session a new password: roles belong to the whole server."""
        query = "select rolname from pg_roles where rolname = any (%s)"
        here: set[str] = {row[0] for row in self._connection.execute(query, [list(self._passwords)])}
        for login, password in self._passwords.items():
            verb: LiteralString = "alter" if login in here else "create"
            rights: LiteralString = "createrole" if login == _OWNER else "nocreaterole"
            statement = sql.SQL("{} role {} login nosuperuser {} password {}")
            self._connection.execute(
                statement.format(sql.SQL(verb), sql.Identifier(login), sql.SQL(rights), sql.Literal(password))
            )

    def _described(self, name: str) -> Database:
        urls = {kind: self._url(name, self.login(kind)) for kind in KINDS}
        return Database(
            name=name,
            admin_url=replaced(self.admin_url, database=name),
            owner_url=self._url(name, _OWNER),
            producer_url=urls["producer"],
            worker_url=urls["worker"],
            coordinator_url=urls["coordinator"],
            reader_url=urls["reader"],
            operator_url=urls["operator"],
        )

    def _url(self, database: str, login: str) -> str:
        url = replaced(self.admin_url, database=database, login=login, password=self._passwords[login])
        return at(url, *self._front) if self._front else url

    def _next_name(self) -> str:
        self._count += 1
        return f"bj_{self._session}_{self._count}"

    def _execute(self, statement: LiteralString, *names: str) -> None:
        identifiers: Iterable[Any] = map(sql.Identifier, names)
        self._connection.execute(sql.SQL(statement).format(*identifiers))
