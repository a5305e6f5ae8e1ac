"""What a handler is given beside its payload: facts of its job, its fence, and its transactions."""

from __future__ import annotations

import asyncio
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from brokerjobs.artifacts.staging import Artifacts, ThreadArtifacts
from brokerjobs.artifacts.staging_ledger import FromThreads
from brokerjobs.artifacts.store import lazily
from brokerjobs.effects import transaction as fenced
from brokerjobs.effects.external import Effects
from brokerjobs.effects.wanted import wanted
from brokerjobs.errors import StaleAttempt, StopRequested
from brokerjobs.worker.facts import AttemptFacts
from brokerjobs.worker.uploads import AttemptUploads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from datetime import datetime
    from uuid import UUID

    from brokerjobs.artifacts.locations import StoreOptions
    from brokerjobs.context import EffectOptions
    from brokerjobs.effects.external import Reports
    from brokerjobs.ledger.lending import Lending, SyncTransaction, Transaction
    from brokerjobs.worker.attempt import Attempt
    from brokerjobs.worker.uploads import Uploads


class Doors:
    """By what handlers of this process reach the ledger and the store of artifacts."""

    def __init__(self, lending: Lending, reports: Reports, uploads: Uploads, artifacts: StoreOptions) -> None:
        self.lending = lending
        self.reports = reports
        self.uploads = uploads
        self.store = lazily(artifacts)
        """Makes the store when the first artifact is staged; raises ConfigurationError."""


class _Facts:
    """What both contexts say of the job."""

    def __init__(self, attempt: Attempt, doors: Doors) -> None:
        claimed = attempt.claimed
        self._attempt = attempt
        self._doors = doors
        self.place = fenced.Place(attempt.holding, attempt.job_type)
        self.job_id: UUID = claimed.job_id
        self.key: str | None = claimed.key
        self.tags: Mapping[str, str] = MappingProxyType(claimed.tags)
        self.submitted_by: str = claimed.submitted_by
        self.deadline: datetime | None = claimed.deadline
        self.attempt = AttemptFacts(claimed.attempt_id, claimed.number, claimed.fencing_number)
        self._uploads: AttemptUploads | None = None
        self._loop = asyncio.get_running_loop()
        self._effects = Effects(attempt.holding, claimed.type, doors.reports, self, lease_seconds=attempt.lease_seconds)

    def is_trusted(self) -> bool:
        """May the lease still be trusted?"""
        return self._attempt.is_trusted()

    def renewed(self, sent_at: float, answered_at: float, lease_seconds: float) -> None:
        """An effect had the lease lengthened."""
        self._attempt.renewed(sent_at, answered_at, lease_seconds)

    def _own_uploads(self) -> AttemptUploads:
        self._uploads = self._uploads or AttemptUploads(self._attempt.holding, self._doors.uploads)
        return self._uploads

    def over(self) -> None:
        """Its attempt has ended: what is still uploaded for it becomes no artifact any more."""
        if self._uploads is not None:
            self._uploads.end("its attempt has ended")

    def check(self) -> None:
        """Raises StopRequested if the handler is to stop, StaleAttempt if the lease is lost."""
        if (why := self._attempt.stop) is not None:
            raise StopRequested(job_id=self.job_id, attempt_id=self.attempt.id, reason=why.value)
        if not self._attempt.is_trusted():
            raise StaleAttempt(
                job_id=self.job_id,
                attempt_id=self.attempt.id,
                fencing_number=self.attempt.fencing_number,
                reason="lease_expired",
            )


class HandlerContext(_Facts):
    """The context of async handlers (brokerjobs.context.JobContext)."""

    @cached_property
    def artifacts(self) -> Artifacts:
        """Stages artifacts."""
        return Artifacts(self._attempt.holding, self._doors.store, self._own_uploads(), self)

    def transaction(self, *, complete: bool = True) -> AbstractAsyncContextManager[Transaction]:
        """Opens a fenced transaction on a connection of ours."""
        return fenced.transaction(self.place, self._doors.lending, completing=complete)

    async def fence(self, *, within: object) -> None:
        """Requires that the attempt is running, as the last statement of the caller's transaction."""
        await fenced.fence(self.place, within=within)

    async def complete(self, result: object, *, within: object) -> None:
        """Records the result as the last statement of the caller's transaction."""
        await fenced.complete(self.place, result, within=within)

    async def effect(
        self, name: str, call: Callable[..., Any], *, returns: Any, **options: Unpack[EffectOptions]
    ) -> Any:
        """Does something outside the ledger once, and answers what it returned."""
        return await self._effects.run(name, call, wanted(name, returns, options))


class ThreadContext(_Facts):
    """The context of sync handlers (brokerjobs.context.SyncJobContext)."""

    @cached_property
    def artifacts(self) -> ThreadArtifacts:
        """Stages artifacts."""
        ledger = FromThreads(self._own_uploads(), self._loop)
        return ThreadArtifacts(self._attempt.holding, self._doors.store, ledger, self, self._loop)

    def transaction(self, *, complete: bool = True) -> AbstractContextManager[SyncTransaction]:
        """Opens a fenced transaction on a connection of ours."""
        return fenced.sync_transaction(self.place, self._doors.lending, completing=complete)

    def fence(self, *, within: object) -> None:
        """Requires that the attempt is running, as the last statement of the caller's transaction."""
        fenced.sync_fence(self.place, within=within)

    def complete(self, result: object, *, within: object) -> None:
        """Records the result as the last statement of the caller's transaction."""
        fenced.sync_complete(self.place, result, within=within)

    def effect(self, name: str, call: Callable[..., Any], *, returns: Any, **options: Unpack[EffectOptions]) -> Any:
        """Does something outside the ledger once, and answers what it returned."""
        return self._effects.run_in_thread(name, call, wanted(name, returns, options), self._loop)
