"""Finds doorbells that the broker lost, by sending probes the same way and ringing again what was rung before them.

The ledger cannot know what a queue holds.  Ringing by age would double every backlog, and waiting for an empty queue
would find nothing behind a standing one.  A probe that came back through the queue says that everything published
before it has left the queue; which of that no worker has, the ledger decides.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.broker import codec
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable
from brokerjobs.ledger import ticks
from brokerjobs.ledger.ticks import Looking
from brokerjobs.rules import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.broker.protocol import Outgoing, Publisher
    from brokerjobs.coordinator.service import Periods
    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.ledger.ticks import Candidacy, Probing, Walk

NAME: Final = "reconcile"
# Looking at a job costs far less than ringing it: 10 000 rows take about as long as 200 rings.
_ROWS_A_RING: Final = 50

_log = logging.getLogger(__name__)


class Reconcile:
    """The service that looks for lost doorbells; its lead has to outlast its long delay."""

    name = NAME

    def __init__(
        self, ledger: AsyncLedgerConnection, candidacy: Candidacy, publisher: Publisher, periods: Periods
    ) -> None:
        self._ledger = ledger
        self._candidacy = candidacy
        self._publisher = publisher
        self._periods = periods
        self._looking = Looking(
            rows=periods.batch * _ROWS_A_RING,
            rings=periods.batch,
            lost_seconds=periods.probe_timeout.total_seconds(),
            hand_back_seconds=periods.hand_back.total_seconds(),
        )
        self._walk: Walk | None = None

    async def run_once(self) -> timedelta:
        """Look at the next of the waiting jobs, ring what was lost, and send the probes that are wanted.

        Raises BrokerUnavailable if nothing is known of any probe that was sent: another process may do better.
        """
        rows = await self._ledger.fetch(ticks.reconcile(self._candidacy, self._walk, self._looking))
        if not rows[0].leading:
            self._walk = None
            return LED_ELSEWHERE
        probes = [probe for row in rows if (probe := row.probe()) is not None]
        # The last row tells how the walk goes on.
        self._walk = rows[-1].walk()
        rung = rows[-1].rung or 0
        if rung:
            _log.warning("%d jobs are rung again: their doorbells have left their queues, and no worker has them", rung)
        if probes:
            await self._send(probes)
        if self._walk is None:
            return self._periods.reconcile
        return timedelta(0) if rung >= self._looking.rings else self._periods.tick

    async def _send(self, probes: Sequence[Probing]) -> None:
        sent = [probe for probe in probes if not _is_misnamed(probe)]
        outcomes = await self._publisher.publish([_outgoing(probe) for probe in sent])
        known = zip(sent, outcomes, strict=True)
        confirmed = [probe.ticket for probe, outcome in known if outcome is PublishOutcome.CONFIRMED]
        others = [probe.ticket for probe in probes if probe.ticket not in confirmed]
        await self._ledger.fetch(ticks.probe_sent(confirmed, others))
        if set(outcomes) == {PublishOutcome.UNKNOWN}:
            raise BrokerUnavailable(f"the broker has answered to none of {len(sent)} probes")


def _is_misnamed(probe: Probing) -> bool:
    """Whether a name that came into the ledger by plain SQL is none that the broker can have."""
    return names.route_problem(probe.namespace, probe.route) is not None


def _outgoing(probe: Probing) -> Outgoing:
    return codec.probe(ticket=probe.ticket, namespace=probe.namespace, route=probe.route)
