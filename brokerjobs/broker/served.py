"""The routes that a consumer serves: they come, go and change their prefetch while it runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from brokerjobs.broker.codec import Source
from brokerjobs.broker.ungrouped import ungrouped

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from typing import Any


class Served:
    """One route from the moment in which it is wanted until it is not; wanted again later, it is another one."""

    def __init__(self, route: str, prefetch: int, *, required: bool) -> None:
        self.route = route
        self.required = required
        """Served from the start: that it may not be read is a mistake, and no later change of somebody's mind."""
        self.prefetch = prefetch
        self.gone = False
        self.adjusting = asyncio.Lock()
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """Cut short a wait for the route's queue: it may be there now, or be wanted no more."""
        self._poked.set()

    async def patience(self, seconds: float) -> None:
        """Wait before the queue is asked for again."""
        self._poked.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._poked.wait()
        except TimeoutError:
            pass


class ServedRoutes:
    """Which routes are served at this moment; iterating gives them."""

    def __init__(self, routes: Mapping[str, int]) -> None:
        """Begin with routes and their prefetches; raises as `change`."""
        _check(routes)
        self._served = {route: Served(route, prefetch, required=True) for route, prefetch in routes.items()}
        self._change = asyncio.Event()

    def __iter__(self) -> Iterator[Served]:
        return iter(tuple(self._served.values()))

    def change(self, routes: Mapping[str, int], *, required: bool) -> list[Served]:
        """Serve exactly these from now on, and return those that are served no more.

        Raises `ValueError` for what is no route or a prefetch below 1; then nothing is changed.
        """
        _check(routes)
        gone = [self._served.pop(route) for route in self._served.keys() - routes.keys()]
        for one in gone:
            one.gone = True
        for route, prefetch in routes.items():
            if (there := self._served.get(route)) is not None:
                there.prefetch = prefetch
            else:
                self._served[route] = Served(route, prefetch, required=required)
        for one in (*gone, *self._served.values()):
            one.poke()
        self._change.set()
        return gone

    async def each(self, serve: Callable[[Served], Coroutine[Any, Any, None]]) -> None:
        """Run `serve` of each route that is served, and of each that comes; ends with the first error only.

        One that returns is not served again.
        """
        begun: dict[Served, asyncio.Task[None]] = {}
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                while True:
                    self._change.clear()
                    begun = {one: task for one, task in begun.items() if not (task.done() and one.gone)}
                    for one in self:
                        if one not in begun:
                            begun[one] = group.create_task(serve(one))
                    await self._change.wait()


def _check(routes: Mapping[str, int]) -> None:
    for route, prefetch in routes.items():
        Source.of(route, 0)
        if prefetch < 1:
            raise ValueError(f"the prefetch of route {route!r} is {prefetch}, it must be at least 1")
