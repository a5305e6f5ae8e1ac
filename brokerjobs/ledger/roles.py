"""Who may call which ledger function: no role has table rights, so this table is the whole surface."""

from __future__ import annotations

from typing import Final

PRODUCER: Final = "brokerjobs_producer"
WORKER: Final = "brokerjobs_worker"
COORDINATOR: Final = "brokerjobs_coordinator"
READER: Final = "brokerjobs_reader"
OPERATOR: Final = "brokerjobs_operator"

ROLES: Final = (PRODUCER, WORKER, COORDINATOR, READER, OPERATOR)

EVERYBODY: Final = frozenset({"schema_version", "status", "status_v1", "find", "doctor"})
LOOKS: Final = frozenset(
    {
        "record",
        "list",
        "list_jobs",
        "results",
        "outcomes",
        "review_list",
        "review_show",
        "dead_list",
        "dead_jobs",
        "dead_show",
        "overview",
        "types",
        "quarantine_list",
        "queued_jobs",
        "queues",
        "workers",
        "explain",
        "artifacts_v1",
        "artifact_v1",
        "list_artifacts",
        "list_orphans",
        "lease_history",
        "demand_v1",
    }
)
"""What people look at."""

GRANTS: Final[dict[str, frozenset[str]]] = {
    PRODUCER: EVERYBODY
    | {
        "submit",
        "submit_jobs",
        "submit_v1",
        "cancel",
        "cancel_v1",
        "outbox_done",
        "results",
        "outcomes",
        "record",
        "list",
        "list_jobs",
        "explain",
        "artifacts_v1",
        "artifact_v1",
        "list_artifacts",
        "acknowledge_artifact_v1",
        "artifact_mismatch_v1",
    },
    WORKER: EVERYBODY
    | {
        "claim",
        "claim_jobs",
        "start",
        "renew",
        "complete",
        "fail",
        "release",
        "asked",
        "acked",
        "attempt_spans",
        "traced_attempts",
        "hand_back",
        "fence_v1",
        "complete_v1",
        "register_types",
        "heartbeat",
        "beat",
        "sign_of_life",
        "worker_beat",
        "routes_of_types",
        "routes_standing",
        "quarantine",
        "probe_returned",
        "ended_otherwise",
        "standing",
        "effect_intent",
        "effect_outcome",
        "artifact_stage",
        "artifact_ready",
        "artifact_discard",
        "review_ask",
        "review_found",
        "review_opening",
    },
    COORDINATOR: EVERYBODY
    | {
        "expire",
        "traced_attempts",
        "due",
        "outbox_take",
        "outbox_messages",
        "outbox_done",
        "outbox_refused",
        "make_partitions",
        "routes_wanted",
        "routes_declared",
        "routes_refused",
        "lead",
        "heartbeat",
        "beat",
        "sign_of_life",
        "reconcile",
        "probe_sent",
        "retain_jobs",
        "retain_keys",
        "retain_evidence",
        "retain_events",
        "stretch_retries",
        "review_opening",
        "placement",
        "explained",
        "end_unplaceable",
        "wake_placement",
        "retire_routes",
        "routes_removed",
        "artifacts_to_remove",
        "artifacts_removed",
        "artifacts_known",
        "orphans_to_remove",
        "orphans_removed",
        "orphans_gone",
        "monitored",
    },
    READER: EVERYBODY | LOOKS,
    OPERATOR: EVERYBODY
    | LOOKS
    | {
        "cancel",
        "cancel_v1",
        "review_resolve",
        "dead_replay",
        "dead_discard",
        "adopt",
        "pause_type",
        "resume_type",
        "unpark",
        "pause_queue",
        "resume_queue",
        "unpark_queue",
        "cancel_queued",
        "acknowledge_artifact_v1",
        "artifact_mismatch_v1",
    },
}
"""Role to the functions that its members may execute (design of the ledger: SECURITY DEFINER, nothing else)."""
