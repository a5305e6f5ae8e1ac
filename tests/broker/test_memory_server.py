"""Who may connect to a broker in memory, and what becomes of those who send nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker import names
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.memory import words
from brokerjobs.broker.memory.address import named
from brokerjobs.broker.memory.server import serving
from brokerjobs.broker.memory.store import MemoryBroker
from brokerjobs.broker.protocol import PublishOutcome
from brokerjobs.broker.topology import Topology
from brokerjobs.errors import BrokerUnavailable, ConfigurationError, PermissionDenied
from tests.broker.inbox import Inbox, ring
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from pydantic import BaseModel

    from brokerjobs.broker.brokers import Broker

ROUTE = names.route_name("payments", "default")
NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture
async def url(socket_folder: Path) -> AsyncIterator[str]:
    async with serving(MemoryBroker(), socket_folder / "socket") as made:
        await broker_at(made).declare(Topology(routes=frozenset({ROUTE})))
        yield made


def as_nobody(act: Callable[[], None]) -> int:
    """Does it as another user, in a child of this process; the number of the error, 0 for none."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            act()
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def give_others(permissions: int, path: Path) -> None:
    path.chmod(permissions)


def connecting(path: Path) -> Callable[[], None]:
    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(path))
            if client.recv(1) == b"":
                raise ConnectionResetError(104, "the broker has closed the connection")

    return connect


async def test_socket__is_this_users_alone(url: str, socket_folder: Path) -> None:
    assert mode(socket_folder) == 0o700
    assert mode(socket_folder / "socket") == 0o600


@only_root
async def test_socket__is_closed_to_another_users_process(url: str, socket_folder: Path) -> None:
    assert await asyncio.to_thread(as_nobody, connecting(socket_folder / "socket")) == 13  # EACCES


