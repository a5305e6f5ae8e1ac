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
import re
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from uuid_utils.compat import uuid7

from brokerjobs.artifact import Artifact
from brokerjobs.artifacts.sources import Reading, opened
from brokerjobs.artifacts.transfers import Stop, in_thread, slots
from brokerjobs.errors import ArtifactNameUsed, BrokerjobsError, InvalidArtifact, StaleAttempt
from brokerjobs.ledger.artifacts import GivenUp, Upload, Uploaded
from brokerjobs.rules import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from brokerjobs.artifacts.sources import Chunk, Source
    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.ledger.artifacts import Discarded, Ready, Staged
    from brokerjobs.ledger.calls import Holding

T = TypeVar("T")

log = logging.getLogger("brokerjobs.worker")

NAME_LIMIT: Final = 1_000
_CONTENT_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}(?:;[\x20-\x7e]{0,200})?")
_LONGEST_KEEP: Final = timedelta(days=3650)
_WHY_LIMIT: Final = 500
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
        try:
            asked = asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # the loop is closed, with the worker
            asking.close()
            raise
        return asked.result()


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
        with slots.taken(stop), opened(wanted.source, reading) as pieces:
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
            with suppress(StaleAttempt):
                self._standing.check()
            yield piece

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


class Wanted:
    """What a handler wants to stage."""

    def __init__(
        self, name: str, source: Source, content_type: str | None = None, keep_for: timedelta | None = None
    ) -> None:
        self.name = name
        self.source = source
        self.content_type = content_type
        self.keep_for = keep_for

    def check(self) -> None:
        """Raises InvalidArtifact for what the ledger could not record."""
        if problem := _name_problem(self.name) or self._other_problem():
            raise InvalidArtifact(name=texts.first_part(str(self.name), 200), problem=problem)

    def _other_problem(self) -> str | None:
        if self.content_type is not None and not _is_content_type(self.content_type):
            return f"its content type {texts.shown(self.content_type)} is not like text/csv"
        if self.keep_for is not None and not _is_time_to_keep(self.keep_for):
            return f"keep_for={texts.shown(self.keep_for)} is no timedelta between 0 and {_LONGEST_KEEP.days} days"
        return None


def _name_problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"its name is a {type(name).__name__}, not a str"
    if not 0 < len(name) <= NAME_LIMIT:
        return f"its name has {len(name)} characters, not 1 to {NAME_LIMIT}"
    stored = texts.storable(name)
    if stored == name:
        return None
    at = next(index for index, (one, other) in enumerate(zip(name, stored, strict=True)) if one != other)
    return f"its name has U+{ord(name[at]):04X} at position {at}, which PostgreSQL does not store; replace it"


def _is_content_type(value: object) -> bool:
    return isinstance(value, str) and _CONTENT_TYPE.fullmatch(value) is not None


def _is_time_to_keep(value: object) -> bool:
    return isinstance(value, timedelta) and timedelta() < value <= _LONGEST_KEEP
