"""A database and a broker of the demo's own, on servers that it started or that the reader named."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.names import route_name
from brokerjobs.broker.topology import Topology
from brokerjobs.errors import PermissionDenied
from brokerjobs.ledger import schema, services
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection, translated
from brokerjobs.servers.finder import GivenServer, find_broker, find_postgres
from brokerjobs.servers.memory import PrivateMemoryBroker
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from psycopg import Connection

    from brokerjobs import App
    from brokerjobs.servers.finder import Server, Source

ROLES: Final[tuple[str, ...]] = ("producer", "worker", "coordinator", "reader")

# Nothing in this table keeps a job from having two rows; that is left to the fence.
_TABLE: Final = (
    "create table made (job_id uuid not null, attempt integer not null, what text not null, data jsonb not null)"
)


@dataclass(frozen=True, slots=True)
class Database:
    """A database with a ledger and the application's table; each role has a login of its own, if that may be made."""

    name: str
    server: Server = field(repr=False)
    label: str
    owner_url: str = field(repr=False)
    urls: Mapping[str, str] = field(repr=False)
    logins: Sequence[str]
    groups: Sequence[str]
    """The group roles that were not there before."""

    def most_rows_of_a_job(self) -> int:
        """How many rows the job with the most has in the application's table."""
        with translated(), psycopg.connect(self.owner_url) as connection:
            row = connection.execute(
                "select coalesce(max(rows), 0) from (select count(*) as rows from made group by job_id) as jobs"
            ).fetchone()
        return int(row[0]) if row else 0

    def end(self) -> None:
        """Stops the server that was started; on one that was given drops the database and its roles."""
        if isinstance(self.server, GivenServer):
            self.drop()
        self.server.stop()

    def drop(self) -> None:
        """Drops the database and the roles that were made for it."""
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(self.name)))
            for role in (*self.logins, *self.groups):
                with suppress(psycopg.Error):  # a role that something else needs by now stays
                    connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker with the application's exchanges and queues."""

    server: Server = field(repr=False)
    label: str
    app: App

    @property
    def url(self) -> str:
        """The URL of all processes."""
        return self.server.url

    def end(self) -> None:
        """Ends the server that was started; on one that was given deletes what was declared."""
        match self.server:
            case PrivateRabbitMQ():
                self.server.kill()  # its folder goes too, so nothing is gained by two seconds of putting it in order
            case GivenServer():
                asyncio.run(broker_at(self.url).remove(_topology(self.app)))
            case _:
                self.server.stop()


def start_database(folder: Path, app: App) -> Database:
    """Starts PostgreSQL, unless BROKERJOBS_DEMO_DATABASE_URL names one, and makes a database with a ledger.

    Raises ConfigurationError if there is no PostgreSQL, PermissionDenied if the login may not create databases, and
    LedgerUnavailable.
    """
    server = find_postgres(folder)
    try:
        return _make_database(server, app)
    except BaseException:
        server.stop()
        raise


def start_broker(folder: Path, app: App, source: Source, announce: Callable[[str], None]) -> Broker:
    """Starts the broker of `source`, or one that can be had if that fails, and declares the application's routes.

    Raises ConfigurationError, PermissionDenied, BrokerUnavailable.
    """
    server = find_broker(folder, announce, source=source)
    try:
        product = asyncio.run(_declare_routes(server.url, app))
        label = product if isinstance(server, PrivateMemoryBroker) else f"{product} ({_whose(server)})"
        return Broker(server, label, app)
    except BaseException:
        server.stop()
        raise


def _whose(server: Server) -> str:
    return "given" if isinstance(server, GivenServer) else "private"


def _make_database(server: Server, app: App) -> Database:
    """Makes a database with the ledger, the application's job types and its table, or nothing."""
    name = f"brokerjobs_demo_{secrets.token_hex(4)}"
    with translated(), psycopg.connect(server.url, autocommit=True) as connection:
        may_create_roles, version = _rights(connection)
        before = _groups(connection)
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        owner_url = _at(server.url, name)
        logins = [f"{name}_{role}" for role in ROLES] if may_create_roles else []
        label = f"PostgreSQL {version} ({_whose(server)})"
        made = Database(name, server, label, owner_url, dict.fromkeys(ROLES, owner_url), logins, groups=[])
        try:
            schema.apply(owner_url)
            _register(owner_url, app)
            with psycopg.connect(owner_url, autocommit=True) as inside:
                inside.execute(_TABLE)
                urls = {role: _login(inside, made, role) for role in ROLES} if logins else made.urls
                if logins:
                    inside.execute(sql.SQL("grant insert on made to {}").format(sql.Identifier(f"{name}_worker")))
        except BaseException:
            replace(made, groups=sorted(_groups(connection) - before)).drop()
            raise
        return replace(made, urls=urls, groups=sorted(_groups(connection) - before))


def _rights(connection: Connection) -> tuple[bool, str]:
    """Whether this login may create roles, and the server's version."""
    row = connection.execute(
        "select rolsuper or rolcreatedb, rolsuper or rolcreaterole, current_setting('server_version'), rolname"
        " from pg_roles where rolname = current_user"
    ).fetchone()
    if row is None or not row[0]:
        who = row[3] if row else "this login"
        message = f"{who} may not create databases; the demo works in one of its own: `alter role … createdb`"
        raise PermissionDenied(message)
    return bool(row[1]), str(row[2]).split()[0]


def _groups(connection: Connection) -> set[str]:
    return {row[0] for row in connection.execute(r"select rolname from pg_roles where rolname ~ '^brokerjobs_[a-z]+$'")}


def _register(owner_url: str, app: App) -> None:
    ledger = LedgerConnection(ConnectOptions(owner_url))
    ledger.fetch(services.register_types(app.namespace, [one.as_data() for one in app.types.values()], change=True))
    ledger.close()


def _login(connection: Connection, database: Database, role: str) -> str:
    """Makes the login of one role, which may call its ledger functions and nothing else; its URL."""
    login, password = f"{database.name}_{role}", secrets.token_urlsafe(18)
    statement = sql.SQL("create role {} login password {}")
    connection.execute(statement.format(sql.Identifier(login), sql.Literal(password)))
    schema.grant(database.owner_url, role, login)
    return _at(database.owner_url, database.name, login, password)


def _at(url: str, database: str, login: str | None = None, password: str = "") -> str:
    """The same server with another database, and another login if one is given."""
    parts = urlsplit(url)
    before, _, host = parts.netloc.rpartition("@")
    who = before if login is None else f"{quote(login)}:{quote(password)}"
    return urlunsplit((parts.scheme, f"{who}@{host}" if who else host, f"/{database}", parts.query, ""))


async def _declare_routes(broker_url: str, app: App) -> str:
    broker = broker_at(broker_url)
    await broker.declare(_topology(app))
    return await broker.product()


def _topology(app: App) -> Topology:
    routes = {route_name(app.namespace, one.terms.queue, one.terms.needs_hash) for one in app.types.values()}
    return Topology(frozenset({app.namespace}), frozenset(routes))