@only_root
async def test_server__serves_no_other_user_who_gets_at_the_socket(
    url: str, socket_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel says whose process is at the other end, whatever became of the permissions."""
    give_others(0o755, socket_folder)
    give_others(0o666, socket_folder / "socket")

    assert await asyncio.to_thread(as_nobody, connecting(socket_folder / "socket")) == 104  # ECONNRESET
    assert "another user's process has connected" in caplog.text


@only_root
async def test_client__takes_no_other_users_socket_for_the_broker(socket_folder: Path) -> None:
    """Who finds a folder gone in /tmp can make it again."""
    place = socket_folder / "socket"
    give_others(0o777, socket_folder)

    def serve() -> None:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
            listening.listen()
            listening.settimeout(10)
            listening.accept()

    serving_it = asyncio.create_task(asyncio.to_thread(as_nobody, serve))
    await eventually(partial(asyncio.to_thread, place.exists))
    with pytest.raises(PermissionDenied, match="is served by another user's process"):
        await broker_at(f"memory://{place}").message_count(ROUTE)
    assert await serving_it == 0


async def test_serving__refuses_an_open_folder_and_a_socket_that_is_served(url: str, socket_folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="another process serves"):
        async with serving(MemoryBroker(), socket_folder / "socket"):
            pass
    assert await broker_at(url).message_count(ROUTE) == 0, "the other one goes on"

    give_others(0o750, socket_folder)
    with pytest.raises(ConfigurationError, match="is open to other users"):
        async with serving(MemoryBroker(), socket_folder / "another"):
            pass


async def test_serving__takes_the_place_of_a_process_that_was_killed(socket_folder: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(socket_folder / "socket"))
    left.close()

    async with serving(MemoryBroker(), socket_folder / "socket") as url:
        assert await broker_at(url).message_count(ROUTE) is None
    assert not (socket_folder / "socket").exists()


def framed(*sent: BaseModel) -> bytes:
    parts = [word.model_dump_json().encode() for word in sent]
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


HELLO = words.Hello(version=words.VERSION, heartbeat=0)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 2**31),
        struct.pack(">I", 9) + b"not JSON!",
        struct.pack(">I", 15) + b'{"word":"nope"}',
        framed(words.Hello(version=words.VERSION + 1, heartbeat=0)),
        framed(HELLO, words.Unsubscribe(number=7)),
        framed(HELLO, words.Settle(number=7, acked=(1,))),
        framed(HELLO, words.Subscribe(number=1, queue=ROUTE, prefetch=1), words.Settle(number=1, acked=(9,))),
        framed(HELLO, *[words.Subscribe(number=1, queue=ROUTE, prefetch=1)] * 2),
    ],
    ids=["another protocol", "endless", "no JSON", "no word", "version", "no subscription", "settle", "tag", "number"],
)
async def test_server__ends_the_link_that_sends_nonsense_and_no_other(
    url: str, socket_folder: Path, caplog: pytest.LogCaptureFixture, nonsense: bytes
) -> None:
    publisher = broker_at(url).publisher()
    async with Inbox(url, {ROUTE: 20}) as received:
        await received.consumes(ROUTE)
        reader, writer = await asyncio.open_unix_connection(socket_folder / "socket")
        writer.write(nonsense)
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 10)
        writer.close()

        assert await publisher.publish([ring(ROUTE)]) == [PublishOutcome.CONFIRMED]
        await received.has(1)
        assert received.deliveries[0].generation == 1, "it kept its link"
    await publisher.close()
    assert "a link of the in-memory broker is ended" in caplog.text


async def test_server__does_not_wait_for_ever_for_a_first_word(
    monkeypatch: pytest.MonkeyPatch, url: str, socket_folder: Path
) -> None:
    monkeypatch.setattr("brokerjobs.broker.memory.wire._FIRST_FRAME_SECONDS", 0.05)
    reader, writer = await asyncio.open_unix_connection(socket_folder / "socket")

    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


@pytest.mark.parametrize("url", ["memory://", "memory:///", "memory://host/socket", "memory://nobody-has-it"])
async def test_url__that_is_none_is_told_of(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"memory:///folder/socket"):
        await broker_at(url).message_count(ROUTE)
    with pytest.raises(ConfigurationError):
        await broker_at(url).consumer({ROUTE: 1}, print, print).run()


async def test_url__of_this_process_is_known_while_it_is_named() -> None:
    memory = MemoryBroker()
    with named(memory) as url:
        await broker_at(url).declare(Topology(routes=frozenset({ROUTE})))
        with named(memory) as another:
            assert await broker_at(another).message_count(ROUTE) == 0

    with pytest.raises(ConfigurationError, match="this process has no in-memory broker"):
        await broker_at(url).message_count(ROUTE)


async def test_url__may_have_any_character_of_a_path(socket_folder: Path) -> None:
    async with serving(MemoryBroker(), socket_folder / "a b?c#d%20é") as url:
        assert await broker_at(url).product() == "memory"


async def test_message__that_is_too_long_is_unknown_and_harms_no_other(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerjobs.broker.memory.socket_link.LONGEST_REQUEST", 1000)
    publisher = broker_at(url).publisher()
    long = replace(ring(ROUTE), body=b"x" * 2000)

    assert await publisher.publish([ring(ROUTE), long]) == [PublishOutcome.CONFIRMED, PublishOutcome.UNKNOWN]
    assert await publisher.publish([ring(ROUTE)]) == [PublishOutcome.CONFIRMED]
    await publisher.close()


async def test_broker__that_is_stopped_takes_no_link() -> None:
    memory = MemoryBroker()
    memory.stop()
    with named(memory) as url, pytest.raises(BrokerUnavailable, match="is stopped"):
        await broker_at(url).product()


def sending(broker: Broker) -> object:
    return broker.publisher()


def receiving(broker: Broker) -> object:
    return broker.consumer({ROUTE: 1}, print, print)


@pytest.mark.parametrize("end", [sending, receiving])
async def test_end__says_once_what_the_broker_is_for(
    caplog: pytest.LogCaptureFixture, end: Callable[[Broker], object]
) -> None:
    with named(MemoryBroker()) as url:
        for _ in range(2):
            end(broker_at(url))

    (said,) = [record.getMessage() for record in caplog.records]
    assert f"the broker {url} is for demo, tests and simulation" in said
