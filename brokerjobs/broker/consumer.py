"""Receiving deliveries of several routes over one connection, and settling each on the channel that it came by."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import defaultdict
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from aiormq.exceptions import ChannelAccessRefused, ChannelClosed, ChannelLockedResource, ChannelNotFoundEntity
from tenacity import AsyncRetrying, retry_if_exception_type

from brokerjobs.broker.codec import Source
from brokerjobs.broker.connection import HEARTBEAT, open_link, place
from brokerjobs.broker.isolation import Isolation, Undecodable
from brokerjobs.broker.roads import AmqpRoad
from brokerjobs.broker.served import ServedRoutes
from brokerjobs.broker.subscription import ConsumerCancelled, Receivers
from brokerjobs.broker.supervisor import BACK_OFF, supervise
from brokerjobs.broker.ungrouped import ungrouped
from brokerjobs.errors import BrokerUnavailable, PermissionDenied

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from datetime import timedelta

    from brokerjobs.broker.protocol import Delivery, Probe, Settled, Unreadable
    from brokerjobs.broker.roads import Road, RouteSubscription
    from brokerjobs.broker.served import Served

_log = logging.getLogger(__name__)


class Consumer:
    """Receives from each route of `routes` at most so many unsettled messages as it says (AMQP prefetch).

    Quorum queues refuse a prefetch over several consumers, so each route has a channel of its own.  A route that is
    not declared, or not any more, is asked for again and again, without harm to the others; any other unexpected end of
    a channel or the connection makes all of them anew, and the broker delivers again what was not settled.  If
    something that came could not be decoded, each route is isolated for a while.
    """

    def __init__(  # noqa: PLR0913  # each kind of message has its receiver
        self,
        url: str,
        routes: Mapping[str, int],
        on_delivery: Callable[[Delivery], None],
        on_unreadable: Callable[[Unreadable], None],
        *,
        on_probe: Callable[[Probe], None] | None = None,
        heartbeat: timedelta = HEARTBEAT,
    ) -> None:
        """Prepare to consume; raises `ValueError` for what is no route or a prefetch below 1.

        Without `on_probe` a probe ends the consumer: it would be taken for one that has not come back.
        """
        self._url = url
        self._routes = ServedRoutes(routes)
        self._receivers = Receivers(on_delivery, on_unreadable, on_probe or _unexpected)
        self._isolation = Isolation()
        self._heartbeat = heartbeat
        self._generations = itertools.count(1)
        self._open: dict[int, RouteSubscription] = {}
        self._served_by: dict[int, Served] = {}
        self._held: frozenset[str] = frozenset()
        self._connected_once = False
        self._known: set[str] = set()
        self._missing: dict[str, Exception] = {}
        self._stopped = asyncio.Event()
        self._closed = asyncio.Event()
        self._runs = asyncio.Lock()

    @property
    def consuming(self) -> frozenset[str]:
        """The routes from which messages can arrive at this moment; any thread may ask."""
        if self._stopped.is_set():
            return frozenset()
        return frozenset(
            subscription.source.route for subscription in tuple(self._open.values()) if subscription.consuming
        )

    @property
    def missing(self) -> frozenset[str]:
        """The routes that the broker said it has no queue for, when it was last asked; any thread may ask."""
        missing = tuple(self._missing.items())
        return frozenset(route for route, error in missing if isinstance(error, ChannelNotFoundEntity))

    async def run(self) -> None:
        """Receive until `close` or cancellation; an error of a receiver ends it.

        `PermissionDenied` (the login, or a route of the start that it may not read) ends it too, unless the same worked
        before: what is taken away from a running worker may come back.  `ConfigurationError` if the URL is none.
        """
        async with self._runs:
            with ungrouped():
                async with asyncio.TaskGroup() as group:
                    receiving = group.create_task(supervise(self._session))
                    await self._closed.wait()
                    receiving.cancel()

    def ack(self, deliveries: Sequence[Settled]) -> list[Settled]:
        """Send acknowledgements and return the deliveries that can have none, as their channel is gone (`ack_lost`).

        One that is settled already is left out.  The others are sent, which does not say that they arrive.
        """
        came_by: defaultdict[int, list[Settled]] = defaultdict(list)
        for delivery in deliveries:
            came_by[delivery.generation].append(delivery)
        lost: list[Settled] = []
        for generation, group in came_by.items():
            subscription = self._open.get(generation)
            if subscription is None or not subscription.ack([delivery.tag for delivery in group]):
                lost += group
            else:
                self._isolation.settled(subscription.source.route, len(group))
        return lost

    def reject(self, message: Delivery | Unreadable) -> bool:
        """Send the message to quarantine; False if its channel is gone, so that it will come again."""
        subscription = self._open.get(message.generation)
        if subscription is None or not subscription.reject(message.tag):
            return False
        self._isolation.settled(message.route, 1)
        return True

    async def serve(self, routes: Mapping[str, int]) -> None:
        """Consume exactly these routes from now on, each with the prefetch that it has here; errors as of the start.

        What was received of a route that is left out can still be settled; its channel is closed after that.  One that
        the broker has no queue for is asked for again at once, and a route with a new prefetch keeps its channel.
        """
        for gone in self._routes.change(routes, required=not self._connected_once):
            self._missing.pop(gone.route, None)
            self._isolation.forget(gone.route)
        await self._ask_each(self._adjust)

    async def hold(self, routes: Collection[str]) -> None:
        """Consume these routes no more, also after a new connection, until a later call leaves them out.

        What was received can still be settled.  The last call counts, whether or not the broker answers.
        """
        self._held = frozenset(routes)
        await self._ask_each(self._adjust)

    async def stop_consuming(self) -> None:
        """Receive nothing more, also after a new connection; what was received can still be settled."""
        self._stopped.set()
        await self._ask_each(lambda subscription: subscription.stop())

    async def flush(self) -> bool:
        """Return True once the broker has read every acknowledgement sent before, False if it does not answer."""
        return await self._ask_each(lambda subscription: subscription.flush())

    async def close(self) -> None:
        """End `run`, in order, and return when it has ended."""
        self._closed.set()
        async with self._runs:
            return

    async def open_road(self, url: str, heartbeat: timedelta) -> Road:
        """Connect; errors as of `open_link`.  Another implementation of the broker differs in this alone."""
        return AmqpRoad(await open_link(url, "consumer", heartbeat=heartbeat))

    async def _session(self) -> None:
        """Serve all routes over one connection until it breaks, after isolating them if that is due."""
        if self._isolation.active:
            await self._isolated()
        async with self._open_road(self._routes) as road, asyncio.TaskGroup() as group:
            group.create_task(self._routes.each(partial(self._serve, road)))
            await road.lost()

    async def _isolated(self) -> None:
        """Serve each route over a connection of its own, one message at a time, until they may share one again."""
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self._routes.each(lambda one: supervise(partial(self._serve_alone, one))))
                await self._isolation.over()
                serving.cancel()

    async def _serve_alone(self, one: Served) -> None:
        """Serve a route over a connection of its own until that breaks, or the route is wanted no more."""
        async with self._open_road([one]) as road, asyncio.TaskGroup() as group:
            losing = group.create_task(road.lost())
            await self._serve(road, one)
            losing.cancel()

    @asynccontextmanager
    async def _open_road(self, routes: Iterable[Served]) -> AsyncGenerator[Road]:
        """Connect for the block; what comes in and cannot be decoded isolates the routes."""
        road = await self._road()
        try:
            with ungrouped():
                yield road
        except Undecodable as error:
            _log.warning("%s; what comes next is taken one by one", error)
            self._isolation.begin({one.route: one.prefetch for one in routes})
            raise
        finally:
            await road.close()

    async def _road(self) -> Road:
        try:
            road = await self.open_road(self._url, self._heartbeat)
        except PermissionDenied as error:
            if not self._connected_once:
                raise
            raise BrokerUnavailable(str(error)) from error
        self._connected_once = True
        return road

    async def _serve(self, road: Road, one: Served) -> None:
        """Consume one route until it is wanted no more, after waiting for it to be there; over a new channel if it is
        idle, or the broker has cancelled its consumer: the queue may be gone, or this process was too slow for it.
        """
        missing = (ChannelNotFoundEntity, ChannelAccessRefused, ChannelLockedResource, ConsumerCancelled)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(missing), wait=BACK_OFF, sleep=one.patience, reraise=True
        )
        async for attempt in retrying:
            with attempt:
                try:
                    while not (self._stopped.is_set() or one.gone):
                        await self._serve_once(road, one)
                except ConsumerCancelled:
                    attempt.retry_state.attempt_number = 1  # it was served: no part of the trouble before
                    raise

    async def _serve_once(self, road: Road, one: Served) -> None:
        generation, route = next(self._generations), one.route
        subscription = await road.subscription(Source.of(route, generation), self._receivers)
        # Before it is started: messages may arrive before the broker's answer is read.
        self._open[generation], self._served_by[generation] = subscription, one
        try:
            await self._adjust(subscription)
            self._note_served(route)
            await subscription.held()
        except ChannelAccessRefused as error:
            if one.required and route not in self._known:
                raise PermissionDenied(
                    f"{place(self._url)} may not read {route!r} ({error}); give it the right"
                ) from error
            self._note_missing(one, error)
            raise
        except (ChannelNotFoundEntity, ChannelLockedResource) as error:
            self._note_missing(one, error)
            raise
        finally:
            del self._open[generation], self._served_by[generation]

    def _note_served(self, route: str) -> None:
        self._known.add(route)
        if self._missing.pop(route, None) is not None:
            _log.info("route %r is there now, consuming it", route)

    def _note_missing(self, one: Served, error: Exception) -> None:
        if one.gone:
            return
        route = one.route
        said, self._missing[route] = route in self._missing, error
        if not said:
            _log.warning("route %r cannot be consumed yet (%s); trying again until it can", route, error)

    async def _adjust(self, subscription: RouteSubscription) -> None:
        """Consume or not, as it is wanted now; errors as of `RouteSubscription.start` and `stop`."""
        one = self._served_by[subscription.source.generation]
        async with one.adjusting:  # what is wanted may change while the broker is asked
            while (wanted := self._prefetch(one)) != subscription.prefetch:
                if subscription.prefetch:
                    await subscription.stop()  # a quorum queue takes another prefetch from a new consumer alone
                else:
                    await subscription.start(wanted)
            if one.gone:
                subscription.leave()

    def _prefetch(self, one: Served) -> int:
        """How many unsettled messages of a route are wanted now; 0: it is not consumed."""
        if self._stopped.is_set() or one.gone or one.route in self._held:
            return 0
        return 1 if self._isolation.active else one.prefetch

    async def _ask_each(self, ask: Callable[[RouteSubscription], Awaitable[None]]) -> bool:
        """Return whether there were subscriptions and the broker has answered each."""
        subscriptions = list(self._open.items())
        answered = bool(subscriptions)
        for generation, subscription in subscriptions:
            if generation not in self._open:
                continue  # ended while another one was asked
            try:
                await ask(subscription)
            except (BrokerUnavailable, ChannelClosed):
                answered = False
        return answered


def _unexpected(probe: Probe) -> None:
    raise ValueError(f"a probe came by {probe.route!r}, and this consumer was given nothing that takes one")
