"""Serves a broker in memory to other processes of the same user, over a UNIX socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from brokerjobs.broker.memory.address import url_of
from brokerjobs.broker.memory.store import Misuse
from brokerjobs.broker.memory.wire import Wire
from brokerjobs.broker.memory.words import REQUESTS, Hello
from brokerjobs.errors import BrokerUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from brokerjobs.broker.memory.store import MemoryBroker

# The kernel's limit for the name of a UNIX socket, with its final zero (unix(7)).
_LONGEST_PATH = 107
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(broker: MemoryBroker, path: Path) -> AsyncGenerator[str]:
    """Serve `broker` at `path` inside the block; gives the URL.

    The folder of the socket is made if it is missing, and must be this user's alone: that is what keeps others out.
    Raises `ConfigurationError` if it is not, if somebody serves there already, or for a path that is too long.
    """
    served = _Served(broker)
    server = await asyncio.start_unix_server(served.serve, sock=_listen(path))
    try:
        yield url_of(path)
    finally:
        server.close()
        broker.end_sessions("the server has ended")
        await served.ended()
        await server.wait_closed()
        _forget(path)


def _listen(path: Path) -> socket.socket:
    if len(bytes(path)) > _LONGEST_PATH:
        raise ConfigurationError(f"{path} is too long for a UNIX socket, which has at most {_LONGEST_PATH} bytes")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.parent.stat().st_mode & _OTHERS:
        raise ConfigurationError(f"{path.parent} is open to other users of this machine; `chmod 700` closes it")
    if path.exists():
        if _is_served(path):
            raise ConfigurationError(f"another process serves an in-memory broker at {path}")
        path.unlink()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    path.chmod(0o600)
    return listening


def _is_served(path: Path) -> bool:
    """Whether somebody listens there; the socket of a process that was killed is left behind."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


class _Served:
    """The connections, each in a task of its own."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._wires: dict[asyncio.Task[None], Wire] = {}

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        task = asyncio.create_task(self._serve(wire))
        self._wires[task] = wire
        task.add_done_callback(self._wires.pop)

    async def ended(self) -> None:
        """End those that are left, and return when they have ended."""
        for wire in self._wires.values():
            wire.abort()
        if self._wires:
            await asyncio.wait(list(self._wires))

    async def _serve(self, wire: Wire) -> None:
        try:
            if wire.is_of_this_user():
                await self._talk(wire)
            else:
                _log.warning("another user's process has connected to the in-memory broker, and is not served")
        except (OSError, BrokerUnavailable) as error:
            _log.info("a link of the in-memory broker has ended: %s", str(error) or type(error).__name__)
        except (Misuse, ValueError) as error:
            # What was sent is not shown.
            _log.warning("a link of the in-memory broker is ended: %s", _words(error))
        finally:
            wire.abort()

    async def _talk(self, wire: Wire) -> None:
        session = self._broker.session(wire.send, lambda _: wire.abort())
        try:
            async for frame in wire.frames():
                request = REQUESTS.validate_json(frame)
                if isinstance(request, Hello):
                    wire.beat(request.heartbeat)
                if (answer := session.handle(request)) is not None:
                    wire.send(answer)
                    await wire.drain()
        finally:
            session.close()


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, Misuse) else f"it sent what is no request ({type(error).__name__})"
