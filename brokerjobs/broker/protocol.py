"""What the rest of brokerjobs knows of a broker: messages out, deliveries in, and the two ends that carry them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message to publish; `message_id` is its ticket and is never used for another message."""

    exchange: str
    routing_key: str
    message_id: UUID
    type: str
    body: bytes
    traceparent: str | None = None


class PublishOutcome(Enum):
    """What is known of a publish; only `CONFIRMED` says that the broker has the message in a queue."""

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    """The broker has it in no queue: nothing is bound to its routing key, or the queue took no more."""
    UNKNOWN = "unknown"
    """No answer within the time limit, or the channel went; the message may or may not have arrived."""


class Delivery(NamedTuple):
    """One doorbell as it arrived: job `job_id` can be claimed.

    There is one for every job, and a frozen dataclass would take twice the time to make.
    """

    ticket: UUID
    job_id: UUID
    namespace: str
    route: str
    redelivered: bool
    generation: int
    """Which opened channel it came by; it can be settled on that one only."""
    tag: int
    """Its number on that channel, counted from 1."""
    received: float
    """Seconds on this process's monotonic clock."""
    received_at: datetime
    """The worker's clock, UTC; decides nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A message of the ledger's own that came through the queue of a route: to be reported and acknowledged at once."""

    ticket: UUID
    route: str
    generation: int
    tag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A message on one of our routes that is not ours: `reason` says why, the digests which it was."""

    route: str
    reason: str
    ticket: UUID | None
    job_id: UUID | None
    headers_digest: str
    """SHA-256 (hex) of its properties."""
    body_digest: str
    """SHA-256 (hex) of the first MiB of its body."""
    generation: int
    tag: int


Settled = TypeVar("Settled", Delivery, Probe)


class Publisher(Protocol):
    """Sends messages and tells of each what is known of it."""

    async def publish(self, messages: Sequence[Outgoing]) -> list[PublishOutcome]:
        """Publish all, and return the outcomes in the same order; raises nothing for what happens at the broker."""
        ...

    async def close(self) -> None:
        """Give the connection back; what is published later is `UNKNOWN`."""
        ...


class Consumer(Protocol):
    """Receives deliveries of several routes, and settles them."""

    @property
    def consuming(self) -> frozenset[str]:
        """The routes from which messages can arrive at this moment; any thread may ask."""
        ...

    @property
    def missing(self) -> frozenset[str]:
        """The routes that the broker said it has no queue for, when it was last asked; any thread may ask."""
        ...

    async def run(self) -> None:
        """Receive, over as many connections as it takes, until `close` or cancellation."""
        ...

    def ack(self, deliveries: Sequence[Settled]) -> list[Settled]:
        """Send acknowledgements and return the deliveries that can have none, as their channel is gone (`ack_lost`)."""
        ...

    def reject(self, message: Delivery | Unreadable) -> bool:
        """Send the message to quarantine; False if its channel is gone, so that it will come again."""
        ...

    async def serve(self, routes: Mapping[str, int]) -> None:
        """Consume exactly these routes from now on, each with its prefetch; what was received before can be settled."""
        ...

    async def hold(self, routes: Collection[str]) -> None:
        """Consume these routes no more until they are left out of a later call; what was received can be settled."""
        ...

    async def stop_consuming(self) -> None:
        """Receive nothing more; what was received can still be settled."""
        ...

    async def flush(self) -> bool:
        """Return True once the broker has read every acknowledgement sent before, False if it does not answer."""
        ...

    async def close(self) -> None:
        """End `run`; the broker delivers again what was not settled."""
        ...
