"""Paused job types: a route whose every type here is paused is consumed no more, so its deliveries stay at the broker.

That is economy: a claim of a paused type is answered `paused` whatever this worker has heard of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from brokerjobs.broker.protocol import Consumer

log = logging.getLogger("brokerjobs.worker")

READS_PAUSES: Final = ("paused/1",)
"""What a heartbeat says of this: the ledger answers `paused` to no other worker."""


class Pauses:
    """Holds the routes of paused types; `routes` says by which route each type comes that this worker handles."""

    def __init__(self, consumer: Consumer, routes: Mapping[str, str]) -> None:
        self._consumer = consumer
        self._types: defaultdict[str, set[str]] = defaultdict(set)
        for job_type, route in routes.items():
            self._types[route].add(job_type)
        self._paused: frozenset[str] = frozenset()
        self._change = asyncio.Event()

    def hear(self, paused: Collection[str]) -> None:
        """Takes what a heartbeat was answered: the types that are paused now."""
        self._set(paused)

    def met(self, job_type: str) -> None:
        """Takes from the answer to a claim that a type is paused; the next heartbeat says whether it still is."""
        self._set(self._paused | {job_type})

    async def run(self) -> None:
        """Holds and lets go routes as types are paused and resumed; ends only when it is cancelled."""
        held: frozenset[str] = frozenset()
        while True:
            await self._change.wait()
            self._change.clear()
            wanted = frozenset(route for route, types in self._types.items() if types <= self._paused)
            if wanted != held:
                for route in sorted(wanted - held):
                    log.info("%s is consumed no more, its types are paused: %s", route, self._names(route))
                for route in sorted(held - wanted):
                    log.info("%s is consumed again, not all of its types are paused: %s", route, self._names(route))
                held = wanted
                await self._consumer.hold(held)

    def _set(self, paused: Iterable[str]) -> None:
        new = frozenset(paused)
        if new != self._paused:
            self._paused = new
            self._change.set()

    def _names(self, route: str) -> str:
        return ", ".join(sorted(self._types[route]))
