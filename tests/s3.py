"""A private server that speaks S3 (rclone), and a door before it that keeps count, repairs and breaks."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from brokerjobs.artifacts.locations import StoreOptions
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

KEY_ID: Final = "key-of-the-tests"
SECRET: Final = "secret-of-the-tests"
BUCKET: Final = "artifacts"
_PROGRAM: Final = Path(sys.executable).with_name("rclone")
_STARTED: Final = re.compile(r"Starting s3 server on \[(http://127\.0\.0\.1:\d+)/\]")


@dataclass(frozen=True)
class S3Server:
    """Buckets as folders below `folder`; `endpoint` has no path."""

    endpoint: str
    folder: Path

    def options(self, prefix: str, endpoint: str | None = None, **other: str) -> StoreOptions:
        """A store in its bucket."""
        options = {
            "endpoint": endpoint or self.endpoint,
            "access_key_id": KEY_ID,
            "secret_access_key": SECRET,
            "region": "us-east-1",
        }
        bucket = other.pop("bucket", BUCKET)
        return StoreOptions(url=f"s3://{bucket}/{prefix}", options=options | other)

    def file(self, prefix: str, path: str) -> Path:
        """The file that is an object."""
        return self.folder / BUCKET / prefix / path


@contextmanager
def serving(folder: Path) -> Generator[S3Server]:
    """Runs the server with one empty bucket."""
    buckets = folder / "buckets"
    (buckets / BUCKET).mkdir(parents=True)
    log = folder / "log"
    login = f"{KEY_ID},{SECRET}"
    config = ("--config", str(folder / "rclone.conf"), "--cache-dir", str(folder / "cache"))
    command = (str(_PROGRAM), "serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", login, *config, str(buckets))
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            endpoint = eventually_sync(lambda: _STARTED.search(log.read_text()))[1]
            yield S3Server(endpoint, buckets)
        finally:
            process.kill()  # asked to end, it waits ten seconds for connections that are kept


@dataclass
class Door:
    """What passed, and what a test wants answered instead."""

    endpoint: str
    requests: list[str] = field(default_factory=list[str])
    ranges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    has_ranges: bool = True
    breaks: Callable[[str], tuple[int, str] | None] = lambda _: None
    """Given "METHOD /path?query": a status and body to answer with instead of the server's, or None."""


@contextmanager
def before(server: S3Server) -> Generator[Door]:
    """A door that passes everything on; ranges are answered with 206 as HTTP has them, where rclone says 200."""
    host, port = urlsplit(server.endpoint).hostname or "", urlsplit(server.endpoint).port or 0

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def passes(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            asked = f"{self.command} {self.path}"
            door.requests.append(asked)
            if (wanted := self.headers.get("Range")) is not None:
                start, end = wanted.removeprefix("bytes=").split("-")
                door.ranges.append((int(start), int(end)))
            if (instead := door.breaks(asked)) is not None:
                self._answer(instead[0], {}, instead[1].encode())
                return
            with closing(http.client.HTTPConnection(host, port)) as upstream:
                upstream.request(self.command, self.path, body, dict(self.headers.items()))
                answer = upstream.getresponse()
                content = b"" if self.command == "HEAD" else answer.read()
                headers = dict(answer.getheaders())
            self._answer(206 if door.has_ranges and "Content-Range" in headers else answer.status, headers, content)

        def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            size = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", size)
            with suppress(ConnectionError):  # whoever asked has gone
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in http.server
            """Says nothing."""

    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Passing, f"do_{method}", Passing.passes)
    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as front:
        door = Door(f"http://127.0.0.1:{front.server_port}")
        thread = threading.Thread(target=front.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield door
        finally:
            front.shutdown()
            thread.join()
