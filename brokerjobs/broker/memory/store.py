"""The broker: exchanges, queues, and the sessions of those that are linked to it.

Everything here happens at once and in order; there is no clock and no thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from brokerjobs.broker.memory.faults import Faults
from brokerjobs.broker.memory.queues import MemoryQueue, Subscriber
from brokerjobs.broker.memory.words import (
    VERSION,
    Cancelled,
    Count,
    Counted,
    DeclareExchange,
    DeclareQueue,
    Delete,
    Differs,
    Done,
    Flush,
    Hello,
    Misbehave,
    Missing,
    Publish,
    Published,
    Settle,
    Subscribe,
    Unsubscribe,
)
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brokerjobs.broker.memory.words import Answer, Event, Letter, Request, SetupRequest
    from brokerjobs.broker.topology import Exchange, Queue


class Misuse(Exception):
    """A link asked what no link of ours asks; it is ended, as RabbitMQ closes a channel."""


class MemoryBroker:
    """All messages there are; `faults` says what becomes of the next ones."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._exchanges: dict[str, Exchange] = {}
        self._queues: dict[str, MemoryQueue] = {}
        self._bindings: dict[tuple[str, str, str], None] = {}
        """Exchange, routing key and queue, in the order of their declaration."""
        self._sessions: set[Session] = set()
        self._stopped = False

    def session(self, hear: Callable[[Event], None], end: Callable[[str], None]) -> Session:
        """Begin a session: `hear` is called with each event, `end` with the reason if the broker ends it.

        Raises `BrokerUnavailable` while it is stopped.
        """
        if self._stopped:
            raise BrokerUnavailable("the in-memory broker is stopped")
        session = Session(self, hear, end)
        self._sessions.add(session)
        return session

    def end_sessions(self, reason: str = "the broker ended it") -> None:
        """End all sessions, as a broken network would."""
        for session in list(self._sessions):
            session.end(reason)

    def stop(self) -> None:
        """Forget everything and end all sessions, as the end of the process would; no new ones until `start`."""
        self._stopped = True
        self.end_sessions("the broker has ended")
        self._exchanges.clear()
        self._queues.clear()
        self._bindings.clear()
        self.faults.forget()

    def start(self) -> None:
        """Take sessions again, with nothing in it."""
        self._stopped = False

    def leave(self, session: Session) -> None:
        """Count a session no more."""
        self._sessions.discard(session)

    def queue(self, name: str) -> MemoryQueue | None:
        """Return the queue of this name, None if there is none."""
        return self._queues.get(name)

    def publish(self, letter: Letter) -> Published:
        """Route a message as a mandatory one."""
        if letter.exchange and letter.exchange not in self._exchanges:
            return Published(outcome=PublishOutcome.UNKNOWN, trouble=f"no exchange {letter.exchange!r}")
        queues = list(self._routed(letter.exchange, letter.routing_key))
        if not queues:
            return Published(outcome=PublishOutcome.REFUSED, trouble=f"no queue for {letter.routing_key!r}")
        self.faults.befall(partial(_put, queues, letter))
        return Published(outcome=PublishOutcome.CONFIRMED)

    def answer(self, request: SetupRequest) -> Answer:
        """Do what is asked of the broker as a whole; raises `Misuse`."""
        match request:
            case DeclareExchange():
                return self._declare_exchange(request.exchange)
            case DeclareQueue():
                return self._declare_queue(request.queue)
            case Delete(kind="queue"):
                self._delete_queue(request.name)
            case Delete():
                self._delete_exchange(request.name)
            case Count():
                queue = self._queues.get(request.queue)
                return Counted(count=None if queue is None else len(queue))
            case Misbehave():
                self.faults.plan(request.fates, request.seed)
            case Hello() if request.version != VERSION:
                raise Misuse(f"version {request.version} is spoken there, {VERSION} here")
            case Hello() | Flush():
                pass
        return Done()

    def _declare_exchange(self, wanted: Exchange) -> Answer:
        """Make an exchange unless it is there."""
        there = self._exchanges.setdefault(wanted.name, wanted)
        if there.kind != wanted.kind:
            return Differs(name=wanted.name, argument="type", existing=there.kind, wanted=wanted.kind)
        return Done()

    def _declare_queue(self, wanted: Queue) -> Answer:
        """Make and bind a queue unless it is there; raises `Misuse` for a binding that nothing here makes."""
        exchange = self._exchanges.get(wanted.exchange)
        if exchange is None or (exchange.kind == "topic" and wanted.routing_key != "#"):
            raise Misuse(f"{wanted.name!r} cannot be bound to {wanted.exchange!r} by {wanted.routing_key!r}")
        there = self._queues.get(wanted.name)
        if there is None:
            self._queues[wanted.name] = MemoryQueue(wanted, self._bury)
        elif differs := _difference(there.declared, wanted):
            return differs
        self._bindings[wanted.exchange, wanted.routing_key, wanted.name] = None
        return Done()

    def _delete_queue(self, name: str) -> None:
        """Delete a queue with its messages, and end its subscriptions."""
        if (queue := self._queues.pop(name, None)) is not None:
            self._bindings = {binding: None for binding in self._bindings if binding[2] != name}
            queue.deleted = True
            for session in list(self._sessions):
                session.cancel(queue, name)

    def _delete_exchange(self, name: str) -> None:
        """Delete an exchange with its bindings."""
        if self._exchanges.pop(name, None) is not None:
            self._bindings = {binding: None for binding in self._bindings if binding[0] != name}

    def _bury(self, exchange: str, letter: Letter) -> None:
        """Send a dead letter on; it is lost if there is nowhere to send it to."""
        _put(list(self._routed(exchange, letter.routing_key)), letter.model_copy(update={"exchange": exchange}))

    def _routed(self, exchange: str, routing_key: str) -> Iterator[MemoryQueue]:
        if not exchange:  # the default exchange knows every queue by its name
            if (queue := self._queues.get(routing_key)) is not None:
                yield queue
            return
        kind = self._exchanges[exchange].kind if exchange in self._exchanges else None
        for source, key, name in self._bindings:
            if source == exchange and (kind != "direct" or key == routing_key):
                yield self._queues[name]


