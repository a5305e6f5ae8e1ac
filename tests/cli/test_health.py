"""What workers and coordinators answer to probes, as processes of their own."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.servers.processes import free_port
from tests.cli.urls import AWAY_BROKER
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.command import Command
    from tests.databases import Database, Databases

# Limits of seconds, so that no test waits for ten of them.
_APP = """
import asyncio
import os
import time

from brokerjobs import App
from brokerjobs.telemetry import health
from brokerjobs.worker import health as of_worker
from brokerjobs.worker.leases import LeaseKeeper

health.LOOP_SILENT_SECONDS = of_worker.KEEPER_SILENT_SECONDS = 1.5
jobs = App("{namespace}")


@jobs.job("wait", repeatable=True)
async def wait(n: int) -> None:
    await asyncio.sleep(3600)


@jobs.job("block", repeatable=True)
async def block(n: int) -> None:
    time.sleep(n)


if "HANG" in os.environ:
    LeaseKeeper._look_at_loop = lambda keeper: time.sleep(3600)
"""


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    """A ledger that a test can take away."""
    made = databases.with_ledger()
    yield made
    databases.drop(made)


@pytest.fixture
def port() -> int:
    """The port of the probes."""
    return free_port()


@pytest.fixture
def worker(
    brokerjobs: Command, database: Database, as_owner: dict[str, str], namespace: str, port: int
) -> tuple[str, ...]:
    """The command of a worker that answers probes."""
    (brokerjobs.folder / "probed.py").write_text(_APP.format(namespace=namespace))
    brokerjobs("setup", "probed:jobs", env=as_owner).ok()
    brokerjobs.env |= {"BROKERJOBS_WORKER__PROBE_PORT": str(port), "BROKERJOBS_WORKER__HEARTBEAT": "200ms"}
    brokerjobs.env["BROKERJOBS_COORDINATOR__DATABASE_URL"] = database.coordinator_url
    return ("worker", "probed:jobs", "--database-url", database.worker_url)


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and line of an answer; 0 if there was none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()
    except OSError:
        return 0, ""


def comes_to(port: int, path: str, status: int, words: str) -> None:
    """Waits until an answer is this one."""
    eventually_sync(lambda: _is(asked(port, path), status, words), 20)


def _is(answer: tuple[int, str], status: int, words: str) -> bool:
    return answer[0] == status and words in answer[1]


def test_worker__is_ready_until_it_drains_and_lives_until_it_ends(
    brokerjobs: Command, worker: tuple[str, ...], namespace: str, port: int
) -> None:
    with brokerjobs.running(*worker, "--drain", "60s", said="is up") as running:
        job = brokerjobs("submit", f"{namespace}/wait", "1").ok().out.strip()
        comes_to(port, "/readyz", 200, "ok")
        assert asked(port, "/livez") == asked(port, "/startupz") == (200, "ok")
        eventually_sync(lambda: _state(brokerjobs, job) == "running", 20)

        running.process.send_signal(signal.SIGTERM)
        comes_to(port, "/readyz", 503, "draining")
        assert asked(port, "/livez") == (200, "ok")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 10
        assert asked(port, "/livez") == (0, "")


def test_worker__with_a_blocked_event_loop_does_not_live(
    brokerjobs: Command, worker: tuple[str, ...], namespace: str, port: int
) -> None:
    with brokerjobs.running(*worker, said="is up"):
        comes_to(port, "/livez", 200, "ok")
        brokerjobs("submit", f"{namespace}/block", "4").ok()

        comes_to(port, "/livez", 503, "the event loop has been blocked for")
        comes_to(port, "/livez", 200, "ok")


def test_worker__whose_lease_keeper_hangs_does_not_live(
    brokerjobs: Command, worker: tuple[str, ...], port: int
) -> None:
    with brokerjobs.running(*worker, said="is up", env={"HANG": "1"}):
        comes_to(port, "/livez", 503, "the lease keeper has hung for")


def test_worker__without_broker_lives_and_is_not_ready(brokerjobs: Command, worker: tuple[str, ...], port: int) -> None:
    with brokerjobs.running(*worker, "--no-coordinator", "--broker-url", AWAY_BROKER, said="is up"):
        comes_to(port, "/readyz", 503, "consumes none of its")
        assert asked(port, "/livez") == asked(port, "/startupz") == (200, "ok")


def test_worker_and_coordinator__without_ledger_live_and_are_not_ready(
    brokerjobs: Command, worker: tuple[str, ...], database: Database, port: int
) -> None:
    other = free_port()
    coordinator = ("coordinator", "--database-url", database.coordinator_url)
    at_other = {"BROKERJOBS_WORKER__PROBE_PORT": str(other)}
    with (
        brokerjobs.running(*worker, "--no-coordinator", said="is up"),
        brokerjobs.running(*coordinator, said="is up", env=at_other),
    ):
        for one in (port, other):
            comes_to(one, "/readyz", 200, "ok")
        _let_in(database, may="false")
        for one in (port, other):
            comes_to(one, "/readyz", 503, "the ledger does not answer")
            assert asked(one, "/livez") == asked(one, "/startupz") == (200, "ok")
        _let_in(database, may="true")
        for one in (port, other):
            comes_to(one, "/readyz", 200, "ok")


@pytest.mark.parametrize("role", ["worker", "coordinator"])
def test_port__that_is_taken_ends_the_start(
    brokerjobs: Command, worker: tuple[str, ...], database: Database, port: int, role: str
) -> None:
    command = worker if role == "worker" else (role, "--database-url", database.coordinator_url)
    with socket.create_server(("127.0.0.1", port)):
        done = brokerjobs.process(*command)

    assert done.code == 3, done
    assert "Traceback" not in done.err
    assert f"worker.probe_port: 127.0.0.1:{port} cannot be listened on: Address already in use" in done.err


def _state(brokerjobs: Command, job: str) -> str:
    return str(json.loads(brokerjobs("jobs", "show", job, "-o", "json").ok().out)["state"])


def _let_in(database: Database, *, may: str) -> None:
    server = database.admin_url.rpartition("/")[0] + "/postgres"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"alter database {database.name} with allow_connections {may}".encode())
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [database.name])
