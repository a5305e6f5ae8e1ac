"""A line to a server by way of a TCP proxy, which can go away, fall silent, and lose one reply."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.databases import replaced

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class TroubledLine:
    """Passes bytes on; what it does instead is said by its methods."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._silent = False
        self._losing: bytes | None = None
        self._for_long = False
        self.lost = 0

    async def start(self) -> None:
        """Listens; on the same port as before, if it did."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuses connections, and cuts those that are open."""
        self._cut()
        await asyncio.gather(*self._passing)

    def silence(self) -> None:
        """Takes connections, and passes nothing on."""
        self._silent = True

    def lose_reply_to(self, request: bytes, *, for_long: bool = False) -> None:
        """Cuts the connection when the server answers the next request with these bytes in it.

        `for_long`: it cuts all of them and refuses others, in the same moment, until `start`: nobody can ask again.
        """
        self._losing = request
        self._for_long = for_long

    def of(self, url: str) -> str:
        """The same URL by way of the proxy."""
        parts = urlsplit(url)
        return replaced(url).replace(f":{parts.port}", f":{self._port}", 1)

    def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        with contextlib.suppress(OSError):
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
            self._open.add(up_writer)
            asked = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, up_writer, asked))
                group.create_task(self._replies(up_reader, writer, asked))

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await _read(reader):
            if self._losing is not None and self._losing in data:
                self._losing = None
                asked.set()
            if not self._silent:
                writer.write(data)
        writer.close()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await _read(reader):
            if asked.is_set():
                self.lost += 1
                if self._for_long:
                    self._cut()
                writer.transport.abort()
                return
            writer.write(data)
        writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """What came, nothing once the connection is gone."""
    try:
        return await reader.read(65_536)
    except OSError:
        return b""


@asynccontextmanager
async def troubled(url: str) -> AsyncGenerator[tuple[TroubledLine, str]]:
    """A proxy in front of the server of `url`, and the URL by way of it."""
    parts = urlsplit(url)
    proxy = TroubledLine(parts.hostname or "127.0.0.1", parts.port or 0)
    await proxy.start()
    try:
        yield proxy, proxy.of(url)
    finally:
        await proxy.stop()
