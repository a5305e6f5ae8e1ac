"""Fenced transactions: the user's statements first, the check of rule R1 last, then one commit of both.

The job's row is locked for one round trip only (rule R9).  A superseded attempt raises before the commit, so its writes
roll back.  After a completing transaction no plain success is ever sent for the attempt: a COMMIT may have gone without
its answer, so the worker only asks (rule R7).
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from brokerjobs.errors import ResultMissing, StaleAttempt
from brokerjobs.ledger import guest
from brokerjobs.ledger.database import raised_by_ledger, unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
    from psycopg.abc import Params, QueryNoTemplate
    from psycopg.rows import TupleRow

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.lending import Lending


@dataclass(slots=True)
class Place:
    """An attempt's place in the ledger as its handler sees it, and what its handler did with it."""

    holding: Holding
    encode_result: Callable[[Any], bytes]
    trusted: Callable[[], bool]
    """False once the lease has run out on the worker's own clock: then it is useless to begin."""
    completing: bool = field(default=False)
    """A completing transaction was begun: from now on the worker only asks."""
    recorded: str | None = field(default=None)
    """The result, as JSON, that the last completing transaction carried."""

    def begin(self) -> None:
        """Refuses to begin when the lease is known to be over; raises StaleAttempt."""
        if not self.trusted():
            job_id, attempt_id, number = self.holding.job_id, self.holding.attempt_id, self.holding.fencing_number
            raise StaleAttempt(job_id=job_id, attempt_id=attempt_id, fencing_number=number, reason="lease_expired")

    def completion(self, result: object) -> list[Any]:
        """Parameters of `complete_v1` after its first three; raises InvalidResult or ResultTooLarge before any lock."""
        body = self.encode_result(result).decode()
        self.completing = True
        self.recorded = body
        return [body, datetime.now(UTC)]


async def fence(place: Place, *, within: object) -> None:
    """Requires that the attempt is running, as the last statement of the user's transaction."""
    await guest.hold_within(within, place.holding, guest.FENCE)


async def complete(place: Place, result: object, *, within: object) -> None:
    """Records the result as the last statement of the user's transaction."""
    await guest.hold_within(within, place.holding, guest.COMPLETE, place.completion(result))


def sync_fence(place: Place, *, within: object) -> None:
    """As `fence`, for a handler in a thread."""
    guest.hold_within_sync(within, place.holding, guest.FENCE)


def sync_complete(place: Place, result: object, *, within: object) -> None:
    """As `complete`, for a handler in a thread."""
    guest.hold_within_sync(within, place.holding, guest.COMPLETE, place.completion(result))


class _Result:
    """Holds the result that `complete` was given until the block ends."""

    def __init__(self) -> None:
        self.given = False
        self.value: object = None

    def complete(self, result: object) -> None:
        """Sets the result; the end of the block records it, with the job's row locked last."""
        self.given = True
        self.value = result


class Transaction(_Result):
    """A fenced transaction on an async connection of ours."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        super().__init__()
        self.connection = connection

    async def execute(self, query: QueryNoTemplate, params: Params | None = None) -> AsyncCursor[TupleRow]:
        """Runs one statement."""
        return await self.connection.execute(query, params)


class SyncTransaction(_Result):
    """A fenced transaction on a connection of ours, for handlers in threads."""

    def __init__(self, connection: Connection[TupleRow]) -> None:
        super().__init__()
        self.connection = connection

    def execute(self, query: QueryNoTemplate, params: Params | None = None) -> Cursor[TupleRow]:
        """Runs one statement."""
        return self.connection.execute(query, params)


@asynccontextmanager
async def transaction(place: Place, lending: Lending, *, completing: bool) -> AsyncGenerator[Transaction]:
    """Lends a connection for one fenced transaction; raises StaleAttempt, AlreadyReported, ResultMissing at its end."""
    place.begin()
    async with lending.connection() as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        # Statements of ours are translated; the user's own errors pass through this block as they are.
        try:
            async with connection.transaction():
                opened = Transaction(connection)
                yield opened
                statement, extra = _last_statement(place, opened, completing=completing)
                await connection.execute(statement, [*_names(place.holding), *extra])
        except psycopg.Error as error:
            raise _ours(error, place.holding) or error from error


@contextmanager
def sync_transaction(place: Place, lending: Lending, *, completing: bool) -> Generator[SyncTransaction]:
    """As `transaction`, for a handler in a thread."""
    place.begin()
    with lending.sync_connection() as connection:
        connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        try:
            with connection.transaction():
                opened = SyncTransaction(connection)
                yield opened
                statement, extra = _last_statement(place, opened, completing=completing)
                connection.execute(statement, [*_names(place.holding), *extra])
        except psycopg.Error as error:
            raise _ours(error, place.holding) or error from error


def _last_statement(place: Place, opened: _Result, *, completing: bool) -> tuple[LiteralString, list[Any]]:
    if not completing:
        return guest.FENCE, []
    if not opened.given:
        raise ResultMissing(job_id=place.holding.job_id, attempt_id=place.holding.attempt_id)
    return guest.COMPLETE, place.completion(opened.value)


def _names(holding: Holding) -> tuple[Any, ...]:
    return holding.job_id, holding.attempt_id, holding.fencing_number


def _ours(error: psycopg.Error, holding: Holding) -> Exception | None:
    """Our error behind the driver's: what the ledger raised, or a lost connection; None for the user's own."""
    ours = raised_by_ledger(error, *_names(holding))
    if ours is not None:
        return ours
    return unavailable(error)
