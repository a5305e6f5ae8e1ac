"""Connections to RabbitMQ: how one is opened, how its loss is noticed, and how it is given back.

aiormq's plain connections are used and not aio-pika's robust ones: those declare their queues again after each loss,
which needs rights that a worker has not, and never end after drift.  Whatever goes wrong on a connection, other than a
route that is not there yet, ends it as a whole.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import aiormq
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from aiormq.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionClosed,
    InvalidFrameError,
    ProbableAuthenticationError,
)
from yarl import URL

from brokerjobs.broker import frame_decoder, library_logs
from brokerjobs.broker.intake import Intake
from brokerjobs.broker.isolation import Undecodable
from brokerjobs.broker.own_context import apart
from brokerjobs.errors import BrokerjobsError, BrokerUnavailable, ConfigurationError, PermissionDenied

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from brokerjobs.broker.intake import Messages

T = TypeVar("T")

# RabbitMQ's documentation (heartbeats.md) calls 5 to 20 s optimal for most environments.
HEARTBEAT = timedelta(seconds=15)
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
_CLOSE_SECONDS = 3.0

# What aiormq raises for a broker that is gone, or goes.  StopAsyncIteration comes of one that has closed the connection
# before its answer was waited for; it must get nowhere, as it ends any `async for` around it without a word.
_GONE = (AMQPError, OSError, RuntimeError, StopAsyncIteration)


class _Ends(Protocol):
    """A connection or channel of aiormq; there the future has no type."""

    @property
    def closing(self) -> asyncio.Future[object]: ...


class Link:
    """One open connection; its methods raise `BrokerUnavailable` for whatever is not about a channel's own queue."""

    def __init__(self, connection: aiormq.Connection, intake: Intake, writer: asyncio.StreamWriter, where: str) -> None:
        self._connection = connection
        self._intake = intake
        self._writer = writer
        self._where = where
        self._numbers = itertools.count(1)
        self._free: list[int] = []

    @property
    def alive(self) -> bool:
        """Whether nothing is known of its end."""
        return self._connection.is_opened and not self._writer.is_closing()

    @property
    def product(self) -> str:
        """The server's name and version."""
        told = self._connection.server_properties
        name, version = (_text(told.get(key)) for key in ("product", "version"))
        return f"{name} {version}"

    async def channel(self, *, confirms: bool = False) -> aiormq.Channel:
        """Open a channel; its number is used again after `give_back` only: aiormq may leave out a close's answer."""
        number = self._free.pop() if self._free else next(self._numbers)
        if number > (self._connection.connection_tune.channel_max or 65535):
            self._writer.transport.abort()
            raise BrokerUnavailable(f"{self._where}: the connection has no channel numbers left, it is made anew")
        opening = self._connection.channel(number, publisher_confirms=confirms)
        return cast("aiormq.Channel", await self.answer(opening))

    def take(self, channel: aiormq.Channel, messages: Messages) -> None:
        """Give what comes by a channel to `messages`, and not to its consumers, until it ends."""
        self._intake.begin(channel.number, messages)
        cast("_Ends", channel).closing.add_done_callback(lambda _: self._intake.end(channel.number, messages))

    async def give_back(self, channel: aiormq.Channel) -> None:
        """Close a channel in order; errors as of `answer`."""
        await self.answer(channel.close())
        self._free.append(channel.number)

    async def answer(self, operation: Awaitable[T]) -> T:
        """Wait at most ten seconds for the broker's answer to `operation`.

        Raises aiormq's `ChannelNotFoundEntity`, `ChannelAccessRefused`, `ChannelLockedResource` and
        `ChannelPreconditionFailed` as they are.
        """
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await apart(operation)
        except (ChannelNotFoundEntity, ChannelAccessRefused, ChannelLockedResource, ChannelPreconditionFailed):
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise BrokerUnavailable(f"{self._where} does not answer") from error
        except _GONE as error:
            raise BrokerUnavailable(f"{self._where} does not answer ({_words(error)})") from error

    def send(self, channel: aiormq.Channel, frames: bytes) -> bool:
        """Write whole frames of `channel` to the socket at once; False if the channel or the connection has gone.

        aiormq's own queue of frames would cost a task switch a frame, and waits for ever when its writer is gone.
        """
        if channel.is_closed or not self.alive:
            return False
        self._writer.write(frames)
        return True

    async def writable(self) -> None:
        """Wait until the broker takes messages: no alarm blocks the connection, and what was written has left."""
        await self._connection.ready()
        try:
            await self._writer.drain()
        except OSError as error:
            raise BrokerUnavailable(f"{self._where} has closed the connection ({_words(error)})") from error

    async def blocked(self) -> bool:
        """Whether an alarm of the broker (memory or disk) blocks this connection, as far as it has said so."""
        try:
            async with asyncio.timeout(0):
                await self._connection.ready()
        except TimeoutError:
            return True
        return False

    async def lost(self) -> None:
        """Wait for the connection to end and raise `BrokerUnavailable`."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(error: BrokerUnavailable) -> None:
            if not ended.done():
                ended.set_exception(error)

        self.when_ended(self._connection, tell)
        await ended

    def when_ended(self, what: _Ends, tell: Callable[[BrokerUnavailable], None]) -> None:
        """Call `tell` once `what`, the connection or a channel of it, has ended."""

        def on_closing(closing: asyncio.Future[object]) -> None:
            kind = type(what).__name__.lower()
            if _is_undecodable(closing):
                tell(Undecodable(f"what came from {self._where} broke the {kind} ({_reason(closing)})"))
            else:
                tell(BrokerUnavailable(f"{self._where} has closed the {kind} ({_reason(closing)})"))

        what.closing.add_done_callback(on_closing)

    async def close(self) -> None:
        """End the connection in order within three seconds, else at once."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await apart(self._connection.close(ConnectionClosed(200, "closed by this process")))
        except TimeoutError:
            logging.getLogger(__name__).info("%s did not answer to the end of the connection", self._where)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
        finally:
            self._writer.transport.abort()


