"""Publishing to the broker in memory: the same outcomes within the same time limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from brokerjobs.broker.complaints import Complaints
from brokerjobs.broker.memory.address import open_link
from brokerjobs.broker.memory.words import Gone, Letter, Publish, Published
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.errors import BrokerjobsError, BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from brokerjobs.broker.memory.links import Link
    from brokerjobs.broker.memory.words import Answer
    from brokerjobs.broker.protocol import Outgoing

# After so many messages it is waited until they have left this process.
_PART = 100


class MemoryPublisher:
    """Publishes over one link, which is opened by the first call and opened again by the call after its loss."""

    def __init__(self, url: str, *, time_limit: timedelta, heartbeat: timedelta) -> None:
        self._url = url
        self._time_limit_seconds = time_limit.total_seconds()
        self._heartbeat = heartbeat
        self._link: Link | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._complaints = Complaints()

    async def publish(self, messages: Sequence[Outgoing]) -> list[PublishOutcome]:
        """Publish all within the time limit, and return the outcomes in the same order.

        Raises `ValueError` if two have the same `message_id`, and nothing for what happens at the broker.
        """
        if len({message.message_id for message in messages}) != len(messages):
            raise ValueError("two messages of one batch have the same message_id")
        if not messages:
            return []
        answers: list[asyncio.Future[Answer]] = []
        trouble = ""
        try:
            async with asyncio.timeout(self._time_limit_seconds):
                await self._send(messages, answers)
                await asyncio.wait(answers)
        except TimeoutError:
            trouble = f"the in-memory broker has not answered within {self._time_limit_seconds:g} s"
        except BrokerjobsError as error:
            trouble = str(error)
        known = [_known(answered) for answered in answers]
        self._complain(messages, known, trouble)
        return [one.outcome for one in known] + [PublishOutcome.UNKNOWN] * (len(messages) - len(known))

    async def close(self) -> None:
        """Give the link back; what is published later is `UNKNOWN`."""
        async with self._opening:
            self._closed = True
            link, self._link = self._link, None
            if link is not None:
                await link.close()

    async def _send(self, messages: Sequence[Outgoing], answers: list[asyncio.Future[Answer]]) -> None:
        link = await self._linked()
        for message in messages:
            answers.append(link.ask(Publish(letter=Letter.of(message))))
            if len(answers) % _PART == 0:
                await link.writable()

    async def _linked(self) -> Link:
        async with self._opening:
            if self._closed:
                raise BrokerUnavailable("the publisher is closed")
            if self._link is None or not self._link.alive:
                self._link = await open_link(self._url, self._heartbeat)
            return self._link

    def _complain(self, messages: Sequence[Outgoing], known: Sequence[Published], trouble: str) -> None:
        """Log the first trouble of each exchange."""
        of: dict[str, str] = dict.fromkeys((message.exchange for message in messages), trouble)
        for message, one in zip(messages, known, strict=False):
            of[message.exchange] = of[message.exchange] or one.trouble
        for exchange, words in of.items():
            self._complaints.say(exchange, words)


def _known(answered: asyncio.Future[Answer]) -> Published:
    if answered.done() and not answered.cancelled():
        match answered.result():
            case Published() as published:
                return published
            case Gone(reason=reason):
                return Published(outcome=PublishOutcome.UNKNOWN, trouble=reason)
            case _:
                pass
    return Published(outcome=PublishOutcome.UNKNOWN)
