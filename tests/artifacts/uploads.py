"""How tests stage: by the calls of a real ledger, some of which are made to fail."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerjobs.ledger import artifacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.ledger.artifacts import Discarded, GivenUp, Ready, Staged, StagedArtifact, Upload, Uploaded
    from tests.ledger.ledger_driver import Ledger


@dataclass
class Calls:
    """A BlockingLedger on the worker's login; `before` sees each call's name, and what it raises is the call's."""

    ledger: Ledger
    before: Callable[[str], object] = lambda _: None
    said: list[str] = field(default_factory=list[str])
    uploads: list[Upload] = field(default_factory=list["Upload"])
    why: list[str] = field(default_factory=list[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)  # a connection is for one call at a time

    def stage(self, upload: Upload, /) -> Staged:
        with self._lock:
            self._begin("stage")
            self.uploads.append(upload)
            return self.ledger.worker.fetch(artifacts.artifact_stage([upload]))[0]

    def ready(self, uploaded: Uploaded, /) -> Ready:
        with self._lock:
            self._begin("ready")
            return self.ledger.worker.fetch(artifacts.artifact_ready([uploaded]))[0]

    def discard(self, given_up: GivenUp, /) -> None:
        self.discarded(given_up)

    def discarded(self, given_up: GivenUp, /) -> Discarded:
        with self._lock:
            self._begin("discard")
            self.why.append(given_up.why)
            return self.ledger.worker.fetch(artifacts.artifact_discard([given_up]))[0]

    def _begin(self, name: str) -> None:
        self.said.append(name)
        self.before(name)

    def shown(self) -> StagedArtifact:
        """The last upload as the ledger knows it."""
        with self._lock:
            (found,) = self.ledger.producer.fetch(artifacts.artifact(self.uploads[-1].id))
        return found


class OnLoop:
    """The same as a StagingLedger: answered beside the event loop, which goes on meanwhile."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._beside = ThreadPoolExecutor(1)

    def stage(self, upload: Upload, /) -> asyncio.Future[Staged]:
        return self._loop.run_in_executor(self._beside, self._calls.stage, upload)

    def ready(self, uploaded: Uploaded, /) -> asyncio.Future[Ready]:
        return self._loop.run_in_executor(self._beside, self._calls.ready, uploaded)

    def discard(self, given_up: GivenUp, /) -> asyncio.Future[Discarded]:
        return self._loop.run_in_executor(self._beside, self._calls.discarded, given_up)


class Standing:
    """An attempt that stands, until a test says otherwise."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def check(self) -> None:
        if self.error is not None:
            raise self.error
