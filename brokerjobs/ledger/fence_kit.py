"""Installs the fencing kit in a user's own database, which need not be the ledger's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from brokerjobs.errors import ConfigurationError, PermissionDenied
from brokerjobs.ledger.database import CONNECT_TIMEOUT_SECONDS, check_url, first_line, translated

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "brokerjobs_fence"
_LOCK: Final = 0x66656E6365  # "fence": two installations at once come one after the other
_COLUMNS: Final = [("resource", "text"), ("highest", "bigint")]


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the kit is, whether its table is new, and who may call it besides its owner."""

    database: str
    schema: str
    made: bool
    granted: tuple[str, ...]


def install(dsn: str, kit: str, *, schema: str, grant: Sequence[str]) -> Installed:
    """Makes or renews the kit's two objects in `schema`, in one transaction; safe to repeat.

    Raises LedgerUnavailable if the database gives no answer, PermissionDenied, and ConfigurationError for a DSN that
    cannot be read, a schema or login that is not there, or a table of that name that is another one.
    """
    check_url(dsn)
    with (
        translated(),
        psycopg.connect(dsn, prepare_threshold=None, connect_timeout=CONNECT_TIMEOUT_SECONDS) as connection,
    ):
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        if not _answers(connection, "select from pg_namespace where nspname = %s", schema):
            message = f"the database has no schema {schema!r}; make it with `create schema`, or give another --schema"
            raise ConfigurationError(message)
        path = sql.SQL("set local search_path = {}, pg_temp").format(sql.Identifier(schema))
        connection.execute(path)
        was = _columns(connection, schema)
        if was and was != _COLUMNS:
            message = (
                f"the schema {schema!r} has a table {NAME!r} already, and it is not the kit's: give another --schema"
            )
            raise ConfigurationError(message)
        try:
            connection.execute(kit.encode())
        except psycopg.errors.InsufficientPrivilege as error:
            message = f"the login of the DSN may not make the kit in schema {schema!r}: {first_line(error)}"
            raise PermissionDenied(message) from error
        function = sql.SQL("function {}(text, bigint)").format(sql.Identifier(schema, NAME))
        connection.execute(sql.SQL("revoke all on {} from public").format(function))
        for login in grant:
            if not _answers(connection, "select from pg_roles where rolname = %s", login):
                message = f"the database has no role {login!r} to grant the kit to; make it with `create role … login`"
                raise ConfigurationError(message)
            connection.execute(sql.SQL("grant execute on {} to {}").format(function, sql.Identifier(login)))
            connection.execute(
                sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(schema), sql.Identifier(login))
            )
        return Installed(connection.info.dbname, schema, not was, tuple(grant))


def _answers(connection: psycopg.Connection, query: str, name: str) -> bool:
    return connection.execute(query.encode(), [name]).fetchone() is not None


def _columns(connection: psycopg.Connection, schema: str) -> list[tuple[str, str]]:
    query = (
        "select a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a"
        " where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped order by a.attnum"
    )
    name = sql.Identifier(schema, NAME).as_string(connection)
    return [(row[0], row[1]) for row in connection.execute(query, [name])]
