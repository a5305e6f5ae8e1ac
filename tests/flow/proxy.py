"""A TCP proxy on loopback that can cut, and that can lose the answer to one COMMIT."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# PostgreSQL's simple query message for COMMIT, as psycopg ends a transaction: type, length, text, NUL.
COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"


@dataclass
class Proxy:
    """Forwards connections to one server; what it does next is set by its methods."""

    url: str
    _host: str
    _port: int
    lose_commit: str = ""
    """"before" or "after": cut when the next COMMIT comes, before or after the server has got it."""
    lost: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    _refusing: bool = False

    def cut(self) -> None:
        """Cuts every connection, as a reset, and refuses new ones until `heal`."""
        self._refusing = True
        for writer in list(self._open):
            writer.transport.abort()

    def heal(self) -> None:
        """Lets connections through again."""
        self._refusing = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if self._refusing:
            writer.transport.abort()
            return
        upstream, outward = await asyncio.open_connection(self._host, self._port)
        ends = {writer, outward}
        self._open |= ends
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, outward, ends, watched=True))
                group.create_task(self._forward(upstream, writer, ends, watched=False))
        except* OSError:
            pass
        finally:
            self._open -= ends

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: set[asyncio.StreamWriter],
        *,
        watched: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if watched and self.lose_commit and COMMIT in data:
                    when, self.lose_commit = self.lose_commit, ""
                    self.lost += 1
                    if when == "after":
                        writer.write(data)
                        await writer.drain()
                        # The server's answer proves that it has the COMMIT; this end never sees it.
                        await self._answered(ends, writer)
                    break
                writer.write(data)
                await writer.drain()
        for end in ends:
            end.transport.abort()

    async def _answered(self, ends: set[asyncio.StreamWriter], outward: asyncio.StreamWriter) -> None:
        for end in ends - {outward}:
            end.transport.abort()
        outward.write_eof()
        # The server ends its side when it has worked off what it got.
        while not outward.transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def proxied(url: str) -> AsyncGenerator[Proxy]:
    """A proxy before the server of `url`; its own `url` is the same with another port."""
    parts = urlsplit(url)
    proxy = Proxy("", parts.hostname or "127.0.0.1", parts.port or 0)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user = parts.netloc.rpartition("@")[0]
    proxy.url = urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}" if user else f"127.0.0.1:{port}"))
    async with server:
        yield proxy
        proxy.cut()