class Session:
    """One link's requests, in order, and its subscriptions."""

    def __init__(self, broker: MemoryBroker, hear: Callable[[Event], None], end: Callable[[str], None]) -> None:
        self._broker = broker
        self._hear = hear
        self._end = end
        self._subscribed: dict[int, tuple[MemoryQueue, Subscriber]] = {}

    def handle(self, request: Request) -> Answer | None:
        """Do what is asked, and return the answer if there is one; raises `Misuse`."""
        match request:
            case Publish():
                return self._broker.publish(request.letter)
            case Subscribe():
                return self._subscribe(request)
            case Unsubscribe():
                queue, subscriber = self._subscription(request.number)
                queue.unsubscribe(subscriber)
                return Done()
            case Settle():
                self._settle(request)
                return None
            case _:
                return self._broker.answer(request)

    def cancel(self, queue: MemoryQueue, name: str) -> None:
        """End the subscriptions of a queue that is deleted."""
        for number, (subscribed, subscriber) in self._subscribed.items():
            if subscribed is queue and subscriber in queue.subscribers:
                queue.unsubscribe(subscriber)
                self._hear(Cancelled(number=number, reason=f"queue {name!r} was deleted"))

    def end(self, reason: str) -> None:
        """End it from the broker's side."""
        self.close()
        self._end(reason)

    def close(self) -> None:
        """End it: what is not settled goes back to where it was."""
        self._broker.leave(self)
        subscribed, self._subscribed = list(self._subscribed.values()), {}
        # First all: nothing that comes back may go to a subscription that is about to end.
        for queue, subscriber in subscribed:
            queue.unsubscribe(subscriber)
        for queue, subscriber in subscribed:
            queue.leave(subscriber)

    def _subscribe(self, request: Subscribe) -> Answer:
        queue = self._broker.queue(request.queue)
        if queue is None:
            return Missing(queue=request.queue)
        if request.number in self._subscribed:
            return self._subscribe_again(request, queue)
        subscriber = Subscriber(request.number, request.prefetch, self._hear)
        self._subscribed[request.number] = queue, subscriber
        queue.subscribe(subscriber)
        return Done()

    def _subscribe_again(self, request: Subscribe, queue: MemoryQueue) -> Answer:
        """Give messages again to a subscription that had enough for a while."""
        there, subscriber = self._subscribed[request.number]
        if there is not queue:  # its own was deleted, another has its name
            return Missing(queue=request.queue)
        if subscriber in queue.subscribers:
            raise Misuse(f"subscription {request.number} exists")
        subscriber.prefetch = request.prefetch
        queue.subscribe(subscriber)
        return Done()

    def _settle(self, request: Settle) -> None:
        queue, subscriber = self._subscription(request.number)
        try:
            queue.ack(subscriber, request.acked)
            queue.reject(subscriber, request.rejected)
        except KeyError as error:
            raise Misuse(f"delivery {error} of subscription {request.number} is not outstanding") from error

    def _subscription(self, number: int) -> tuple[MemoryQueue, Subscriber]:
        try:
            return self._subscribed[number]
        except KeyError:
            raise Misuse(f"there is no subscription {number}") from None


def _put(queues: list[MemoryQueue], letter: Letter) -> None:
    for queue in queues:
        queue.put(letter)


def _difference(there: Queue, wanted: Queue) -> Differs | None:
    for argument in sorted(there.arguments.keys() | wanted.arguments.keys()):
        existing, asked = there.arguments.get(argument), wanted.arguments.get(argument)
        if existing != asked:
            return Differs(name=wanted.name, argument=argument, existing=existing, wanted=asked)
    return None
