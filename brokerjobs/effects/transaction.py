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

from brokerjobs.errors import InvalidResult, ResultMissing
from brokerjobs.ledger import guest
from brokerjobs.ledger.raised import refused_result

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.lending import Lending, SyncTransaction, Transaction


@dataclass(slots=True)
class Place:
    """An attempt's place in the ledger as its handler sees it, and what its handler did with it."""

    holding: Holding
    job_type: JobType[Any, Any]
    completing: bool = field(default=False)
    """A completing transaction was begun: from now on the worker only asks."""
    recorded: str | None = field(default=None)
    """The result, as JSON, that the last completing transaction carried."""

    def completion(self, result: object) -> list[str]:
        """Parameters of `complete_v1` after its first three; raises InvalidResult or ResultTooLarge before any lock."""
        body = self.job_type.encode_result(result).decode()
        self.completing = True
        self.recorded = body
        return [body, datetime.now(UTC).isoformat()]

    @contextmanager
    def refusals(self) -> Generator[None]:
        """Raises InvalidResult for a result that the ledger refused in the block: it names an artifact that is none."""
        try:
            yield
        except Exception as error:
            if (problem := refused_result(error)) is None:
                raise
            raise InvalidResult(job_type=self.job_type.name, path="", problem=problem, returned=True) from error


async def fence(place: Place, *, within: object) -> None:
    """Requires that the attempt is running, as the last statement of the user's transaction."""
    await guest.hold_within(within, place.holding, guest.FENCE)


async def complete(place: Place, result: object, *, within: object) -> None:
    """Records the result as the last statement of the user's transaction."""
    with place.refusals():
        await guest.hold_within(within, place.holding, guest.COMPLETE, place.completion(result))


def sync_fence(place: Place, *, within: object) -> None:
    """As `fence`, for a handler in a thread."""
    guest.hold_within_sync(within, place.holding, guest.FENCE)


def sync_complete(place: Place, result: object, *, within: object) -> None:
    """As `complete`, for a handler in a thread."""
    with place.refusals():
        guest.hold_within_sync(within, place.holding, guest.COMPLETE, place.completion(result))


@asynccontextmanager
async def transaction(place: Place, lending: Lending, *, completing: bool) -> AsyncGenerator[Transaction]:
    """Lends a connection for one fenced transaction; raises StaleAttempt, AlreadyReported, ResultMissing at its end."""
    with place.refusals():
        async with lending.transaction(place.holding, running=not completing) as opened:
            yield opened
            await opened.end(*_last_statement(place, opened, completing=completing))


@contextmanager
def sync_transaction(place: Place, lending: Lending, *, completing: bool) -> Generator[SyncTransaction]:
    """As `transaction`, for a handler in a thread."""
    with place.refusals(), lending.sync_transaction(place.holding, running=not completing) as opened:
        yield opened
        opened.end(*_last_statement(place, opened, completing=completing))


def _last_statement(
    place: Place, opened: Transaction | SyncTransaction, *, completing: bool
) -> tuple[LiteralString, list[str]]:
    if not completing:
        return guest.FENCE, []
    if not opened.given:
        raise ResultMissing(job_id=place.holding.job_id, attempt_id=place.holding.attempt_id)
    return guest.COMPLETE, place.completion(opened.value)
