"""`/livez`, `/readyz` and `/startupz` over HTTP, on a thread and an event loop of their own.

So a blocked event loop of the process is told of instead of leaving who asks without an answer, and whoever else finds
the port disturbs nothing.  A request has so many bytes, so much time and one answer.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import ConfigurationError
from brokerjobs.telemetry.health import LoopBeat

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from brokerjobs.telemetry.health import Health

    Checks = Mapping[str, Callable[[], str]]

_HEAD_BYTES: Final = 8_192
_SECONDS: Final = 2.0  # for a request with its answer
AT_ONCE: Final = 32  # connections; one more ends the oldest, so that nobody can keep others out
_END_SECONDS: Final = 1.0
_REQUEST: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,200}) HTTP/1\.[01]\r\n")
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@contextmanager
def answering(health: Health, host: str, port: int | None) -> Generator[None]:
    """Answers while it is open, about the event loop that it is opened on, too; nothing if `port` is None.

    Raises ConfigurationError if the port cannot be had.
    """
    if port is None:
        yield
        return
    listener = _listener(host, port)
    beat = LoopBeat()
    checks = {
        "/livez": lambda: beat.not_alive() or health.not_alive(),
        "/readyz": lambda: beat.not_alive() or health.not_ready(),
        "/startupz": health.not_started,
    }
    endpoint = Endpoint(listener, checks)
    endpoint.start()
    try:
        yield
    finally:
        endpoint.stop()
        beat.stop()


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        message = (
            f"worker.probe_port: {host}:{port} cannot be listened on: {error.strerror or error}; "
            "each process on a host needs a port of its own"
        )
        raise ConfigurationError(message) from error


class Endpoint:
    """Answers requests that come to a listening socket, by checks that say what is wrong, or nothing."""

    def __init__(self, listener: socket.socket, checks: Checks) -> None:
        self._listener = listener
        self._checks = checks
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._thread = threading.Thread(target=self._run, name="brokerjobs-health", daemon=True)

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answers no more; within a second."""
        with suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=_HEAD_BYTES)
        await self._end.wait()
        server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > AT_ONCE:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(_SECONDS):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()  # slow, gone, or silent: nobody waits for an answer
        finally:
            self._open.pop(writer, None)

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(431)
        request = _REQUEST.match(head)
        if request is None:
            return _response(400)
        method, target = request[1], request[2].decode("ascii")
        check = self._checks.get(target.partition("?")[0])
        if check is None:
            return _response(404, f"ask for {', '.join(self._checks)}", method)
        if method not in {b"GET", b"HEAD"}:
            return _response(405)
        why_not = check()
        return _response(503 if why_not else 200, why_not or "ok", method)


def _response(status: int, said: str = "", method: bytes = b"GET") -> bytes:
    line = " ".join((said or _REASONS[status]).split()) + "\n"
    body = line.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n"
        + ("Allow: GET, HEAD\r\n" if status == 405 else "")
        + "\r\n"
    )
    return head.encode("ascii") + (b"" if method == b"HEAD" else body)
