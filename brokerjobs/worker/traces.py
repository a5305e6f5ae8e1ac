"""The spans of attempts that were granted, and what the ledger keeps of them for the attempts after.

Only sampled spans are kept there, behind the claim: nothing waits for that, and a failure costs a link.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger.attempt_spans import attempt_spans, tell_expired, traced_attempts
from brokerjobs.rules.verdicts import ClaimVerdict
from brokerjobs.telemetry.attempts import AttemptSpans, seconds_since_made
from brokerjobs.telemetry.instruments import measuring
from brokerjobs.telemetry.shapes import Particulars
from brokerjobs.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from brokerjobs.ledger.calls import Claimed
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.worker.attempt import Attempt
    from brokerjobs.worker.options import Duty, WorkerOptions

log = logging.getLogger("brokerjobs.worker")

_MOST_WAITING: Final = 10_000  # contexts that the ledger has not taken yet
_LOOK_SECONDS: Final = 1.0  # attempts that were granted wait no longer for the context of the one before

_AFTER_ANOTHER: Final = frozenset({ClaimVerdict.NOT_DUE, ClaimVerdict.REVIEW, ClaimVerdict.FINISHED})


class Traces:
    """Called by the claims; `run` is the loop that tells the ledger."""

    def __init__(self, duty: Duty, options: WorkerOptions, connection: AsyncLedgerConnection) -> None:
        self._connection = connection
        self._spans = AttemptSpans(
            duty.namespace,
            str(duty.process.id),
            duty.process.name,
            options.topology,
            options.join_window,
        )
        self._waiting: dict[UUID, str] = {}
        self._some = asyncio.Event()

    def begin(self, attempt: Attempt, previous: str | None) -> None:
        """Begins the span of an attempt that was granted now; `previous`: the context of the one before it."""
        claimed = attempt.claimed
        more = Particulars(
            previous=previous,
            since_submit=seconds_since_made(claimed.job_id),
            limit=attempt.job_type.terms.retry.attempts,
        )
        attempt.span = self._spans.process(claimed, attempt.delivery, more)
        if attempt.span.is_sampled and (context := attempt.span.traceparent) and len(self._waiting) < _MOST_WAITING:
            self._waiting[claimed.attempt_id] = context
            self._some.set()

    async def before(self, answers: Sequence[Claimed], asked_at: float) -> Mapping[UUID, str | None]:
        """The contexts of the attempts before those that were granted, by job; tells of those that this claim gave up.

        Nothing is asked if nobody traces or measures, or no job had an attempt before.
        """
        jobs = [one.job_id for one in answers if _had_another(one)]
        if not jobs or (tracing.tracer is None and measuring.instruments is None):
            return {}
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                found = await self._connection.fetch(traced_attempts(jobs))
        except (LedgerUnavailable, TimeoutError) as error:
            log.debug("the spans of earlier attempts are not known: %s", error)
            return {}
        since = time.monotonic() - asked_at
        for one in found:
            if one.closed_by == "claim" and one.closed_as == "timed_out" and (one.closed_seconds or 0.0) <= since:
                tell_expired(one)
        granted = {one.attempt_id for one in answers}
        return {one.job_id: one.attempt_traceparent for one in found if one.attempt_id not in granted}

    async def run(self) -> None:
        """Tells the ledger of contexts, as fast as it answers; ends only when it is cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            waiting, self._waiting = self._waiting, {}
            try:
                await self._connection.fetch(attempt_spans(waiting))
            except LedgerUnavailable as error:
                log.debug("the contexts of %d attempts are not kept: %s", len(waiting), error)


def _had_another(answer: Claimed) -> bool:
    verdict = ClaimVerdict(answer.verdict)
    return answer.number > 1 if verdict is ClaimVerdict.GRANTED else verdict in _AFTER_ANOTHER
