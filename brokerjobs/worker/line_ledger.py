"""The ledger as uploads of a process speak to it: its worker asks, by the line."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from brokerjobs.ledger.artifacts import Ready, Staged

if TYPE_CHECKING:
    from brokerjobs.ledger.artifacts import GivenUp, Upload, Uploaded
    from brokerjobs.worker.asking import Questions

_PATIENCE_SECONDS: Final = 1.0


class LineLedger:
    """For any thread of the process (brokerjobs.artifacts.staging_ledger.BlockingLedger)."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def stage(self, upload: Upload, /) -> Staged:
        """Records an upload before its first byte."""
        asked = {
            "id": str(upload.id),
            "name": upload.name,
            "content_type": upload.content_type,
            "store": upload.store,
            "keep_for": upload.keep_for_seconds,
        }
        said = self._questions.ask({"stage": asked})
        holding = upload.holding
        return Staged(holding.job_id, holding.attempt_id, upload.id, said["verdict"], said["reason"], said["path"])

    def ready(self, uploaded: Uploaded, /) -> Ready:
        """Says that it is whole."""
        said = self._questions.ask(
            {"ready": {"id": str(uploaded.id), "size": uploaded.size, "sha256": uploaded.sha256}}
        )
        return Ready(uploaded.id, said["verdict"])

    def discard(self, given_up: GivenUp, /) -> None:
        """Says that it was given up; waits for a second at most, what was said goes on."""
        with suppress(TimeoutError):
            self._questions.ask({"discard": {"id": str(given_up.id), "why": given_up.why}}, _PATIENCE_SECONDS)
