"""Claims: deliveries become attempts, in the largest batch that free slots allow."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from uuid_utils.compat import uuid7

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger import calls
from brokerjobs.ledger.group_commit import MAX_ROWS
from brokerjobs.rules.verdicts import ClaimVerdict
from brokerjobs.telemetry import reviews
from brokerjobs.telemetry.instruments import measuring
from brokerjobs.telemetry.tracing import tracing
from brokerjobs.worker.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from brokerjobs.broker.protocol import Delivery
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.worker.inbox import Inbox
    from brokerjobs.worker.options import Duty
    from brokerjobs.worker.slots import Slots
    from brokerjobs.worker.traces import Traces

log = logging.getLogger("brokerjobs.worker")

READS_RESOURCES: Final = ("resource/1",)
"""What a heartbeat says of this: the ledger answers `resource` to no other worker."""

_LOCKED_PAUSE_SECONDS: Final = 0.01
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0
_LAST_ANSWER_SECONDS: Final = 2.0  # a worker that drains waits no longer


@dataclass(frozen=True, slots=True)
class Answers:
    """Where the ledger's answers to deliveries go: run it, acknowledge it, or send it to quarantine with a reason."""

    granted: Callable[[Attempt], None]
    settled: Callable[[Delivery], None]
    strange: Callable[[Delivery, str], None]
    paused: Callable[[str], None]
    """Takes the job type of a delivery that was parked, beside `settled`, which takes the delivery."""


class Claims:
    """One loop: wait for a delivery and a slot, ask for as many as there are of both, start what was granted."""

    def __init__(  # noqa: PLR0913, PLR0917  # what they take from, and whom they tell
        self,
        duty: Duty,
        connection: AsyncLedgerConnection,
        inbox: Inbox,
        slots: Slots,
        answers: Answers,
        traces: Traces,
    ) -> None:
        self._duty = duty
        self._connection = connection
        self._inbox = inbox
        self._slots = slots
        self._answers = answers
        self._traces = traces
        self._stopping = asyncio.Event()
        self._idle = asyncio.Lock()
        self._asked = 0
        self._given_up = False

    async def run(self) -> None:
        """Claims until it is cancelled; after `stop` nothing more is asked."""
        while True:
            await self._inbox.claimable()
            await self._slots.some()
            async with self._idle:
                if self._stopping.is_set():
                    await asyncio.Future[None]()
                await self._claim(self._inbox.take(min(self._slots.free(), MAX_ROWS)))

    async def stop(self) -> int:
        """Asks for nothing more; returns when the answer that was under way is in, or given up after two seconds.

        What was given up is counted: attempts of which nobody here knows may have been granted.
        """
        self._stopping.set()
        try:
            async with asyncio.timeout(_LAST_ANSWER_SECONDS), self._idle:
                return 0
        except TimeoutError:
            self._given_up = True
            log.warning("the ledger does not answer: %d claims are given up, what they granted is left", self._asked)
            return self._asked

    async def _claim(self, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        tracing.look()
        measuring.look()
        requests = [
            calls.ClaimRequest(d.job_id, uuid7(), d.route, d.ticket, d.redelivered, d.received_at) for d in deliveries
        ]
        asked_at = time.monotonic()  # the lease is trusted from before the *first* request with these ids (rule R7)
        self._asked = len(requests)
        answers = await self._ask(requests)
        if self._given_up:
            return
        before = await self._traces.before(answers, asked_at)
        unanswered = [
            delivery
            for delivery, answer in zip(deliveries, answers, strict=True)
            if not self._take_answer(delivery, answer, asked_at, before)
        ]
        self._inbox.answered(deliveries, unanswered)
        if len(unanswered) == len(deliveries):
            await asyncio.sleep(_LOCKED_PAUSE_SECONDS)

    async def _ask(self, requests: Sequence[calls.ClaimRequest]) -> Sequence[calls.Claimed]:
        """Asks until the ledger answers: with the same ids the same claims are granted again."""
        query = calls.claim(self._duty.process, self._duty.namespace, list(self._duty.types), requests)
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._connection.fetch(query)
            except LedgerUnavailable as error:
                log.warning("cannot claim: %s", error)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _take_answer(
        self, delivery: Delivery, answer: calls.Claimed, asked_at: float, before: Mapping[UUID, str | None]
    ) -> bool:
        """Acts on one verdict; False if it was no answer."""
        reviews.tell(log, answer.opened)  # a claim that finds a lost attempt takes the reaper's step
        match ClaimVerdict(answer.verdict):
            case ClaimVerdict.GRANTED:
                attempt = Attempt(answer, delivery, self._duty.types[answer.type], asked_at)
                if tracing.tracer is not None:
                    self._traces.begin(attempt, before.get(answer.job_id))
                self._answers.granted(attempt)
            case ClaimVerdict.LOCKED | ClaimVerdict.AGAIN:
                return False
            case ClaimVerdict.UNKNOWN_JOB | ClaimVerdict.WRONG_ROUTE as verdict:
                self._answers.strange(delivery, verdict.value)
            case ClaimVerdict.PAUSED:
                self._answers.paused(answer.type)
                self._answers.settled(delivery)
            case (
                ClaimVerdict.NO_HANDLER
                | ClaimVerdict.FINISHED
                | ClaimVerdict.HELD
                | ClaimVerdict.NOT_DUE
                | ClaimVerdict.RESOURCE
                | ClaimVerdict.REVIEW
                | ClaimVerdict.LOST
            ):  # and nothing else: the type checkers hold this list complete
                # The ledger owns what comes next: a timer, a waker, or nothing more to do (rule R4).
                self._answers.settled(delivery)
        return True
