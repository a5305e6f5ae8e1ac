"""The examples of effects: a store that compares numbers, a service with idempotency keys, a plain file."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from brokerjobs import DidNotHappen, Happened, OpenEffect, ReviewContext
from brokerjobs.examples.effects import charging, plain_file, redis_store
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from brokerjobs import App
    from tests.databases import Database


async def record_of(app: App, database: Database, broker_url: str, payload: Any) -> dict[str, Any]:
    """The record of one job of the app's only type, once it has succeeded."""
    [declared] = app.types.values()
    async with flow(app, database, broker_url) as made:
        submitted = await made.submit(declared, payload)
        async with coordinating(made), made.working(made.worker()):
            return await made.reached(submitted.id, "succeeded", 20)


class Server:
    """A Redis server of the test's own, spoken to in its own words: the package `redis` need not be there."""

    def __init__(self, port: int) -> None:
        self.port = port

    def command(self, *words: str) -> Any:
        """Sends one command and reads the reply; OSError if nobody answers."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as line, line.makefile("rwb") as stream:
            parts = [f"*{len(words)}\r\n".encode()]
            parts += [b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words]
            stream.write(b"".join(parts))
            stream.flush()
            first = stream.readline().rstrip()
            if first[:1] == b"$":
                return None if first == b"$-1" else stream.read(int(first[1:]) + 2)[:-2].decode()
            assert first[:1] in {b":", b"+"}, first
            return int(first[1:]) if first[:1] == b":" else first[1:].decode()

    def eval(self, script: str, numkeys: int, /, *keys_and_args: str) -> Any:
        """Runs a Lua script, as `redis.Redis` does."""
        return self.command("EVAL", script, str(numkeys), *keys_and_args)

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            return bool(self.command("PING") == "PONG")
        except OSError:
            return False


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server (Debian's package redis-server): the example was not run")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen([program, *words], stdout=subprocess.DEVNULL) as process:
        server = Server(port)
        try:
            eventually_sync(server.answers, 10)
            yield server
        finally:
            process.terminate()


def test_redis__refuses_what_a_superseded_attempt_writes(redis: Server) -> None:
    old, new = 1_796_021_938_734, 1_796_021_938_735

    assert redis_store.set_if_newest(redis, "price:7", "100", old)
    assert redis_store.set_if_newest(redis, "price:7", "200", new)
    assert redis_store.set_if_newest(redis, "price:7", "210", new)
    assert not redis_store.set_if_newest(redis, "price:7", "100", old)

    assert redis.command("HGET", "price:7", "value") == "210"
    assert redis.command("HGET", "price:7", "fencing_number") == str(new)


async def test_redis__is_written_by_a_job(
    redis: Server, database: Database, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "connect", lambda: redis)

    record = await record_of(redis_store.app, database, broker_url, redis_store.Price(article="7", cents=990))

    assert redis.command("HGET", "price:7", "value") == "990"
    assert redis.command("HGET", "price:7", "fencing_number") == record["attempts"][0]["fencing_number"]


class Payments(BaseHTTPRequestHandler):
    """A payment service: one charge a key. It counts the calls, and the first one gets no answer."""

    calls: list[str]
    charges: dict[str, dict[str, Any]]
    silent: int

    def do_POST(self) -> None:
        key = self.headers["Idempotency-Key"]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.calls.append(key)
        self.charges.setdefault(key, {"reference": f"psp {len(self.charges) + 1}", **body})
        if len(self.calls) <= self.silent:
            self.close_connection = True  # it happened, and nobody is told
            return
        self._answer(200, self.charges[key])

    def do_GET(self) -> None:
        key = self.path.removeprefix("/charges/")
        self._answer(200 if key in self.charges else 404, self.charges.get(key, {}))

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of what it replaces
        """Says nothing."""


@contextmanager
def payments(*, silent: int) -> Generator[type[Payments]]:
    """The service, and its address in PAYMENTS_URL."""
    kind = type("Counted", (Payments,), {"calls": [], "charges": {}, "silent": silent})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAYMENTS_URL", f"http://127.0.0.1:{server.server_port}")
        yield kind
    server.shutdown()
    server.server_close()
    thread.join()


async def test_charge__whose_answer_was_lost_is_asked_for_again_with_the_same_key(
    database: Database, broker_url: str
) -> None:
    with payments(silent=1) as service:
        record = await record_of(charging.app, database, broker_url, charging.Order(number="991", cents=1250))

    assert service.calls == [f"{record['id']}/charge"] * 2
    assert len(service.charges) == 1
    assert record["result"] == {"reference": "psp 1", "cents": 1250}
    assert len(record["attempts"]) == 2


def test_charge__is_found_by_its_reconciler() -> None:
    reconciler = charging.charge.reconciled_by
    assert reconciler is not None
    now = datetime.now(UTC)

    def context(key: str) -> ReviewContext:
        effect = OpenEffect(name="charge", key=key, repeatable=False, intended_at=now, acts_until=now)
        return ReviewContext(
            review_id=UUID(int=1),
            job_id=UUID(int=2),
            key=None,
            tags={},
            submitted_by="tests",
            cause="unknown",
            opened_at=now,
            asked=1,
            effects=(effect,),
        )

    order = charging.Order(number="991", cents=1250)
    with payments(silent=0) as service:
        service.charges["known/charge"] = {"reference": "psp 1", "cents": 1250}
        found = reconciler.function(order, context("known/charge"))
        missing = reconciler.function(order, context("unknown/charge"))

    assert found == Happened(charging.Receipt(reference="psp 1", cents=1250), "psp 1")
    assert isinstance(missing, DidNotHappen)


async def test_file__is_written_whole_and_in_one_step(database: Database, broker_url: str, tmp_path: Path) -> None:
    target = tmp_path / "export.csv"
    target.write_text("old")

    export = plain_file.Export(file=target, lines=["a;1", "b;2"])
    record = await record_of(plain_file.app, database, broker_url, export)

    assert target.read_text() == "a;1\nb;2\n"
    assert record["result"] == 8
    assert [str(file) for file in tmp_path.glob("*")] == [str(target)]  # noqa: ASYNC240  # an empty folder


def test_file__that_cannot_be_finished_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "export.csv"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        plain_file.write_whole(target, b"new", unfinished=".1.part")

    assert target.read_text() == "old"
