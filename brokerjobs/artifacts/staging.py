"""`ctx.artifacts.put`: the ledger knows of an upload before its first byte, and of its hash after its last.

    look at name and source ─▶ ask to stage ──staged──▶ upload, hashing ──whole──▶ say that it is ready ─▶ Artifact
                                    ├──lost──▶ StaleAttempt       └──raised, stopped──▶ discard, raise
                                    └──name_used──▶ ArtifactNameUsed

Whatever the ledger was told and did not answer is asked again with the same ids (rule R7).  A cancelled handler stops
its upload; one in a thread or a process stops it when it is told to stop, at the next chunk.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from uuid_utils.compat import uuid7

from brokerjobs.artifact import Artifact
from brokerjobs.artifacts.sources import Reading, opened
from brokerjobs.artifacts.staging_ledger import BlockingLedger, FromThreads, StagingLedger, Standing
from brokerjobs.artifacts.transfers import Stop, in_thread, slots
from brokerjobs.artifacts.wanted import Wanted
from brokerjobs.errors import ArtifactNameUsed, BrokerjobsError, StaleAttempt
from brokerjobs.ledger.artifacts import GivenUp, Upload, Uploaded
from brokerjobs.rules import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from brokerjobs.artifacts.sources import Chunk, Hashing, Source
    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.artifacts.transfers import Room
    from brokerjobs.ledger.artifacts import Staged
    from brokerjobs.ledger.calls import Holding

__all__ = ["Artifacts", "BlockingLedger", "StagingLedger", "Standing", "ThreadArtifacts"]

log = logging.getLogger("brokerjobs.worker")

_WHY_LIMIT: Final = 500


class ThreadArtifacts:
    """`ctx.artifacts` of handlers in threads and processes: the calling thread reads the source and uploads.

    `store` is called when the first artifact is staged, and raises what making the store raises; `loop`, if there is
    one, is where async sources are read.
    """

    def __init__(
        self,
        holding: Holding,
        store: Callable[[], ArtifactStore],
        ledger: BlockingLedger,
        standing: Standing,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._holding = holding
        self._store = store
        self._ledger = ledger
        self._standing = standing
        self._loop = loop

    def put(
        self, name: str, source: Source, *, content_type: str | None = None, keep_for: timedelta | None = None
    ) -> Artifact:
        """Stages an artifact; see `brokerjobs.artifact_context`."""
        return self.stage(Wanted(name, source, content_type, keep_for), Stop())

    def stage(self, wanted: Wanted, stop: Stop) -> Artifact:
        """Stages an artifact; raises Stopped soon after `stop` was told, and has discarded it then."""
        wanted.check()
        self._standing.check()
        store = self._store()
        reading = Reading(wanted.name, store.max_size, stop, self._loop)
        with ExitStack() as stack:
            room = stack.enter_context(slots.taken(stop, self._look))
            pieces = stack.enter_context(opened(wanted.source, reading))
            # A source that never gives anything again takes no room from those that do.
            stack.enter_context(stop.calls(partial(_leave, room, pieces)))
            artifact_id = uuid7()
            upload = Upload(
                self._holding,
                artifact_id,
                wanted.name,
                wanted.content_type,
                store.public,
                (wanted.keep_for or store.keep).total_seconds(),
            )
            store.prepare()
            path = self._path(self._ledger.stage(upload), wanted.name)
            try:
                stop.check()
                store.put(path, self._watched(pieces))
                stop.check()
            except BaseException as error:
                self._discard(upload, error)
                raise
            self._say(Uploaded(artifact_id, self._holding.attempt_id, pieces.size, pieces.sha256), wanted.name)
        return Artifact(
            id=artifact_id,
            name=wanted.name,
            size=pieces.size,
            sha256=pieces.sha256,
            content_type=wanted.content_type,
        )

    def _watched(self, pieces: Iterator[Chunk]) -> Iterator[Chunk]:
        """Ends the upload of a handler that is to stop; one whose lease is lost may still be accepted, and goes on."""
        for piece in pieces:
            self._look()
            yield piece

    def _look(self) -> None:
        with suppress(StaleAttempt):
            self._standing.check()

    def _path(self, staged: Staged, name: str) -> str:
        match staged.verdict:
            case "staged" if staged.path is not None:
                return staged.path
            case "name_used":
                raise self._name_used(name)
            case verdict:
                raise self._stale(staged.reason or verdict)

    def _say(self, uploaded: Uploaded, name: str) -> None:
        match self._ledger.ready(uploaded).verdict:
            case "ready":
                pass
            case "name_used":
                raise self._name_used(name)
            case "discarded":  # by the sweeper, which takes what did not end in time and cannot be accepted any more
                raise self._stale("upload_discarded")
            case verdict:
                raise self._stale(verdict)

    def _discard(self, upload: Upload, error: BaseException) -> None:
        why = texts.first_part(f"{type(error).__name__}: {error}", _WHY_LIMIT)
        try:
            self._ledger.discard(GivenUp(upload.id, self._holding.attempt_id, why))
        except (BrokerjobsError, RuntimeError) as unsaid:  # the sweeper finds it by its age
            log.warning("job %s: artifact %s was given up, unsaid: %s", self._holding.job_id, upload.id, unsaid)

    def _name_used(self, name: str) -> ArtifactNameUsed:
        return ArtifactNameUsed(job_id=self._holding.job_id, attempt_id=self._holding.attempt_id, name=name)

    def _stale(self, reason: str) -> StaleAttempt:
        holding = self._holding
        return StaleAttempt(
            job_id=holding.job_id, attempt_id=holding.attempt_id, fencing_number=holding.fencing_number, reason=reason
        )


def _leave(room: Room, pieces: Hashing) -> None:
    if pieces.is_waiting:
        room.leave()


class Artifacts:
    """`ctx.artifacts` of async handlers, to be made on the event loop: a thread uploads meanwhile."""

    def __init__(
        self, holding: Holding, store: Callable[[], ArtifactStore], ledger: StagingLedger, standing: Standing
    ) -> None:
        loop = asyncio.get_running_loop()
        self._threads = ThreadArtifacts(holding, store, FromThreads(ledger, loop), standing, loop)

    async def put(
        self, name: str, source: Source, *, content_type: str | None = None, keep_for: timedelta | None = None
    ) -> Artifact:
        """Stages an artifact; see `brokerjobs.artifact_context`."""
        return await in_thread(partial(self._threads.stage, Wanted(name, source, content_type, keep_for)))
