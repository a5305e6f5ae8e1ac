"""A TCP proxy in front of a server, which can go away, fall silent, and lose one reply."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.databases import replaced

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Proxy:
    """Passes bytes on; what it does instead is said by its methods."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._silent = False
        self._losing: bytes | None = None
        self.lost = 0

    async def start(self) -> None:
        """Listens; on the same port as before, if it did."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuses connections, and cuts those that are open."""
        if self._server is not None:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """Cuts the connections that are open."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    def silence(self) -> None:
        """Takes connections, and passes nothing on."""
        self._silent = True

    def lose_reply_to(self, request: bytes) -> None:
        """Cuts the connection when the server answers the next request with these bytes in it."""
        self._losing = request

    def of(self, url: str) -> str:
        """The same URL by way of the proxy."""
        parts = urlsplit(url)
        return replaced(url).replace(f":{parts.port}", f":{self._port}", 1)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with contextlib.suppress(OSError):
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
            self._open.add(up_writer)
            asked = asyncio.Event()
            await asyncio.gather(self._requests(reader, up_writer, asked), self._replies(up_reader, writer, asked))

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await reader.read(65_536):
            if self._losing is not None and self._losing in data:
                self._losing = None
                asked.set()
            if not self._silent:
                writer.write(data)
        writer.close()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await reader.read(65_536):
            if asked.is_set():
                self.lost += 1
                writer.transport.abort()
                return
            writer.write(data)
        writer.close()


@asynccontextmanager
async def proxied(url: str) -> AsyncGenerator[tuple[Proxy, str]]:
    """A proxy in front of the server of `url`, and the URL by way of it."""
    parts = urlsplit(url)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 0)
    await proxy.start()
    try:
        yield proxy, proxy.of(url)
    finally:
        await proxy.stop()
