"""Group commit: whatever waits when the connection is free goes in the next call.

There are no timers: under load batches grow by themselves, an idle ledger answers one row at once.  A batch is bounded
by rows and bytes.  A row that the ledger answers `locked` goes into the next batch.  A batch that fails with a data
error is halved until the culprit stands alone; only it fails.  While the ledger gives no answer the same batch, with
the same ids, is asked again (rule R7).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger.database import DataRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

log = logging.getLogger("brokerjobs.ledger")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

MAX_ROWS: Final = 200
MAX_BYTES: Final = 1024 * 1024
_LOCKED_PAUSE_SECONDS: Final = 0.01  # between batches in which every row was busy
_FIRST_PAUSE_SECONDS: Final = 0.05  # while the ledger is away: doubling with jitter, at most two seconds
_LONGEST_PAUSE_SECONDS: Final = 2.0


class GroupCommit(Generic[Item, Answer]):
    """Gathers items for one ledger function; `run` is its loop and must be running for `ask` to be answered."""

    def __init__(
        self,
        call: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        is_locked: Callable[[Answer], bool],
        size: Callable[[Item], int] = lambda _: 0,
        max_rows: int = MAX_ROWS,
    ) -> None:
        self._call = call
        self._is_locked = is_locked
        self._size = size
        self._max_rows = max_rows
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, item: Item) -> asyncio.Future[Answer]:
        """Queues an item; the future gets the ledger's answer, or the error that is this item's own."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._some.set()
        return future

    async def run(self) -> None:
        """Calls the ledger while anything waits; ends only when it is cancelled."""
        while True:
            await self._some.wait()
            batch = self._next_batch()
            locked = await self._answer(batch)
            self._waiting.extendleft(reversed(locked))
            if not self._waiting:
                self._some.clear()
            elif len(locked) == len(batch):
                await asyncio.sleep(_LOCKED_PAUSE_SECONDS)

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        total = 0
        while self._waiting and len(batch) < self._max_rows:
            item, future = self._waiting[0]
            total += self._size(item)
            if batch and total > MAX_BYTES:
                break
            self._waiting.popleft()
            if not future.done():  # its asker gave up
                batch.append((item, future))
        return batch

    async def _answer(
        self, batch: list[tuple[Item, asyncio.Future[Answer]]]
    ) -> list[tuple[Item, asyncio.Future[Answer]]]:
        """Asks for a batch, and answers the rows that were busy."""
        if not batch:
            return []
        try:
            answers = await self._ask_until_answered([item for item, _ in batch])
        except DataRefused as error:
            if len(batch) > 1:
                half = len(batch) // 2
                return [*await self._answer(batch[:half]), *await self._answer(batch[half:])]
            _settle(batch[0][1], error)
            return []
        except Exception as error:  # noqa: BLE001  # not ours to interpret: every asker of the batch is told
            for _, future in batch:
                _settle(future, error)
            return []
        locked: list[tuple[Item, asyncio.Future[Answer]]] = []
        for (item, future), answer in zip(batch, answers, strict=True):
            if self._is_locked(answer):
                locked.append((item, future))
            elif not future.done():
                future.set_result(answer)
        return locked

    async def _ask_until_answered(self, items: Sequence[Item]) -> Sequence[Answer]:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._call(items)
            except LedgerUnavailable as error:
                log.warning("ledger unavailable, asking again with the same ids: %s", error)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _settle(future: asyncio.Future[Answer], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
