"""The attributes of spans and metrics: our own, and those of the semantic conventions that we use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Ours.
NAMESPACE: Final = "brokerjobs.namespace"
JOB_ID: Final = "brokerjobs.job.id"
JOB_TYPE: Final = "brokerjobs.job.type"
JOB_STATE: Final = "brokerjobs.job.state"
JOB_WAITING: Final = "brokerjobs.job.waiting"
QUEUE_NAME: Final = "brokerjobs.queue.name"
ATTEMPT_ID: Final = "brokerjobs.attempt.id"
ATTEMPT_NUMBER: Final = "brokerjobs.attempt.number"
ATTEMPT_LIMIT: Final = "brokerjobs.attempt.limit"
ATTEMPT_KIND: Final = "brokerjobs.attempt.kind"
FENCING_NUMBER: Final = "brokerjobs.fencing.number"
WORKER_ID: Final = "brokerjobs.worker.id"
WORKER_NAME: Final = "brokerjobs.worker.name"
WORKER_STATE: Final = "brokerjobs.worker.state"
POOL: Final = "brokerjobs.pool"
LEASE_DURATION: Final = "brokerjobs.lease.duration"
LEASE_RENEWALS: Final = "brokerjobs.lease.renewals"
LEASE_SMALLEST_MARGIN: Final = "brokerjobs.lease.margin.min"
QUEUE_DURATION: Final = "brokerjobs.queue.duration"
REDELIVERED: Final = "brokerjobs.redelivered"
NEEDS: Final = "brokerjobs.needs"
OUTCOME: Final = "brokerjobs.outcome"
REASON: Final = "brokerjobs.reason"
LATE: Final = "brokerjobs.late"
VERDICT: Final = "brokerjobs.verdict"
FAILURE_CLASS: Final = "brokerjobs.failure.class"
RETRY_DELAY: Final = "brokerjobs.retry.delay"
KEY_HASH: Final = "brokerjobs.key.hash"
LINK: Final = "brokerjobs.link"
RESULT: Final = "brokerjobs.result"
OPERATION: Final = "brokerjobs.ledger.operation"
SETTLEMENT: Final = "brokerjobs.settlement"
SERVICE: Final = "brokerjobs.service"

# Of the semantic conventions.
ERROR_TYPE: Final = "error.type"
SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION_NAME: Final = "messaging.destination.name"
DESTINATION_TEMPLATE: Final = "messaging.destination.template"
ROUTING_KEY: Final = "messaging.rabbitmq.destination.routing_key"
DELIVERY_TAG: Final = "messaging.rabbitmq.message.delivery_tag"
MESSAGE_ID: Final = "messaging.message.id"
BATCH_COUNT: Final = "messaging.batch.message_count"

RABBITMQ: Final = "rabbitmq"
"""The value of `messaging.system`."""
OTHER: Final = "other"
"""What a metric says in place of a value that is not among those it may have."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name, the type of its value, and what it says."""

    name: str
    kind: str
    meaning: str


ATTRIBUTES: Final = (
    Attribute(NAMESPACE, "string", "the namespace of the app"),
    Attribute(JOB_ID, "string", "the job; on every span about one job, and on their children in a handler"),
    Attribute(JOB_TYPE, "string", "the job type; on metrics `other` for a type that this process does not know"),
    Attribute(JOB_STATE, "string", "`queued`, `running` or `review`"),
    Attribute(JOB_WAITING, "string", "what a queued job waits for; absent for other states"),
    Attribute(QUEUE_NAME, "string", "the queue of the job type"),
    Attribute(ATTEMPT_ID, "string", "the attempt"),
    Attribute(ATTEMPT_NUMBER, "int", "1 for the first attempt; also on children of the attempt in a handler"),
    Attribute(ATTEMPT_LIMIT, "int", "how many attempts the job's terms allow"),
    Attribute(ATTEMPT_KIND, "string", "`first` or `retry`"),
    Attribute(FENCING_NUMBER, "int", "the fencing number of the attempt"),
    Attribute(WORKER_ID, "string", "the worker process, an id for each of its starts"),
    Attribute(WORKER_NAME, "string", "the worker's name"),
    Attribute(WORKER_STATE, "string", "`online`, `draining` or `lost`"),
    Attribute(POOL, "string", "where handlers run: `task`, `thread` or `process`"),
    Attribute(LEASE_DURATION, "double", "the lease, in seconds"),
    Attribute(LEASE_RENEWALS, "int", "how often the lease was renewed"),
    Attribute(LEASE_SMALLEST_MARGIN, "double", "the least time that was left at a renewal, in seconds"),
    Attribute(QUEUE_DURATION, "double", "seconds from when the job could be claimed to its claim"),
    Attribute(REDELIVERED, "boolean", "the broker had delivered the message before"),
    Attribute(NEEDS, "string[]", "what the job type needs of a worker, as it is declared; at most 16 needs"),
    Attribute(OUTCOME, "string", "how the attempt ended, see the table of outcomes"),
    Attribute(REASON, "string", "why: of a rejection, a release or a failed job"),
    Attribute(LATE, "boolean", "the report came after the lease had been given up; absent if it did not"),
    Attribute(VERDICT, "string", "what the ledger answered"),
    Attribute(FAILURE_CLASS, "string", "`temporary`, `invalid`, `policy`, `unsafe`, `deadline` or `exhausted`"),
    Attribute(RETRY_DELAY, "double", "seconds until the next try may begin"),
    Attribute(KEY_HASH, "string", "the beginning of the SHA-256 of the idempotency key; only if it is asked for"),
    Attribute(LINK, "string", "on a link: `creation`, `previous_attempt`, or `attempt` for the one that was given up"),
    Attribute(RESULT, "string", "how it went, see the metric"),
    Attribute(OPERATION, "string", "a call of the ledger: `submit`, `claim`, `start`, `renew`, `complete`, `fail` …"),
    Attribute(SETTLEMENT, "string", "`ack`, `reject`, or `lost`: the channel went before the acknowledgement"),
    Attribute(SERVICE, "string", "a service of the coordinator: `relay`, `reaper`, `scheduler` …"),
    Attribute(ERROR_TYPE, "string", "the type of the exception, or our reason in words; absent where nothing is wrong"),
    Attribute(SYSTEM, "string", "always `rabbitmq`"),
    Attribute(OPERATION_NAME, "string", "`create`, `send`, `process` or `ack`"),
    Attribute(OPERATION_TYPE, "string", "`create`, `send`, `process` or `settle`"),
    Attribute(DESTINATION_NAME, "string", "`exchange:routing key`, for consumers with the queue where it differs"),
    Attribute(DESTINATION_TEMPLATE, "string", "the job type, which is what spans are named by"),
    Attribute(ROUTING_KEY, "string", "the route"),
    Attribute(DELIVERY_TAG, "int", "the number of the delivery on its channel"),
    Attribute(MESSAGE_ID, "string", "the ticket of the delivery"),
    Attribute(BATCH_COUNT, "int", "how many messages a batch has; never on spans about one message"),
)
