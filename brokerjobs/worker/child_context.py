"""What a handler in a process is given beside its payload: facts of its job, and the artifacts that it stages."""

from __future__ import annotations

import time
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import UUID

from brokerjobs.errors import StaleAttempt, StopRequested
from brokerjobs.worker.facts import AttemptFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from brokerjobs.artifacts.staging import ThreadArtifacts
    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.worker.asking import Questions

_NOT_GIVEN: Final = frozenset({"transaction", "fence", "complete", "effect"})


class Running:
    """The request that is worked on, what is asked for it, and what the worker has said of it since."""

    def __init__(self, request: Mapping[str, Any], questions: Questions) -> None:
        self.request = request
        self.questions = questions
        self.trusted_until: float = request["trusted_until"]
        self.stop: str | None = None

    def heard(self, message: Mapping[str, Any]) -> None:
        """Takes what the worker says of this attempt."""
        if "question" in message:
            self.questions.answered(message)
        self.stop = message.get("stop", self.stop)
        self.trusted_until = message.get("trusted_until", self.trusted_until)


class ProcessContext:
    """The context of handlers in processes (brokerjobs.context.ProcessJobContext)."""

    def __init__(self, running: Running, store: Callable[[], ArtifactStore]) -> None:
        request = running.request
        self._running = running
        self._store = store
        self.job_id = UUID(request["job"])
        self.key: str | None = request["key"]
        self.tags: Mapping[str, str] = MappingProxyType(request["tags"])
        self.submitted_by: str = request["submitted_by"]
        deadline: str | None = request["deadline"]
        self.deadline = None if deadline is None else datetime.fromisoformat(deadline)
        self.attempt = AttemptFacts(UUID(request["attempt"]), request["number"], request["fencing_number"])

    @cached_property
    def artifacts(self) -> ThreadArtifacts:
        """Stages artifacts; uploads are made here, what the ledger says of them is asked of the worker."""
        # Only processes that stage something need the ledger's dataclasses, and the driver that comes with them.
        from brokerjobs.artifacts.staging import ThreadArtifacts  # noqa: PLC0415
        from brokerjobs.ledger.calls import Holding  # noqa: PLC0415
        from brokerjobs.worker.line_ledger import LineLedger  # noqa: PLC0415

        holding = Holding(self.job_id, self.attempt.id, self.attempt.fencing_number)
        return ThreadArtifacts(holding, self._store, LineLedger(self._running.questions), self)

    def check(self) -> None:
        """Raises StopRequested if the handler is to stop, StaleAttempt if the lease is lost."""
        if self._running.stop is not None:
            raise StopRequested(job_id=self.job_id, attempt_id=self.attempt.id, reason=self._running.stop)
        if time.monotonic() >= self._running.trusted_until:  # one clock for all processes of a machine
            raise StaleAttempt(
                job_id=self.job_id,
                attempt_id=self.attempt.id,
                fencing_number=self.attempt.fencing_number,
                reason="lease_expired",
            )

    def __getattr__(self, name: str) -> NoReturn:
        if name in _NOT_GIVEN:
            message = (
                f"ctx.{name} is not given to handlers of pool='process': the connections are the worker's; run the "
                "handler in a thread, or give ctx.attempt.fencing_number to a store that compares it"
            )
        else:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message)
