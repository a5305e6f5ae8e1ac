"""What is said when a review opens, by whichever process opened it: one event name for logs and for who counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

OPENED: Final = "review_opened"
"""The ledger's event, and the `event` of the log record."""

_WORDS: Final = {"lease_expired": "lost its lease", "deadline_passed": "ran at its job's deadline"}


def tell(log: logging.Logger, opening: Mapping[str, Any] | None, cause: str | None = None) -> None:
    """Logs that a review opened, if one did: which, of which job and attempt, why, and the command to type.

    `opening` is what the ledger's `review_opening` answered to the step that opened it.  The record has these facts as
    fields, always the same.
    """
    if opening is None:
        return
    job, attempt, review = opening["job"], opening["attempt"], opening["review"]
    cause = cause or f"attempt {opening['number']} {_WORDS.get(opening['ended'], 'has ended')}"
    facts = {
        "event": OPENED,
        "review_id": review,
        "job_id": job,
        "attempt_id": attempt,
        "namespace": opening["namespace"],
        "job_type": opening["type"],
        "cause": cause,
    }
    log.warning(
        "%s job=%s attempt=%s review=%s type=%s/%s: %s; its outcome is unknown, see: brokerjobs review show %s",
        *(OPENED, job, attempt, review, opening["namespace"], opening["type"], cause, job),
        extra=facts,
    )
