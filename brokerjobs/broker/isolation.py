"""Consuming one message at a time after something that came could not be decoded, until the culprit has gone by.

A connection that breaks takes all unsettled messages with it: the broker counts one more delivery for each, and at
its limit the neighbours would go to quarantine together with the message that broke it.  So a route is then consumed
over a connection of its own and with a prefetch of 1, where nobody but the culprit is ever charged.  Returned messages
stand at the head of their queue, so the culprit is soon met again.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Another consumer may have met the culprit, or the broker's limit: then nothing tells that it is gone.
_QUIET_SECONDS: Final = 60.0


class Undecodable(BrokerUnavailable):
    """The connection or channel ended because something that came by it could not be decoded."""


@dataclass(slots=True)
class _Route:
    """What a route has to go by: so many messages, or a time without another break."""

    messages: int
    until: float


class Isolation:
    """Which routes of a consumer are isolated."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._isolated: dict[str, _Route] = {}
        self._change = asyncio.Event()

    @property
    def active(self) -> bool:
        """Whether any route is isolated."""
        return bool(self._isolated)

    def begin(self, routes: Mapping[str, int]) -> None:
        """Isolate routes whose connection was broken by what came, from the beginning if they are isolated already.

        `routes` maps each to its usual prefetch.
        """
        until = self._monotonic() + _QUIET_SECONDS
        # Whatever was unsettled comes first, and the culprit is among it; twice as much for what others gave back.
        self._isolated |= {route: _Route(2 * prefetch, until) for route, prefetch in routes.items()}
        self._change.set()

    def settled(self, route: str, count: int) -> None:
        """Take note of messages of a route that were read and settled."""
        isolated = self._isolated.get(route)
        if isolated is not None:
            isolated.messages -= count
            self._change.set()

    def forget(self, route: str) -> None:
        """Expect nothing more of a route that is consumed no more."""
        if self._isolated.get(route) is not None:
            self._isolated[route].messages = 0
            self._change.set()

    async def over(self) -> None:
        """Wait until all routes have gone by the culprit; then none is isolated."""
        while not all(self._is_past(route) for route in self._isolated.values()):
            rest = max(route.until for route in self._isolated.values()) - self._monotonic()
            self._change.clear()
            try:
                async with asyncio.timeout(max(0.0, rest)):
                    await self._change.wait()
            except TimeoutError:
                pass
        self._isolated.clear()

    def _is_past(self, route: _Route) -> bool:
        return route.messages <= 0 or self._monotonic() >= route.until
