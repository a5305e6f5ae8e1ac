"""The names of events: one vocabulary for the ledger's record, for spans, for logs and for the documentation."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Event(StrEnum):
    """What can happen to a job, to an attempt, or to a process; the first part is what the ledger records."""

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    RESULT_REFUSED = "result_refused"
    ATTEMPT_FAILED = "attempt_failed"
    ATTEMPT_RELEASED = "attempt_released"
    LATE_FAILED = "late_failed"
    LATE_RELEASED = "late_released"
    REPORT_REJECTED = "report_rejected"
    SECOND_REPORT = "second_report"
    ENDED_OTHERWISE = "ended_otherwise"
    LEASE_EXPIRED = "lease_expired"
    BECAME_DUE = "became_due"
    DEADLINE_PASSED = "deadline_passed"
    EXHAUSTED = "exhausted"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    REVIEW_OPENED = "review_opened"
    REVIEW_DECIDED = "review_decided"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    ADOPTED = "adopted"
    NO_HANDLER = "no_handler"
    NOT_QUALIFIED = "not_qualified"
    RESOURCE_BUSY = "resource_busy"
    RESOURCE_FREE = "resource_free"
    UNPLACEABLE = "unplaceable"
    PAUSED = "paused"
    RESUMED = "resumed"
    EFFECT_INTENT = "effect_intent"
    EFFECT_HAPPENED = "effect_happened"
    EFFECT_DID_NOT_HAPPEN = "effect_did_not_happen"
    EFFECT_UNKNOWN = "effect_unknown"
    EFFECT_CONTRADICTED = "effect_contradicted"
    EFFECT_NOT_BY_ONE = "effect_not_by_one"
    EFFECT_WITHOUT_INTENT = "effect_without_intent"
    EFFECT_SETTLED = "effect_settled"
    EFFECT_KNOWN = "effect_known"
    RECONCILER_UNKNOWN = "reconciler_unknown"
    RECONCILER_TOO_EARLY = "reconciler_too_early"
    RECONCILED = "reconciled"
    DUPLICATE_DELIVERY = "duplicate_delivery"
    HANDED_BACK = "handed_back"
    RUNG_AGAIN = "rung_again"
    # From here on: what a process sees and the ledger does not record.
    LEASE_LOST = "lease_lost"
    RENEWAL_FAILED = "renewal_failed"
    RENEWAL_LATE = "renewal_late"
    ACK_LOST = "ack_lost"
    STOP_TOLD = "stop_told"
    LATE_RESULT = "late_result"


LOCAL: Final = {
    Event.LEASE_LOST: "the ledger said that an attempt has lost its lease; its handler may finish and report",
    Event.RENEWAL_FAILED: "a renewal got no answer; it is tried again",
    Event.RENEWAL_LATE: "a renewal was answered after the lease had run out by the worker's own clock",
    Event.ACK_LOST: "the channel of a delivery went before its acknowledgement; the broker delivers it again",
    Event.STOP_TOLD: "a handler was told to stop: cancel, time limit, deadline or drain",
    Event.LATE_RESULT: "a handler that could not be stopped returned after its attempt had ended: kept as evidence",
}
"""Those that the ledger does not record, with when they happen."""
