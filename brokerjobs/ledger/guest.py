"""Runs ledger functions on a user's own transaction, whatever driver or toolkit carries it.

One door for `client` (submit within=) and `effects` (fence and complete within=), in two forms: for code that awaits
and for code in threads.  The drivers are in `guest_async` and `guest_sync`.  What is given is recognised by the module
and name of its class, so that nothing is imported which the user does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar

from brokerjobs.errors import ConfigurationError
from brokerjobs.ledger import guest_async, guest_sync
from brokerjobs.ledger.asking import Asking, ask, ask_sync
from brokerjobs.ledger.raised import ruling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.database import Query
    from brokerjobs.ledger.guest_async import Guest
    from brokerjobs.ledger.guest_sync import SyncGuest

T = TypeVar("T")
Row = TypeVar("Row")

# Parameters are texts, cast by the server: what every driver sends in the same way.
FENCE: Final = "select brokerjobs.fence_v1(%s::text::uuid, %s::text::uuid, %s::text::bigint)"
COMPLETE: Final = (
    "select brokerjobs.complete_v1(%s::text::uuid, %s::text::uuid, %s::text::bigint, %s::text::jsonb,"
    " %s::text::timestamptz)"
)

# By the package and the name of a class; subclasses, such as SQLModel's session, are found by their bases.
_ASYNC: Final[Mapping[tuple[str, str], Callable[[Any], Guest]]] = {
    ("psycopg", "AsyncConnection"): guest_async.Psycopg,
    ("sqlalchemy", "AsyncSession"): guest_async.SQLAlchemy,
    ("sqlalchemy", "AsyncConnection"): guest_async.SQLAlchemy,
    ("sqlalchemy", "async_scoped_session"): guest_async.scoped_session,
    ("asyncpg", "Connection"): guest_async.Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): guest_async.Asyncpg,
}
_SYNC: Final[Mapping[tuple[str, str], Callable[[Any], SyncGuest]]] = {
    ("psycopg", "Connection"): guest_sync.Psycopg,
    ("sqlalchemy", "Session"): guest_sync.SQLAlchemy,
    ("sqlalchemy", "Connection"): guest_sync.SQLAlchemy,
    ("sqlalchemy", "scoped_session"): guest_sync.scoped_session,
    ("psycopg2", "connection"): guest_sync.Psycopg2,
    ("django", "BaseDatabaseWrapper"): guest_sync.Django,
    ("django", "ConnectionProxy"): guest_sync.Django,
}
_ASYNC_KINDS: Final = (
    "a psycopg AsyncConnection, a SQLAlchemy AsyncSession or AsyncConnection, or an asyncpg Connection"
)
_SYNC_KINDS: Final = (
    "a psycopg Connection, a SQLAlchemy Session or Connection, a psycopg2 connection, or Django's "
    "`django.db.connection` (of another alias: `connections[alias]`)"
)


def guest(within: object) -> Guest:
    """The door to the transaction given with `within=` to a coroutine; raises ConfigurationError for anything else."""
    if made := _found(_ASYNC, within):
        return made(within)
    why = (
        ": that one is sync, and would block the event loop; give it to a client made by `app.sync_client(...)`, or "
        "in a handler to the context of a plain `def`"
    )
    raise _refused(within, _ASYNC_KINDS, why if _found(_SYNC, within) else "")


def sync_guest(within: object) -> SyncGuest:
    """As `guest`, for code in threads."""
    if made := _found(_SYNC, within):
        return made(within)
    why = (
        ": that one has to be awaited; give it to a client made by `app.client(...)`, or in a handler to the context "
        "of an `async def`"
    )
    raise _refused(within, _SYNC_KINDS, why if _found(_ASYNC, within) else "")


async def ask_within(within: object, asking: Asking[T], *, savepoint: bool = False) -> T:
    """Asks in the user's transaction; `savepoint`: an error undoes this part of it alone.

    Driver errors pass through, the transaction is theirs.  Raises ConfigurationError, SchemaMismatch, PermissionDenied.
    """
    door = guest(within)

    async def fetch(query: Query[Row], /) -> list[Row]:
        return [query.row(*row) for row in await door.rows(query.sql, query.params)]

    if not savepoint:
        return await ask(asking, fetch)
    async with door.savepoint():
        return await ask(asking, fetch)


def ask_within_sync(within: object, asking: Asking[T], *, savepoint: bool = False) -> T:
    """As `ask_within`, in a thread."""
    door = sync_guest(within)

    def fetch(query: Query[Row], /) -> list[Row]:
        return [query.row(*row) for row in door.rows(query.sql, query.params)]

    if not savepoint:
        return ask_sync(asking, fetch)
    with door.savepoint():
        return ask_sync(asking, fetch)


async def hold_within(within: object, holding: Holding, sql: LiteralString, extra: Sequence[str] = ()) -> None:
    """Runs `FENCE` or `COMPLETE` in the user's transaction.

    Raises WrongIsolation, AlreadyReported or StaleAttempt, after which the transaction cannot commit.
    """
    with ruling(holding):
        await guest(within).rows(sql, _params(holding, extra))


def hold_within_sync(within: object, holding: Holding, sql: LiteralString, extra: Sequence[str] = ()) -> None:
    """As `hold_within`, in a thread."""
    with ruling(holding):
        sync_guest(within).rows(sql, _params(holding, extra))


def _params(holding: Holding, extra: Sequence[str]) -> list[str]:
    return [str(holding.job_id), str(holding.attempt_id), str(holding.fencing_number), *extra]


def _found(kinds: Mapping[tuple[str, str], T], within: object) -> T | None:
    for base in type(within).__mro__:
        if made := kinds.get((base.__module__.partition(".")[0], base.__name__)):
            return made
    return None


def _refused(within: object, kinds: str, why: str) -> ConfigurationError:
    name = f"{type(within).__module__}.{type(within).__qualname__}"
    return ConfigurationError(f"within= was given a {name}{why}; here it takes {kinds}, with its transaction open")
