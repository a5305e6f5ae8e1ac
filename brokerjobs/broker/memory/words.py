"""What a link asks of the broker in memory, what it is answered, and what it is told unasked."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Exchange, Queue

if TYPE_CHECKING:
    from brokerjobs.broker.protocol import Outgoing

VERSION = 1


class _Word(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class Letter(_Word):
    """A message as it was published."""

    exchange: str
    routing_key: str
    message_id: UUID
    type: str
    body: bytes
    traceparent: str | None

    @classmethod
    def of(cls, message: Outgoing) -> Letter:
        """Return what `message` is here."""
        return cls(
            exchange=message.exchange,
            routing_key=message.routing_key,
            message_id=message.message_id,
            type=message.type,
            body=message.body,
            traceparent=message.traceparent,
        )


class Fate(StrEnum):
    """What becomes of a message that was confirmed."""

    KEEP = "keep"
    DROP = "drop"
    REPEAT = "repeat"
    HOLD = "hold"
    """Put into its queue later than others that came after it."""


# Requests


class Hello(_Word):
    """The first request over a socket: who speaks, and how often it says that it is there (seconds, 0: never)."""

    word: Literal["hello"] = "hello"
    version: int
    heartbeat: Annotated[float, Field(ge=0, le=3600)]


class DeclareExchange(_Word):
    """Make an exchange, or say how the one that is there differs."""

    word: Literal["declare_exchange"] = "declare_exchange"
    exchange: Exchange


class DeclareQueue(_Word):
    """Make a queue and bind it, or say how the one that is there differs."""

    word: Literal["declare_queue"] = "declare_queue"
    queue: Queue


class Delete(_Word):
    """Delete a queue, with what is in it, or an exchange."""

    word: Literal["delete"] = "delete"
    kind: Literal["queue", "exchange"]
    name: str


class Count(_Word):
    """How many messages of a queue are with no consumer."""

    word: Literal["count"] = "count"
    queue: str


class Publish(_Word):
    """Route a message."""

    word: Literal["publish"] = "publish"
    letter: Letter


class Subscribe(_Word):
    """Consume a queue, at most `prefetch` unsettled messages; `number` is new on the link."""

    word: Literal["subscribe"] = "subscribe"
    number: int
    queue: str
    prefetch: Annotated[int, Field(ge=1)]


class Unsubscribe(_Word):
    """Consume no more; what was received can still be settled."""

    word: Literal["unsubscribe"] = "unsubscribe"
    number: int


class Settle(_Word):
    """Acknowledge some messages and reject others; the one request without an answer."""

    word: Literal["settle"] = "settle"
    number: int
    acked: tuple[int, ...] = ()
    rejected: tuple[int, ...] = ()


class Flush(_Word):
    """Answer when everything before has been done."""

    word: Literal["flush"] = "flush"


class Misbehave(_Word):
    """What becomes of the next messages, in the order of their arrival."""

    word: Literal["misbehave"] = "misbehave"
    fates: tuple[Fate, ...]
    seed: int = 0


SetupRequest: TypeAlias = Hello | DeclareExchange | DeclareQueue | Delete | Count | Flush | Misbehave
Request: TypeAlias = SetupRequest | Publish | Subscribe | Unsubscribe | Settle


# Answers


class Done(_Word):
    """It is so now."""

    word: Literal["done"] = "done"


class Published(_Word):
    """What became of a message; `trouble` are words if it was not confirmed."""

    word: Literal["published"] = "published"
    outcome: PublishOutcome
    trouble: str = ""


class Counted(_Word):
    """How many messages; None if there is no such queue."""

    word: Literal["counted"] = "counted"
    count: int | None


class Missing(_Word):
    """There is no such queue."""

    word: Literal["missing"] = "missing"
    queue: str


class Differs(_Word):
    """What is there has another argument."""

    word: Literal["differs"] = "differs"
    name: str
    argument: str
    existing: str | int | None
    wanted: str | int | None


class Gone(_Word):
    """No answer: the link has ended."""

    word: Literal["gone"] = "gone"
    reason: str


Answer: TypeAlias = Done | Published | Counted | Missing | Differs | Gone


# Events


class Delivered(_Word):
    """A message for a subscription."""

    word: Literal["delivered"] = "delivered"
    number: int
    tag: int
    redelivered: bool
    letter: Letter


class Cancelled(_Word):
    """A subscription that the broker has ended."""

    word: Literal["cancelled"] = "cancelled"
    number: int
    reason: str


Event: TypeAlias = Delivered | Cancelled

REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="word")])
REPLIES: TypeAdapter[Answer | Event] = TypeAdapter(Annotated[Answer | Event, Field(discriminator="word")])
