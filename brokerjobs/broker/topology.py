"""The exchanges and queues that a namespace needs, as data, and how they are declared.

Only `setup` and the coordinator declare; producers and workers need no *configure* right.  Arguments are part of the
declaration and not of a policy, so that the broker itself refuses a queue that has others.  There is no
`x-consumer-timeout` among them: RabbitMQ ignores it before 3.12 and compares it from 4.3, so a queue could not be
declared again after an upgrade (rabbit_quorum_queue.erl).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from aiormq.exceptions import ChannelAccessRefused, ChannelClosed, ChannelLockedResource, ChannelPreconditionFailed

from brokerjobs.broker import names
from brokerjobs.broker.connection import linked, place
from brokerjobs.errors import PermissionDenied, TopologyMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aiormq import Channel

    from brokerjobs.broker.connection import Link

QueueType: TypeAlias = Literal["quorum", "classic"]

# Nobody is obliged to read dead letters and quarantine, and they must not raise the disk alarm.
_KEPT_FOR = timedelta(days=7)
_KEPT_MESSAGES = 100_000
_INEQUIVALENT = re.compile(
    r"inequivalent arg '(?P<argument>[^']+)' for (?:queue|exchange) '.*' in vhost '.*': "
    r"received (?P<wanted>.+?) but current is (?P<existing>.+)",
    re.DOTALL,
)
# `'20'`, `the value '20' of type 'signedint'`, or `none`
_VALUE = re.compile(r"(?:the value )?'(?P<value>.*?)'(?: of type '\w+')?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One durable exchange."""

    name: str
    kind: Literal["direct", "topic", "fanout"]


@dataclass(frozen=True, slots=True)
class Queue:
    """One durable queue and what it is bound to."""

    name: str
    arguments: dict[str, str | int]
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Topology:
    """What shall exist at the broker: all of `namespaces`, and `routes` with their namespaces."""

    namespaces: frozenset[str] = frozenset()
    routes: frozenset[str] = frozenset()
    queue_type: QueueType = "quorum"
    delivery_limit: int = 20
    """Deliveries after which a message goes to quarantine (one more than this); quorum queues only."""

    def exchanges(self) -> Iterator[Exchange]:
        """Yield the exchanges; raises `ValueError` for what is no route."""
        for namespace in sorted(self.namespaces.union(map(names.namespace_of, self.routes))):
            yield Exchange(names.jobs_exchange(namespace), "direct")
            yield Exchange(names.dead_exchange(namespace), "topic")
            yield Exchange(names.quarantine_exchange(namespace), "fanout")

    def queues(self) -> Iterator[Queue]:
        """Yield the queues, those that keep what went wrong before those that may send to them."""
        for namespace in sorted(self.namespaces.union(map(names.namespace_of, self.routes))):
            yield Queue(names.dead_queue(namespace), self._keeping(), names.dead_exchange(namespace), "#")
            yield Queue(names.quarantine_queue(namespace), self._keeping(), names.quarantine_exchange(namespace), "")
        for route in sorted(self.routes):
            namespace = names.namespace_of(route)
            yield Queue(route, self._serving(namespace), names.jobs_exchange(namespace), route)

    def _keeping(self) -> dict[str, str | int]:
        return {
            "x-queue-type": self.queue_type,
            "x-message-ttl": int(_KEPT_FOR.total_seconds() * 1000),
            "x-max-length": _KEPT_MESSAGES,
            "x-overflow": "drop-head",
        }

    def _serving(self, namespace: str) -> dict[str, str | int]:
        arguments: dict[str, str | int] = {
            "x-queue-type": self.queue_type,
            "x-dead-letter-exchange": names.quarantine_exchange(namespace),
        }
        if self.queue_type == "quorum":
            # Classic queues refuse it, and count nothing.
            arguments["x-delivery-limit"] = self.delivery_limit
        return arguments


async def declare(url: str, topology: Topology) -> None:
    """Make what is missing, and change nothing that is there.

    Everything that can be declared is, before an error is raised: `TopologyMismatch` for what exists with other
    arguments, `PermissionDenied` for what the login may not declare; several as an `ExceptionGroup` (`except*` takes
    both).  `ValueError` for what is no route, and errors as of `open_link`.
    """
    things: list[Exchange | Queue] = [*topology.exchanges(), *topology.queues()]
    errors: list[TopologyMismatch | PermissionDenied] = []
    async with linked(url, "setup") as link:
        channel = await link.channel()
        for wanted in things:
            try:
                await _declare(link, channel, wanted)
            except (ChannelPreconditionFailed, ChannelAccessRefused, ChannelLockedResource) as error:
                errors.append(_told(url, wanted.name, error))
                # The broker answers a refusal by closing the channel.
                channel = await link.channel()
    together(errors)


def together(errors: Sequence[TopologyMismatch | PermissionDenied]) -> None:
    """Raise what declaring found, several as an `ExceptionGroup`."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup("the broker differs from what is wanted", errors)


async def _declare(link: Link, channel: Channel, wanted: Exchange | Queue) -> None:
    match wanted:
        case Exchange():
            await link.answer(channel.exchange_declare(wanted.name, exchange_type=wanted.kind, durable=True))
        case Queue():
            await link.answer(channel.queue_declare(wanted.name, durable=True, arguments=dict(wanted.arguments)))
            await link.answer(channel.queue_bind(wanted.name, wanted.exchange, wanted.routing_key))


def _told(url: str, name: str, error: ChannelClosed) -> TopologyMismatch | PermissionDenied:
    if isinstance(error, ChannelPreconditionFailed):
        return mismatch(name, str(error))
    if isinstance(error, ChannelLockedResource):
        return TopologyMismatch(queue=name, argument="exclusive", existing=True, wanted=False)
    return PermissionDenied(f"{place(url)} may not declare {name!r} ({error}); give it the right")


def mismatch(name: str, reply: str) -> TopologyMismatch:
    """Return the error that the broker's reply text to a declaration means."""
    found = _INEQUIVALENT.search(reply)
    if found is None:
        return TopologyMismatch(queue=name, argument="an argument", existing=reply, wanted="as declared")
    return TopologyMismatch(
        queue=name,
        argument=found["argument"],
        existing=_value(found["existing"]),
        wanted=_value(found["wanted"]),
    )


def _value(text: str) -> str | int | None:
    """Return the value that the broker's words say; None for `none`."""
    found = _VALUE.fullmatch(text.strip())
    if found is None:
        return None if text.strip() == "none" else text.strip()
    value = found["value"]
    return int(value) if value.isdecimal() else value
