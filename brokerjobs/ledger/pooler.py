"""Keeps prepared statements away from poolers: they belong to a session, and a pooler's next statement has another.

PgBouncer in transaction mode before 1.21 answers "prepared statement already exists" to whoever comes second; later
ones follow them only if they are told to.  Nobody has to say that one is there: it is seen.  A server names the process
that serves a connection when the connection is made; a pooler, which has many, makes something up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

_WHO: Final = "select pg_backend_pid()"
_AFTER: Final = 5  # executions of a statement, psycopg's own default


async def prepare_only_at_server(connection: AsyncConnection[Any]) -> None:
    """Turns prepared statements on if a new connection's other end is a server; one round trip."""
    cursor = await connection.execute(_WHO, prepare=False)
    row = await cursor.fetchone()
    if not connection.autocommit:
        await connection.rollback()
    _judge(connection, row)


def prepare_only_at_server_sync(connection: Connection[Any]) -> None:
    """The same in a thread."""
    row = connection.execute(_WHO, prepare=False).fetchone()
    if not connection.autocommit:
        connection.rollback()
    _judge(connection, row)


def _judge(connection: AsyncConnection[Any] | Connection[Any], row: Any) -> None:
    connection.prepare_threshold = _AFTER if row is not None and row[0] == connection.info.backend_pid else None
