"""How uploads speak to the ledger: by a worker, on its event loop, or by whoever waits in a thread or a process."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from brokerjobs.errors import BrokerjobsError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from brokerjobs.ledger.artifacts import Discarded, GivenUp, Ready, Staged, Upload, Uploaded

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 1.0


class StagingLedger(Protocol):
    """How a worker speaks to the ledger, on its event loop: what was asked goes on if nobody waits for it any more."""

    def stage(self, upload: Upload, /) -> asyncio.Future[Staged]:
        """Records an upload before its first byte."""
        ...

    def ready(self, uploaded: Uploaded, /) -> asyncio.Future[Ready]:
        """Says that it is whole."""
        ...

    def discard(self, given_up: GivenUp, /) -> asyncio.Future[Discarded]:
        """Says that it was given up."""
        ...


class BlockingLedger(Protocol):
    """The same for a thread, and for a process whose worker asks for it; each call waits for the ledger's answer."""

    def stage(self, upload: Upload, /) -> Staged:
        """Records an upload before its first byte."""
        ...

    def ready(self, uploaded: Uploaded, /) -> Ready:
        """Says that it is whole."""
        ...

    def discard(self, given_up: GivenUp, /) -> None:
        """Says that it was given up; waits about a second at most, what was said goes on."""
        ...


class Standing(Protocol):
    """The attempt as far as uploads look at it, from any thread."""

    def check(self) -> None:
        """Raises StopRequested if the handler is to stop, StaleAttempt if the lease is lost."""
        ...


class FromThreads:
    """A worker's StagingLedger for threads: a BlockingLedger."""

    def __init__(self, ledger: StagingLedger, loop: asyncio.AbstractEventLoop) -> None:
        self._ledger = ledger
        self._loop = loop
        self._pid = os.getpid()

    def stage(self, upload: Upload, /) -> Staged:
        """Waits for the ledger's answer."""
        return self._answer(partial(self._ledger.stage, upload))

    def ready(self, uploaded: Uploaded, /) -> Ready:
        """Waits for the ledger's answer."""
        return self._answer(partial(self._ledger.ready, uploaded))

    def discard(self, given_up: GivenUp, /) -> None:
        """Waits for a second at most."""

        async def said() -> None:
            answered, _ = await asyncio.wait({self._ledger.discard(given_up)}, timeout=_PATIENCE_SECONDS)
            for one in answered:
                one.result()

        self._run(said())

    def _answer(self, ask: Callable[[], asyncio.Future[T]]) -> T:
        async def answer() -> T:
            return await asyncio.shield(ask())

        return self._run(answer())

    def _run(self, asking: Coroutine[Any, Any, T]) -> T:
        if os.getpid() != self._pid:  # the loop does not run here: its answer would be waited for in vain
            asking.close()
            message = "a process that the handler has forked cannot stage artifacts; let the handler itself do it"
            raise BrokerjobsError(message)
        try:
            asked = asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # the loop is closed, with the worker
            asking.close()
            raise
        return asked.result()
