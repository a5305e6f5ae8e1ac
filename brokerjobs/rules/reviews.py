"""What is said when a review opens, by whichever process opened it: one event name for logs and for who counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from uuid import UUID

OPENED: Final = "review_opened"
"""The ledger's event, and the `event` of the log record."""


def opened(job_id: UUID, cause: str) -> tuple[str, dict[str, Any]]:
    """The message and the `extra` of the log record: which job, why, and the command to type."""
    message = f"{OPENED}: job {job_id}: {cause}; its outcome is unknown, see: brokerjobs review show {job_id}"
    return message, {"event": OPENED, "job_id": str(job_id), "cause": cause}