class _Transport(TransportFactory):
    """Opens the socket as aiormq does, lets the kernel notice a dead peer, and keeps the writer."""

    def __init__(self, heartbeat: timedelta) -> None:
        self._heartbeat_seconds = max(1, int(heartbeat.total_seconds()))
        self._writer: asyncio.StreamWriter | None = None
        self._intake: Intake | None = None

    @property
    def intake(self) -> Intake:
        """What takes messages from the open socket; raises `ConnectionError` before."""
        if self._intake is None:
            raise ConnectionError("no socket was opened")
        return self._intake

    @property
    def writer(self) -> asyncio.StreamWriter:
        """The writer of the open socket; raises `ConnectionError` before."""
        if self._writer is None:
            raise ConnectionError("no socket was opened")
        return self._writer

    def abort(self) -> None:
        """Close the socket at once, if there is one."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open the socket."""
        factory = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await factory.create(url, **kwargs)
        self._writer, self._intake = writer, Intake(reader)
        connected = cast("socket.socket", writer.get_extra_info("socket"))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", self._heartbeat_seconds),
            ("TCP_KEEPINTVL", max(1, self._heartbeat_seconds // 3)),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 2000 * self._heartbeat_seconds),
        ):
            # Linux has them all, other systems some.
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return cast("asyncio.StreamReader", self._intake), writer


@asynccontextmanager
async def linked(url: str, purpose: str, *, heartbeat: timedelta = HEARTBEAT) -> AsyncGenerator[Link]:
    """Hold a connection, named after `purpose` at the broker; errors as of `open_link`."""
    link = await open_link(url, purpose, heartbeat=heartbeat)
    try:
        yield link
    finally:
        await link.close()


async def open_link(url: str, purpose: str, *, heartbeat: timedelta = HEARTBEAT) -> Link:
    """Open a connection within ten seconds.

    Raises `BrokerUnavailable`, `PermissionDenied` (login or virtual host) or `ConfigurationError` (the URL); no message
    has the password.
    """
    where = place(url)
    frame_decoder.install()
    library_logs.quieten()
    transport = _Transport(heartbeat)
    connecting = aiormq.connect(
        URL(url).update_query(heartbeat=max(1, int(heartbeat.total_seconds()))),
        transport_factory=transport,
        client_properties={"connection_name": f"brokerjobs {purpose} {socket.gethostname()}:{os.getpid()}"},
    )
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return Link(await apart(connecting), transport.intake, transport.writer, where)
    except BaseException as error:
        # Also if this call is cancelled in the moment in which the connection is ready.
        transport.abort()
        if isinstance(error, _GONE):
            raise _refusal(error, where) from error
        if isinstance(error, asyncio.CancelledError) and not _is_cancelled():
            raise BrokerUnavailable(f"{where} does not answer") from error
        raise


def place(url: str) -> str:
    """Return the URL as it may be shown: without password and options; raises `ConfigurationError` if it is none."""
    try:
        parsed = URL(url)
        if parsed.scheme in {"amqp", "amqps"} and parsed.host:
            return str(parsed.with_password(None).with_query(None).with_fragment(None))
    except ValueError:
        pass
    # The reason could hold a part of the password.
    raise ConfigurationError("the broker URL is not of the form amqp://user:password@host:port/virtual-host")


def _refusal(error: Exception, where: str) -> BrokerjobsError:
    if isinstance(error, (ProbableAuthenticationError, AuthenticationError)):
        return PermissionDenied(f"{where} refused the login ({_words(error)}); check user and password")
    if isinstance(error, InvalidFrameError) and "Connection.OpenOk" in str(error):
        # aiormq hides the broker's reply to the last step of opening, which is about the virtual host.
        return PermissionDenied(
            f"{where} refused the virtual host: it does not exist, this user has no permissions in it, or its "
            "connection limit is reached; the broker's log says which"
        )
    return BrokerUnavailable(f"{where} cannot be reached ({_words(error)})")


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _reason(closing: asyncio.Future[object]) -> str:
    error = None if closing.cancelled() else closing.exception()
    return "no reason given" if error is None else _words(error)


def _is_undecodable(closing: asyncio.Future[object]) -> bool:
    """Return whether aiormq gave up on what it received: any error but those of the network and the broker's words."""
    error = None if closing.cancelled() else closing.exception()
    return isinstance(error, Exception) and (
        isinstance(error, InvalidFrameError) or not isinstance(error, (AMQPError, OSError, asyncio.TimeoutError))
    )


def _is_cancelled() -> bool:
    """Return whether a `CancelledError` is meant for this task: aiormq also raises it for a connection it gives up."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _words(error: BaseException) -> str:
    """Return the broker's own words where there are some, without their number."""
    if isinstance(error, StopAsyncIteration):
        return "it closed the connection and said nothing"
    return str(error.args[-1]) if isinstance(error, AMQPError) and error.args else str(error) or type(error).__name__
