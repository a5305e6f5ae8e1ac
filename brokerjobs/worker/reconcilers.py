"""Reconcilers: asks the outside what became of jobs in review, one worker at a time, each time later."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from brokerjobs.context import Happened, OpenEffect, ReviewContext, StillUnknown
from brokerjobs.errors import DidNotHappen, LedgerUnavailable
from brokerjobs.ledger import effects
from brokerjobs.ledger.database import AsyncLedgerConnection
from brokerjobs.rules import texts
from brokerjobs.rules.failures import message_of, name_of
from brokerjobs.worker.stopping import is_being_cancelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.handlers import Handler
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.database import ConnectOptions
    from brokerjobs.worker.options import Duty

log = logging.getLogger("brokerjobs.worker")

_AT_ONCE: Final = 10
_LIMIT_SECONDS: Final = 30.0  # a reconciler that takes longer is given up, and its review asked about later
_LEASE_SECONDS: Final = 60.0  # meanwhile nobody else asks about the same review
_WORDS: Final = 500


class Reconcilers:
    """Runs those of one worker; `period` is how often it looks for open reviews that are due."""

    def __init__(self, duty: Duty, options: ConnectOptions, period: timedelta) -> None:
        self._duty = duty
        self._connection = AsyncLedgerConnection(options)
        self._types = {name: (one, one.reconciled_by) for name, one in duty.types.items() if one.reconciled_by}
        self._seconds = period.total_seconds()

    async def run(self) -> None:
        """Looks until it is cancelled; ends at once if no type has a reconciler here, and then costs nothing."""
        if not self._types:
            return
        try:
            while True:
                await asyncio.sleep(self._seconds * random.uniform(0.9, 1.1))
                try:
                    async with asyncio.TaskGroup() as group:
                        for review in await self._take():
                            group.create_task(self._reconcile(review))
                except* LedgerUnavailable as errors:
                    log.warning("reconcilers have no ledger: %s", errors.exceptions[0])
        finally:
            await self._connection.close()

    async def _take(self) -> Sequence[effects.OpenReview]:
        name, namespace = self._duty.process.name, self._duty.namespace
        return await self._connection.fetch(
            effects.review_ask(name, namespace, list(self._types), _LEASE_SECONDS, _AT_ONCE)
        )

    async def _reconcile(self, review: effects.OpenReview) -> None:
        finding = await _find_out(*self._types[review.type], review)
        (answer,) = await self._connection.fetch(
            effects.review_found(review.review_id, review.asked, f"reconciler of {self._duty.process.name}", finding)
        )
        log.info(
            "job %s: the reconciler of %s answers %r: %s", review.job_id, review.type, finding["as"], answer.verdict
        )


async def _find_out(job_type: JobType[Any, Any], reconciler: Handler, review: effects.OpenReview) -> dict[str, Any]:
    """Asks; what goes wrong leaves it unknown, with the error."""
    try:
        payload = job_type.decode_payload(review.payload)
        arguments = (payload, _context(review)) if reconciler.takes_context else (payload,)
        async with asyncio.timeout(_LIMIT_SECONDS):
            if reconciler.is_async:
                finding = await reconciler.function(*arguments)
            else:
                finding = await asyncio.to_thread(reconciler.function, *arguments)
        return _as_data(finding, job_type)
    except BaseException as error:  # whatever a reconciler raises, the review stays open, and its worker goes on
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        log.warning("job %s: the reconciler of %s raised %s", review.job_id, review.type, name_of(type(error)))
        return {"as": "unknown", "why": texts.first_part(message_of(error), _WORDS), "error": name_of(type(error))}


def _as_data(finding: Any, job_type: JobType[Any, Any]) -> dict[str, Any]:
    match finding:
        case Happened():
            happened = cast("Happened[object]", finding)
            if not happened.reference:
                message = "Happened() needs a reference: what proves it in the world outside"
                raise ValueError(message)
            body = json.loads(job_type.encode_result(happened.result))
            return {"as": "happened", "result": body, "reference": texts.first_part(happened.reference, _WORDS)}
        case DidNotHappen():
            return {"as": "did_not_happen", "why": texts.first_part(str(finding), _WORDS)}
        case StillUnknown(why):
            return {"as": "unknown", "why": texts.first_part(why, _WORDS)}
        case _:
            message = f"a reconciler returns Happened, DidNotHappen or StillUnknown, not {type(finding).__name__}"
            raise TypeError(message)


def _context(review: effects.OpenReview) -> ReviewContext:
    return ReviewContext(
        review_id=review.review_id,
        job_id=review.job_id,
        key=review.key,
        tags=review.tags,
        submitted_by=review.submitted_by,
        cause=review.cause,
        opened_at=review.opened_at,
        asked=review.asked,
        effects=tuple(_effect(one) for one in review.effects),
    )


def _effect(shown: dict[str, Any]) -> OpenEffect:
    intents = [
        (datetime.fromisoformat(one["at"]), timedelta(seconds=float(one["time_limit_seconds"])))
        for one in shown["intents"]
    ]
    return OpenEffect(
        name=shown["name"],
        key=shown["key"],
        repeatable=shown["repeatable"],
        intended_at=min(at for at, _ in intents),
        acts_until=max(at + limit for at, limit in intents),
    )
