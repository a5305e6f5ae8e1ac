"""What goes on behind a client's callers: doorbells are rung, and results polled for, over connections of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.broker.brokers import broker_at
from brokerjobs.client.announce import Announcer
from brokerjobs.client.waiting import Waiting
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from brokerjobs.client.options import ClientOptions


def connect_options(options: ClientOptions) -> ConnectOptions:
    """How a client connects to the ledger."""
    return ConnectOptions(options.database_url, application=f"brokerjobs client {options.submitted_by}"[:63])


class Behind:
    """The announcer and the waiting of one client; whoever makes it runs its `loops` until they are cancelled."""

    def __init__(self, options: ClientOptions) -> None:
        self._ledger = AsyncLedgerConnection(connect_options(options))
        broker = broker_at(options.broker_url)
        self._publisher = broker.publisher(time_limit=options.publish_timeout, heartbeat=options.heartbeat)
        self.announcer = Announcer(self._publisher, self._ledger)
        self.waiting = Waiting(self._ledger)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """What has to run for anything to be rung or answered."""
        return [self.announcer.run(), self.waiting.run()]

    async def close(self) -> None:
        """Gives both connections back, once the loops have ended."""
        try:
            await self._publisher.close()
        finally:
            await self._ledger.close()
