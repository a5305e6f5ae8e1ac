"""What handlers say of their uploads goes to the ledger by group commit, and its answer comes back.

An answer that nobody waits for any more changes nothing: what was said goes on to the ledger all the same.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from brokerjobs.ledger import artifacts
from brokerjobs.ledger.group_commit import GroupCommit
from brokerjobs.rules.verdicts import ReadyVerdict, StageVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.ledger.database import AsyncLedgerConnection

Answer = TypeVar("Answer")

log = logging.getLogger("brokerjobs.worker")


class Uploads:
    """A group commit a question, on the reports connection; no row of it is ever answered `locked`."""

    def __init__(self, connection: AsyncLedgerConnection) -> None:
        async def stage(uploads: Sequence[artifacts.Upload]) -> Sequence[artifacts.Staged]:
            return await connection.fetch(artifacts.artifact_stage(uploads))

        async def ready(uploaded: Sequence[artifacts.Uploaded]) -> Sequence[artifacts.Ready]:
            return await connection.fetch(artifacts.artifact_ready(uploaded))

        async def discard(given_up: Sequence[artifacts.GivenUp]) -> Sequence[artifacts.Discarded]:
            return await connection.fetch(artifacts.artifact_discard(given_up))

        self.stage = GroupCommit(stage, is_locked=_never, size=lambda upload: len(upload.name))
        self.ready = GroupCommit(ready, is_locked=_never)
        self.discard = GroupCommit(discard, is_locked=_never)

    async def run(self) -> None:
        """Serves all of them until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for gathered in (self.stage, self.ready, self.discard):
                group.create_task(gathered.run())


class AttemptUploads:
    """The uploads of one attempt: what is asked for it, which of them are under way, and what becomes of those."""

    def __init__(self, holding: Holding, uploads: Uploads) -> None:
        self._holding = holding
        self._uploads = uploads
        self._under_way: set[UUID] = set()
        self._over: str | None = None

    def stage(self, upload: artifacts.Upload, /) -> asyncio.Future[artifacts.Staged]:
        """Records an upload before its first byte."""
        asked = self._uploads.stage.ask(upload)
        asked.add_done_callback(partial(_answered, self._staged))
        return asked

    def ready(self, uploaded: artifacts.Uploaded, /) -> asyncio.Future[artifacts.Ready]:
        """Says that it is whole."""
        asked = self._uploads.ready.ask(uploaded)
        asked.add_done_callback(partial(_answered, partial(self._said, uploaded)))
        return asked

    def discard(self, given_up: artifacts.GivenUp, /) -> asyncio.Future[artifacts.Discarded]:
        """Says that it was given up."""
        self._under_way.discard(given_up.id)
        said = self._uploads.discard.ask(given_up)
        said.add_done_callback(partial(_answered, _nothing))
        return said

    def end(self, why: str) -> None:
        """Gives up what is under way: nobody is left who could upload it."""
        self._over = why
        for one in [*self._under_way]:
            self.discard(artifacts.GivenUp(one, self._holding.attempt_id, why))

    def _staged(self, staged: artifacts.Staged) -> None:
        if staged.verdict != StageVerdict.STAGED:
            return
        self._under_way.add(staged.id)
        if self._over is not None:  # it ended while this was asked
            self.end(self._over)

    def _said(self, uploaded: artifacts.Uploaded, ready: artifacts.Ready) -> None:
        self._under_way.discard(uploaded.id)
        if ready.verdict == ReadyVerdict.READY:
            log.info(
                "job %s: artifact %s of attempt %s is ready: %d bytes, SHA-256 %s",
                self._holding.job_id,
                uploaded.id,
                uploaded.attempt_id,
                uploaded.size,
                uploaded.sha256,
            )


def _never(_: object) -> bool:
    return False


def _nothing(_: artifacts.Discarded) -> None:
    return


def _answered(then: Callable[[Answer], None], asked: asyncio.Future[Answer]) -> None:
    """Goes on with an answer; an error is its asker's, if one is left."""
    if not asked.cancelled() and asked.exception() is None:
        then(asked.result())
