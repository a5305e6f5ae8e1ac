"""The routes that this worker consumes: those by which its types come and whose needs it meets, as the ledger says.

It learns of them at its start and with every heartbeat.  A route all of whose types here are paused, or whose queue is,
is held: its deliveries stay at the broker.  That is economy: a claim is answered `paused` whatever this worker heard.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from brokerjobs.rules import needs, placement
from brokerjobs.rules.line import Place
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from brokerjobs.broker.protocol import Consumer
    from brokerjobs.rules.capabilities import Capabilities
    from brokerjobs.rules.stock import Stock
    from brokerjobs.worker.inbox import Inbox

log = logging.getLogger("brokerjobs.worker")

READS_PAUSES: Final = ("paused/1",)
"""What a heartbeat says of this: the ledger answers `paused` to no other worker."""


class _Route(NamedTuple):
    """What the ledger says of a route."""

    queue: str
    types: frozenset[str]
    place: Place
    declared: bool
    siblings: str
    """The same for the lanes of one queue and one set of needs."""
    lacking: str
    """What this worker lacks for it; empty if it meets all needs."""


class Routes:
    """Has the consumer serve the routes that this worker qualifies for; made and called on the event loop."""

    def __init__(
        self, consumer: Consumer, inbox: Inbox, capabilities: Capabilities, stock: Stock, deliveries: int
    ) -> None:
        self._consumer = consumer
        self._capabilities = capabilities
        self._stock = stock
        self._inbox = inbox
        self._deliveries = deliveries
        self._heard: list[dict[str, Any]] = []
        self._known: dict[str, _Route] = {}
        self._paused: frozenset[str] = frozenset()
        self._paused_queues: frozenset[str] = frozenset()
        self._held: dict[str, str] = {}
        self._served: tuple[Mapping[str, int], frozenset[str]] = {}, frozenset()
        self._warned = ""
        self._change = asyncio.Event()
        self.names: list[str] = []
        """Those that this worker qualifies for, in order; any thread may read it."""

    @property
    def stand_still(self) -> bool:
        """Is a route held, so that a resume is waited for? Any thread may ask."""
        return bool(self._held)

    @property
    def to_consume(self) -> frozenset[str]:
        """The routes that are to be consumed now, without those that are held; any thread may ask."""
        return frozenset(self.names) - self._held.keys()

    async def begin(self, heard: list[dict[str, Any]]) -> None:
        """Takes the routes as they are at the worker's start."""
        self._learn(heard)
        await self._apply()

    def hear(self, heard: list[dict[str, Any]], paused: Collection[str], paused_queues: Collection[str]) -> None:
        """Takes what a heartbeat was answered: the routes, and the types and queues that are paused now."""
        if heard != self._heard:
            self._learn(heard)
            self._change.set()
        self._pause(paused, paused_queues)

    def met(self, job_type: str) -> None:
        """Takes from the answer to a claim that a type is paused; the next heartbeat says whether it still is."""
        self._pause({*self._paused, job_type}, self._paused_queues)

    async def run(self) -> None:
        """Follows what was heard; ends only when it is cancelled."""
        while True:
            await self._change.wait()
            self._change.clear()
            await self._apply()

    def _pause(self, types: Iterable[str], queues: Iterable[str]) -> None:
        paused = frozenset(types), frozenset(queues)
        if paused != (self._paused, self._paused_queues):
            self._paused, self._paused_queues = paused
            self._change.set()

    def _learn(self, heard: list[dict[str, Any]]) -> None:
        self._heard = heard
        known = {one["name"]: self._route(one) for one in heard}
        for name, route in sorted(known.items()):
            if route.lacking and (name not in self._known or self._known[name].lacking != route.lacking):
                log.info("%s is not consumed here: this worker %s", name, route.lacking)
        self._known = known
        mine = {name: route.place for name, route in known.items() if not route.lacking}
        self._inbox.place(mine)
        self.names = sorted(mine)
        self._warn()

    def _route(self, said: dict[str, Any]) -> _Route:
        try:
            wanted = needs.from_data(said["needs"])
        except ValueError as error:  # of a later release
            wanted, lacking = (), str(error)
        else:
            lacking = ", ".join(one.text for one in placement.unmet(wanted, self._capabilities))
        place = Place(said["lane"], self._stock.amounts(wanted))
        siblings = json.dumps([said["queue"], said["needs"]])
        return _Route(said["queue"], frozenset(said["types"]), place, said["declared"], siblings, lacking)

    def _warn(self) -> None:
        """Says once what is lacking if nothing can be run here."""
        lacking = "; ".join(f"{name}: {route.lacking}" for name, route in sorted(self._known.items()))
        if self.names or not self._known:
            self._warned = ""
        elif lacking != self._warned:
            self._warned = lacking
            log.warning(
                "this worker qualifies for none of %s by which its job types come, and goes on asking: %s",
                counted(len(self._known), "route", "routes"),
                lacking,
            )

    async def _apply(self) -> None:
        mine = {name: self._known[name] for name in self.names}
        held = {name: why for name, route in mine.items() if (why := self._why_held(route))}
        for name in sorted(held.keys() - self._held.keys()):
            log.info("%s is consumed no more, %s", name, held[name])
        for name in sorted(self._held.keys() - held.keys() & mine.keys()):
            log.info("%s is consumed again, as long as something of it is not paused", name)
        if held.keys() != self._held.keys():
            await self._consumer.hold(held.keys())
        self._held = held
        await self._serve(mine)

    async def _serve(self, mine: Mapping[str, _Route]) -> None:
        # Lanes share no prefetch: turns are worth nothing to one that has used up its part, and where two of them are
        # empty the third one would not fill the slots.
        sharing = {route.siblings for name, route in mine.items() if name not in self._held}
        prefetch = max(1, self._deliveries // max(1, len(sharing)))
        served = dict.fromkeys(mine, prefetch), frozenset(name for name, route in mine.items() if route.declared)
        if served == self._served:
            return
        before, self._served = self._served[0], served
        if before:
            for name in sorted(mine.keys() - before):
                log.info("%s is consumed from now on", name)
            for name in sorted(before.keys() - mine):
                log.info("%s is consumed no more, it is retired or not for this worker", name)
        await self._consumer.serve(served[0])

    def _why_held(self, route: _Route) -> str:
        if route.queue in self._paused_queues:
            return "its queue is paused"
        if route.types <= self._paused:
            return f"its types are paused: {', '.join(sorted(route.types))}"
        return ""
