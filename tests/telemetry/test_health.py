"""The listener of probes, and who else may find its port."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from brokerjobs.telemetry import health_http
from brokerjobs.telemetry.health import LedgerSeen
from brokerjobs.telemetry.health_http import Endpoint

if TYPE_CHECKING:
    from collections.abc import Generator

GOOD = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


@contextmanager
def serving() -> Generator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    endpoint = Endpoint(listener, {"/livez": lambda: "", "/readyz": lambda: "two\r\nlines"})
    endpoint.start()
    try:
        yield port
    finally:
        endpoint.stop()


def said(port: int, request: bytes) -> bytes:
    """The whole answer; what was cut off is empty."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65_536), b""))
        except ConnectionError:
            return b""


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (GOOD, 200, b"ok\n"),
        (GOOD.replace(b"/livez", b"/livez?verbose=1"), 200, b"ok\n"),
        (GOOD.replace(b"GET", b"HEAD"), 200, b""),
        (GOOD.replace(b"/livez", b"/readyz"), 503, b"two lines\n"),
        (GOOD.replace(b"/livez", b"/"), 404, b"ask for /livez, /readyz\n"),
        (GOOD.replace(b"GET", b"POST"), 405, b"Method Not Allowed\n"),
        (GOOD.replace(b"/livez", b"/" + b"x" * 3_000), 400, b"Bad Request\n"),
        (GOOD.replace(b"HTTP/1.1", b"HTTP/9"), 400, b"Bad Request\n"),
        (b"\x16\x03\x01\x00\xff\r\n\r\n", 400, b"Bad Request\n"),
        (b"\r\n\r\n", 400, b"Bad Request\n"),
    ],
)
def test_answers(request_: bytes, status: int, body: bytes) -> None:
    with serving() as port:
        head, _, rest = said(port, request_).partition(b"\r\n\r\n")

    assert head.startswith(f"HTTP/1.1 {status} ".encode()), head
    assert rest == body


def test_head__says_how_long_the_answer_would_be() -> None:
    with serving() as port:
        assert b"Content-Length: 3\r\n" in said(port, GOOD.replace(b"GET", b"HEAD"))


def test_large_headers_and_garbage__harm_nothing() -> None:
    with serving() as port:
        # Whoever sends more than is read may see the connection end before the answer.
        refused = said(port, GOOD[:-2] + b"X: " + b"x" * 2**20 + b"\r\n\r\n")
        assert refused == b"" or refused.startswith(b"HTTP/1.1 431 ")
        said(port, os.urandom(2**20))
        said(port, b"")

        assert said(port, GOOD).startswith(b"HTTP/1.1 200 ")


def test_slow_requests__keep_nobody_out_and_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_http, "_SECONDS", 0.5)
    with serving() as port:
        slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(health_http.AT_ONCE * 2)]
        for one in slow:
            with suppress(ConnectionError):
                one.sendall(b"GET /li")

        began = time.monotonic()
        assert said(port, GOOD).startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - began < 0.4

        for one in slow:
            with suppress(ConnectionError):
                assert one.recv(1) == b""
            one.close()


def test_answering__without_a_port_listens_nowhere() -> None:
    async def threads() -> int:
        before = threading.active_count()
        with health_http.answering(_Well(), "nowhere.invalid", None):
            return threading.active_count() - before

    assert asyncio.run(threads()) == 0


def test_ledger_seen__is_ready_by_its_last_answer_while_that_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    seen = LedgerSeen(heartbeat_seconds=10)
    assert (seen.ever, seen.not_ready()) == (False, "the ledger has not answered yet")

    seen.answered()
    now[0] += 30
    assert (seen.ever, seen.not_ready()) == (True, "")
    seen.gave_no_answer()
    assert "30 s ago" in seen.not_ready()
    seen.answered()
    assert seen.not_ready() == ""
    now[0] += 31
    assert "31 s ago" in seen.not_ready()


class _Well:
    def not_alive(self) -> str:
        return ""

    not_ready = not_started = not_alive
