"""Publishing in batches: persistent, mandatory and confirmed, and never longer than a time limit."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from aiormq.exceptions import ChannelClosed

from brokerjobs.broker.complaints import Complaints
from brokerjobs.broker.confirms import Confirms
from brokerjobs.broker.connection import HEARTBEAT, Link, open_link
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.telling import Telling
from brokerjobs.errors import BrokerjobsError, BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from aiormq import Channel

    from brokerjobs.broker.protocol import Outgoing

Outcomes: TypeAlias = "dict[UUID, PublishOutcome]"

# The value of RabbitMQ's own Jepsen test.
TIME_LIMIT = timedelta(seconds=5)


class Publisher:
    """Publishes over one connection, which is opened by the first call and opened again by the call after its loss.

    Each exchange has a channel of its own: the broker answers a publish to a missing exchange, or one without the
    right to, by closing the channel, and then nothing is known of the others on it.
    """

    def __init__(self, url: str, *, time_limit: timedelta = TIME_LIMIT, heartbeat: timedelta = HEARTBEAT) -> None:
        self._url = url
        self._time_limit_seconds = time_limit.total_seconds()
        self._heartbeat = heartbeat
        self._link: Link | None = None
        self._channels: dict[str, Channel] = {}
        self._opening = asyncio.Lock()
        self._closed = False
        self._complaints = Complaints()

    async def publish(self, messages: Sequence[Outgoing]) -> list[PublishOutcome]:
        """Publish all within the time limit, and return the outcomes in the same order.

        Raises `ValueError` if two have the same `message_id`, and nothing for what happens at the broker: that is
        logged, and the outcome `UNKNOWN`.
        """
        outcomes: Outcomes = dict.fromkeys((message.message_id for message in messages), PublishOutcome.UNKNOWN)
        if len(outcomes) != len(messages):
            raise ValueError("two messages of one batch have the same message_id")
        by_exchange: defaultdict[str, list[Outgoing]] = defaultdict(list)
        for message in messages:
            by_exchange[message.exchange].append(message)
        telling = Telling()
        try:
            async with asyncio.timeout(self._time_limit_seconds):
                async with asyncio.TaskGroup() as group:
                    for exchange, batch in by_exchange.items():
                        group.create_task(self._publish_to(exchange, batch, outcomes))
        except TimeoutError:
            trouble = await self._silence()
            for exchange in by_exchange:
                self._complaints.say(exchange, trouble)
        for exchange, batch in by_exchange.items():
            telling.published(exchange, batch, outcomes)
        return [outcomes[message.message_id] for message in messages]

    async def close(self) -> None:
        """Give the connection back; what is published later is `UNKNOWN`."""
        async with self._opening:
            self._closed = True
            link, self._link = self._link, None
            if link is not None:
                await link.close()

    async def _silence(self) -> str:
        said = f"the broker has not answered within {self._time_limit_seconds:g} s"
        if self._link is not None and self._link.alive and await self._link.blocked():
            return f"{said}: it blocks all who publish (memory or disk alarm); `rabbitmq-diagnostics alarms` says which"
        return said

    async def _publish_to(self, exchange: str, batch: Sequence[Outgoing], outcomes: Outcomes) -> None:
        try:
            link, channel = await self._channel_of(exchange)
            confirms = Confirms(link, channel)
            try:
                await confirms.send(batch)
                await confirms.answered()
            finally:
                outcomes |= confirms.outcomes()
        except (BrokerjobsError, ChannelClosed) as error:
            self._complaints.say(exchange, str(error))
        else:
            self._complaints.say(exchange, confirms.trouble())

    async def _channel_of(self, exchange: str) -> tuple[Link, Channel]:
        async with self._opening:
            if self._closed:
                raise BrokerUnavailable("the publisher is closed")
            link = self._link
            if link is None or not link.alive:
                self._channels.clear()
                self._link = link = await open_link(self._url, "publisher", heartbeat=self._heartbeat)
            channel = self._channels.get(exchange)
            if channel is None or channel.is_closed:
                await link.writable()
                self._channels[exchange] = channel = await link.channel(confirms=True)
            return link, channel
