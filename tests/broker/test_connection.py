from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest
from aiormq.connection import TCPTransportFactory
from yarl import URL

from brokerjobs.broker import connection, library_logs
from brokerjobs.broker.consumer import Consumer
from brokerjobs.broker.supervisor import supervise
from brokerjobs.errors import BrokerUnavailable, ConfigurationError, PermissionDenied
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.nodes import RabbitMQNode


def changed(url: str, **parts: str) -> str:
    """Return the URL with another `user`, `password` or `path`."""
    parsed = URL(url)
    for name, value in parts.items():
        parsed = getattr(parsed, f"with_{name}")(value)
    return str(parsed)


async def test_open_link__with_a_wrong_password(broker_url: str) -> None:
    with pytest.raises(PermissionDenied, match="refused the login") as raised:
        await connection.open_link(changed(broker_url, password="hunter2"), "test")

    assert "hunter2" not in str(raised.value)
    assert f"{URL(broker_url).user}@127.0.0.1" in str(raised.value)


async def test_open_link__with_a_virtual_host_that_is_not_there(broker_url: str) -> None:
    with pytest.raises(PermissionDenied, match="/nowhere refused the virtual host") as raised:
        await connection.open_link(changed(broker_url, path="/nowhere"), "test")

    assert str(URL(broker_url).password) not in str(raised.value)


@pytest.mark.parametrize("place", ["127.0.0.1:1", "nobody.invalid"])
async def test_open_link__with_nobody_there(place: str) -> None:
    with pytest.raises(BrokerUnavailable, match=f"amqp://user@{place}/ cannot be reached") as raised:
        await connection.open_link(f"amqp://user:hunter2@{place}/", "test")

    assert "hunter2" not in str(raised.value)


async def test_open_link__with_somebody_there_who_is_no_broker() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerUnavailable, match="cannot be reached"):
            await connection.open_link(f"amqp://user:hunter2@127.0.0.1:{port}/", "test")


async def test_open_link__to_a_broker_that_hung_up_before_it_was_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that is being stopped: aiormq then raises what ends any `async for` around it."""
    create = TCPTransportFactory.create

    async def too_late(
        self: TCPTransportFactory, url: URL, **options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await create(self, url, **options)
        assert await reader.read() == b""
        return reader, writer

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    monkeypatch.setattr(TCPTransportFactory, "create", too_late)
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerUnavailable, match=r"cannot be reached \(it closed the connection and said"):
            await connection.open_link(f"amqp://user:hunter2@127.0.0.1:{port}/", "test")


async def test_supervise__is_not_ended_by_what_ends_a_loop_without_a_word() -> None:
    async def session() -> None:
        raise StopAsyncIteration

    with pytest.raises(RuntimeError, match="StopAsyncIteration"):
        await supervise(session)


@pytest.mark.parametrize("url", ["", "localhost", "http://user:hunter2@host/", "amqp://", "amqp://u:hunter2@host:x/"])
async def test_open_link__with_what_is_no_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="amqp://user:password@host") as raised:
        await connection.open_link(url, "test")

    assert "hunter2" not in str(raised.value)


async def test_open_link__sets_the_heartbeat_and_the_sockets_options(broker_url: str) -> None:
    async with connection.linked(broker_url, "test", heartbeat=timedelta(seconds=20)) as link:
        opened = link._writer.get_extra_info("socket")  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
        tuned = link._connection.connection_tune  # pyright: ignore[reportPrivateUsage]

        assert tuned.heartbeat == 20
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 40_000


async def test_linked__names_the_connection_and_gives_it_back(node: RabbitMQNode) -> None:
    async def names() -> str:
        return await asyncio.to_thread(node.ctl, "list_connections", "client_properties")

    async with connection.linked(node.url, "purpose"):
        assert f"brokerjobs purpose {socket.gethostname()}:" in await names()

    async def is_gone() -> bool:
        return "brokerjobs purpose" not in await names()

    await eventually(is_gone)


async def test_library_logs__say_nothing_of_our_connections_unless_asked(
    broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def aiormqs() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.startswith("aiormq")]

    caplog.set_level(logging.DEBUG)
    async with connection.linked(broker_url, "test") as link:
        await link.channel()
    assert aiormqs() == []

    caplog.set_level(logging.DEBUG, "aiormq")
    async with connection.linked(broker_url, "test"):
        pass
    assert any("Received frame" in text for text in aiormqs())


async def test_library_logs__are_as_ever_for_everybody_else(broker_url: str, caplog: pytest.LogCaptureFixture) -> None:
    library_logs.quieten()
    caplog.set_level(logging.DEBUG)

    async with await aio_pika.connect(broker_url):
        pass

    assert any("Received frame" in record.getMessage() for record in caplog.records)


async def test_answer__tells_a_lost_connection_from_a_cancelled_task(broker_url: str) -> None:
    """aiormq gives `CancelledError` to those who wait on a connection that it gives up as stuck."""
    loop = asyncio.get_running_loop()
    async with connection.linked(broker_url, "test") as link:
        given_up: asyncio.Future[None] = loop.create_future()
        given_up.set_exception(asyncio.CancelledError())
        with pytest.raises(BrokerUnavailable, match="does not answer"):
            await link.answer(given_up)

        waiting = asyncio.create_task(link.answer(loop.create_future()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_consumer__ends_at_once_if_its_login_is_wrong(broker_url: str) -> None:
    consumer = Consumer(changed(broker_url, password="hunter2"), {"p.q.x": 1}, print, print)

    with pytest.raises(PermissionDenied, match="refused the login"):
        await consumer.run()


async def test_close__ends_a_consumer_that_waits_to_connect_again(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer("amqp://127.0.0.1:1/", {"p.q.x": 1}, print, print)
    running = asyncio.create_task(consumer.run())

    async def waits_for_seconds() -> bool:
        return bool(re.search(r"connecting again in [1-9]", caplog.text))

    await eventually(waits_for_seconds, 30.0)
    started = time.monotonic()
    await consumer.close()
    await running
    assert time.monotonic() - started < 0.9


async def test_consumer__waits_for_a_broker_that_is_not_there_yet(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer("amqp://user:hunter2@127.0.0.1:1/", {"p.q.x": 1}, print, print)
    running = asyncio.create_task(consumer.run())

    async def has_tried_twice() -> bool:
        return caplog.text.count("connecting again") >= 2

    await eventually(has_tried_twice)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "hunter2" not in caplog.text
