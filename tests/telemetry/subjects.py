"""Claims, deliveries and answers as the worker has them, always the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from brokerjobs.broker.protocol import Delivery
from brokerjobs.ledger.calls import Claimed, Reported
from brokerjobs.rules.failures import Failure, FailureClass
from brokerjobs.telemetry.attempts import AttemptSpans, Topology

JOB = UUID("01990000-0000-7000-8000-00000000000a")
ATTEMPTS = {number: UUID(f"01990000-0000-7000-8000-0000000000b{number}") for number in range(1, 6)}
TICKET = UUID("01990000-0000-7000-8000-00000000000c")
FAILURE = Failure(
    failure_class=FailureClass.TEMPORARY, classified=True, error_type="ConnectError", message="the bank is away"
)
SUBMITTED = "00-{0:032x}-{0:016x}-{1:02x}"


def traceparent(number: int, flags: int = 1) -> str:
    return SUBMITTED.format(number, flags)


def claim(number: int = 1, creation: str | None = None) -> Claimed:
    return Claimed(
        job_id=JOB,
        attempt_id=ATTEMPTS[number],
        verdict="granted",
        state="running",
        until=None,
        number=number,
        fencing_number=1_700_000_000_000 + number,
        lease_seconds=30.0,
        time_limit_seconds=600.0,
        repeatable=True,
        checked=True,
        type="payment.charge",
        payload='{"cents": 4711}',
        key="order-991",
        submitted_by="orders",
        tags={},
        deadline=None,
        traceparent=creation,
        needs=None,
        opened=None,
    )


def delivery(*, redelivered: bool = False) -> Delivery:
    return Delivery(TICKET, JOB, "payments", "payments.q.default", redelivered, 1, 7, 0.0, datetime.now(UTC))


def answer(number: int, verdict: str, state: str, *, reason: str | None = None, late: bool = False) -> Reported:
    return Reported(JOB, ATTEMPTS[number], verdict, reason, late, state, None, None)


def worker(name: str = "worker-a", topology: Topology = Topology.AUTO) -> AttemptSpans:
    return AttemptSpans("payments", f"id of {name}", name, topology, timedelta(seconds=60))
