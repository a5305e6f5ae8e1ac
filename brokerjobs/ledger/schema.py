"""Brings the ledger's schema up to date, says which code it serves, and grants its roles.

Tables come from numbered migrations, each applied once and held to its checksum; functions are replaced by every
run, so a changed signature must get a new name (a rolling release has both codes on one schema).
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors as pg
from psycopg import sql

from brokerjobs.errors import ConfigurationError, SchemaMismatch
from brokerjobs.ledger.database import check_url, translated
from brokerjobs.ledger.roles import GRANTS, ROLES

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SETUP_COMMAND: Final = "brokerjobs setup"
_LOCK: Final = 0x62726F6B6572  # "broker": the advisory lock of set-up
_MONTHS_AHEAD: Final = 3
_OLDEST_CODE: Final = 1  # the oldest code, by the number of its newest migration, that this schema still serves


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the tables."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text: an applied migration is never edited."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """What a run of `apply` did."""

    version: int
    applied: tuple[str, ...] = ()
    functions: int = 0
    partitions: tuple[str, ...] = ()
    roles_missing: tuple[str, ...] = field(default=())


def _folder() -> Traversable:
    return resources.files("brokerjobs.ledger") / "sql"


def migrations() -> list[Migration]:
    """The numbered table files, in order."""
    found = [
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text())
        for file in (_folder() / "tables").iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", file.name)
    ]
    return sorted(found, key=lambda migration: migration.number)


def functions() -> dict[str, str]:
    """The text of every ledger function, by name: one function a file."""
    return {
        file.name.removesuffix(".sql"): file.read_text() for file in _folder().iterdir() if file.name.endswith(".sql")
    }


def code_version() -> int:
    """The schema that this code was written for: the number of its newest migration."""
    return migrations()[-1].number


def apply(url: str) -> SchemaReport:
    """Brings the ledger at `url` up to date in one transaction; safe to repeat and to run twice at once.

    Raises LedgerUnavailable, PermissionDenied, and SchemaMismatch if an applied migration was edited or the ledger
    is newer than this code.
    """
    check_url(url)
    with translated(), psycopg.connect(url, prepare_threshold=None) as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute("create schema if not exists brokerjobs")
        connection.execute("set local search_path = brokerjobs, pg_temp")
        connection.execute("set local check_function_bodies = off")
        missing = _make_roles(connection)
        applied = _migrate(connection)
        bodies = functions()
        for name in sorted(bodies):
            connection.execute(bodies[name].encode())
        partitions = tuple(row[0] for row in connection.execute("select make_partitions(%s)", [_MONTHS_AHEAD]))
        _grant_functions(connection, [role for role in ROLES if role not in missing])
        _write_meta(connection)
    return SchemaReport(code_version(), applied, len(bodies), partitions, missing)


def _make_roles(connection: psycopg.Connection) -> tuple[str, ...]:
    """Makes the group roles that are missing; answers those that this login may not make."""
    here = {
        row[0] for row in connection.execute("select rolname from pg_roles where rolname = any (%s)", [list(ROLES)])
    }
    wanted = [role for role in ROLES if role not in here]
    row = connection.execute("select rolcreaterole or rolsuper from pg_roles where rolname = current_user").fetchone()
    if not (row and row[0]):
        return tuple(wanted)
    for role in wanted:
        # Roles belong to the whole server: the set-up of another database may be making the same one just now.
        with suppress(pg.DuplicateObject, pg.UniqueViolation), connection.transaction():
            connection.execute(sql.SQL("create role {} nologin").format(sql.Identifier(role)))
    return ()


def _migrate(connection: psycopg.Connection) -> tuple[str, ...]:
    connection.execute(
        "create table if not exists migration (number integer primary key, name text not null, checksum text not null,"
        " applied_at timestamptz not null default clock_timestamp())"
    )
    done = {row[0]: row[1] for row in connection.execute("select number, checksum from migration")}
    newest = code_version()
    if done and max(done) > newest:
        message = f"the ledger's schema is {max(done)}, newer than this code, which knows {newest}"
        raise SchemaMismatch(message, command="pip install --upgrade brokerjobs")
    applied: list[str] = []
    for migration in migrations():
        if migration.number not in done:
            connection.execute(migration.text.encode())
            connection.execute(
                "insert into migration (number, name, checksum) values (%s, %s, %s)",
                [migration.number, migration.name, migration.checksum],
            )
            applied.append(migration.name)
        elif done[migration.number] != migration.checksum:
            message = f"migration {migration.name} was applied with other contents than this code carries"
            raise SchemaMismatch(message, command="pip install --force-reinstall brokerjobs")
    return tuple(applied)


def _write_meta(connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into meta (schema_version, oldest_code, timeline, system_identifier)"
        " select %s, %s, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), system_identifier"
        " from pg_control_system() on conflict (singleton) do update"
        " set schema_version = excluded.schema_version, oldest_code = excluded.oldest_code",
        [code_version(), _OLDEST_CODE],
    )


def _grant_functions(connection: psycopg.Connection, roles: list[str]) -> None:
    """Takes every function from PUBLIC and gives each role what it needs, and nothing of any table."""
    connection.execute("revoke all on all functions in schema brokerjobs from public")
    connection.execute("revoke all on schema brokerjobs from public")
    for role in roles:
        _grant_to(connection, role, role)


def _grant_to(connection: psycopg.Connection, grantee: str, role: str) -> None:
    connection.execute(sql.SQL("grant usage on schema brokerjobs to {}").format(sql.Identifier(grantee)))
    for function in sorted(GRANTS[role]):
        connection.execute(
            sql.SQL("grant execute on function {} to {}").format(
                sql.Identifier("brokerjobs", function), sql.Identifier(grantee)
            )
        )


def grant(url: str, kind: str, login: str) -> None:
    """Makes `login` a member of the group role of `kind` (producer, worker, coordinator, reader, operator).

    Where the group roles could not be made (managed databases) the login gets the functions themselves.
    Raises ConfigurationError for an unknown kind, PermissionDenied, LedgerUnavailable.
    """
    role = f"brokerjobs_{kind}"
    if role not in ROLES:
        kinds = ", ".join(name.removeprefix("brokerjobs_") for name in ROLES)
        message = f"there is no role {kind!r}; known are {kinds}"
        raise ConfigurationError(message)
    check_url(url)
    with translated(), psycopg.connect(url, prepare_threshold=None) as connection:
        if not _is_role(connection, login):
            message = f"PostgreSQL has no role {login!r} to grant {kind!r} to; make it with `create role … login`"
            raise ConfigurationError(message)
        if not _is_role(connection, role):
            _grant_to(connection, login, role)
        else:
            connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(login)))


def _is_role(connection: psycopg.Connection, name: str) -> bool:
    return connection.execute("select from pg_roles where rolname = %s", [name]).fetchone() is not None


def check(schema_version: int, oldest_code: int) -> None:
    """Refuses a schema that this code is not served by; raises SchemaMismatch, which names the command."""
    code = code_version()
    if schema_version < code:
        message = f"the ledger's schema is {schema_version}, this code needs {code}"
        raise SchemaMismatch(message, command=SETUP_COMMAND)
    if code < oldest_code:
        message = f"the ledger's schema is {schema_version} and serves code from {oldest_code} on, this code is {code}"
        raise SchemaMismatch(message, command="pip install --upgrade brokerjobs")
