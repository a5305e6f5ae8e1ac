"""Rings what the ledger owes: takes messages from the outbox, publishes them, and marks those that were confirmed.

A relay that dies between publishing and marking rings twice, which the claim answers.  What the broker refused or did
not answer stays in the outbox: refused rows come back after a second or more, the others when their hold runs out.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.broker import codec
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable
from brokerjobs.ledger import services, ticks
from brokerjobs.rules import names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing, Publisher
    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy, Message

NAME: Final = "relay"
_FROM_THE_START: Final = "0"
# A mark is a transaction id of one server: after a pooler has moved us to another one it would pass over rows for ever.
_WHOLE_SCAN_SECONDS: Final = 60.0
# A restarted broker answers again by then; after it another process may be nearer to the broker.
_PATIENCE_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class Relay:
    """The service that publishes the outbox."""

    name = NAME

    def __init__(
        self,
        ledger: AsyncLedgerConnection,
        candidacy: Candidacy,
        publisher: Publisher,
        periods: Periods,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._publisher = publisher
        self._periods = periods
        self._monotonic = monotonic
        self._mark = _FROM_THE_START
        self._whole_scan_at = monotonic() + _WHOLE_SCAN_SECONDS
        self._silent_batches = 0
        self._silent_since = 0.0
        self._misnamed: set[str] = set()

    async def run_once(self) -> timedelta:
        """Publish one batch; a full one is followed at once.

        Raises BrokerUnavailable if the broker has answered to nothing for ten seconds.
        """
        start_at, self._mark = self._start(), _FROM_THE_START
        rows = await self._ledger.fetch(ticks.relay(self._candidacy, start_at, self._periods.batch))
        if not rows[0].leading:
            return LED_ELSEWHERE
        self._mark = next((row.mark for row in rows if row.mark is not None), _FROM_THE_START)
        messages = [message for row in rows if (message := row.message()) is not None]
        if not messages:
            return self._periods.relay_poll
        if not await self._publish(messages):
            return self._silence()
        self._silent_batches = 0
        return timedelta(0) if len(messages) >= self._periods.batch else self._periods.relay_poll

    def _silence(self) -> timedelta:
        """Return how long to wait after a batch without an answer: a whole backlog would only be held in vain."""
        now = self._monotonic()
        if self._silent_batches == 0:
            self._silent_since = now
        elif now - self._silent_since >= _PATIENCE_SECONDS:
            self._silent_batches = 0
            raise BrokerUnavailable("the broker has answered to no message for ten seconds")
        self._silent_batches += 1
        doubled: int = 2 ** min(self._silent_batches, 10)
        return min(self._periods.tick, self._periods.relay_poll * doubled)

    def _start(self) -> str:
        """Return where this scan starts: the last one's mark, unless that one failed or was long ago."""
        now = self._monotonic()
        if now < self._whole_scan_at:
            return self._mark
        self._whole_scan_at = now + _WHOLE_SCAN_SECONDS
        return _FROM_THE_START

    async def _publish(self, messages: Sequence[Message]) -> bool:
        """Publish and record what is known; False if nothing is known of any."""
        sent = [message for message in messages if not self._is_misnamed(message)]
        outcomes = await self._publisher.publish([_outgoing(message) for message in sent])
        refused = {message.ticket for message in messages} - {message.ticket for message in sent}
        confirmed: list[UUID] = []
        for message, outcome in zip(sent, outcomes, strict=True):
            match outcome:
                case PublishOutcome.CONFIRMED:
                    confirmed.append(message.ticket)
                case PublishOutcome.REFUSED:
                    refused.add(message.ticket)
                case PublishOutcome.UNKNOWN:
                    pass
        if confirmed:
            await self._ledger.fetch(services.outbox_done(confirmed))
        if refused:
            await self._ledger.fetch(ticks.outbox_refused(list(refused)))
        return bool(confirmed or refused)

    def _is_misnamed(self, message: Message) -> bool:
        """Whether a name that came into the ledger by plain SQL is none that the broker can have."""
        problem = _problem(message)
        if problem is not None and problem not in self._misnamed and len(self._misnamed) < 100:
            self._misnamed.add(problem)
            _log.warning("job %s cannot be rung: %s", message.job_id, problem)
        return problem is not None


def _problem(message: Message) -> str | None:
    return names.route_problem(message.namespace, message.route) or names.job_type_problem(message.type)


def _outgoing(message: Message) -> Outgoing:
    if message.kind in {"dead", "review"}:
        made = codec.dead_letter if message.kind == "dead" else codec.review_opened
        return made(
            ticket=message.ticket,
            namespace=message.namespace,
            job_type=message.type,
            record=message.body or "{}",
            traceparent=message.traceparent,
        )
    return codec.doorbell(
        ticket=message.ticket,
        job_id=message.job_id,
        namespace=message.namespace,
        route=message.route,
        traceparent=message.traceparent,
    )
