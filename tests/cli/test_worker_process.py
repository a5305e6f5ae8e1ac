"""Workers and coordinators as processes: signals, exit codes, and log lines."""

from __future__ import annotations

import json
import logging
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.telemetry.logs import TextFormatter
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Command, Running
    from tests.databases import Database

_SLOW = """
import asyncio
import threading

from brokerjobs import App

jobs = App("{namespace}")


@jobs.job("wait", repeatable=True)
async def wait(n: int) -> None:
    await asyncio.sleep(3600)


@jobs.job("block", repeatable=True)
def block(n: int) -> None:
    threading.Event().wait(3600)
"""
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) +[\w.]+: \S.*")


@dataclass(frozen=True)
class Slow:
    """An application whose jobs do not end."""

    target: str
    namespace: str


@pytest.fixture
def slow(brokerjobs: Command, as_owner: dict[str, str], folder: Path, namespace: str) -> Slow:
    """The application, set up."""
    (folder / "slow.py").write_text(_SLOW.format(namespace=namespace))
    brokerjobs("setup", "slow:jobs", env=as_owner).ok()
    return Slow("slow:jobs", namespace)


def test_worker__ends_with_0_at_sigterm_and_at_ctrl_c(ready: Command, database: Database, shop: str) -> None:
    args = ("worker", shop, "--no-coordinator", "--database-url", database.worker_url)

    for number in (signal.SIGTERM, signal.SIGINT):
        with ready.running(*args, said="is up") as worker:
            worker.process.send_signal(number)
            assert worker.process.wait(20) == 0, worker.log()
        assert [line for line in worker.log().splitlines() if not LINE.fullmatch(line)] == []


@pytest.mark.parametrize("ending", [("wait", 10, "queued"), ("block", 11, "running")], ids=["released", "left"])
def test_worker__says_by_its_exit_code_what_it_left_behind(
    brokerjobs: Command, database: Database, slow: Slow, ending: tuple[str, int, str]
) -> None:
    job_type, code, left = ending
    job = brokerjobs("submit", f"{slow.namespace}/{job_type}", "1").ok().out.strip()
    coordinator = ("coordinator", "--database-url", database.coordinator_url)
    worker = ("worker", slow.target, "--no-coordinator", "--drain", "100ms", "--database-url", database.worker_url)

    with brokerjobs.running(*coordinator, said="is up"), brokerjobs.running(*worker, said="is up") as running:
        eventually_sync(lambda: state_of(brokerjobs, job) == "running", 20)
        ended = running.terminated()

    assert ended == code, running.log()
    assert "Traceback" not in running.log()
    assert state_of(brokerjobs, job) == left


def test_worker__tells_what_it_has(ready: Command, database: Database, shop: str) -> None:
    told = ("--capability", "gpu=a100", "--capability", "dataset=coco", "--capability", "dataset=a=b")
    args = ("worker", shop, "--no-coordinator", "--database-url", database.worker_url, "--capability", "memory=1MiB")

    with ready.running(*args, *told, said="is up") as worker:
        drained(worker)

    with psycopg.connect(database.admin_url) as connection:
        (has,) = connection.execute(
            "select detail -> 'capabilities' from brokerjobs.worker order by started_at desc limit 1"
        ).fetchall()[0]
    assert {name: has[name] for name in ("gpu", "dataset", "memory", "os")} == {
        "gpu": ["a100"],
        "dataset": ["a=b", "coco"],
        "memory": ["1MiB"],
        "os": ["linux"],
    }
    assert has[""]["memory"] == {"amount": 1 << 20, "unit": "B"}


@pytest.mark.parametrize("flag", ["gpu", "=a100", "gpu="])
def test_worker__told_what_is_no_capability_is_exit_code_2(ready: Command, shop: str, flag: str) -> None:
    ready("worker", shop, "--capability", flag).fails(2, f"--capability {flag!r} is not of the form NAME=VALUE")


def test_worker__told_a_capability_that_cannot_be_is_exit_code_3(ready: Command, shop: str) -> None:
    ready("worker", shop, "--capability", "GPU=a").fails(3, "worker.capabilities", "name 'GPU' is not 1 to 100")


def test_worker__that_handles_nothing_is_exit_code_3(ready: Command, database: Database, folder: Path) -> None:
    (folder / "bare.py").write_text(
        'from brokerjobs import App\njobs = App("bare")\nadd = jobs.job_type("add", int, int, repeatable=True)\n'
    )

    ready("worker", "bare:jobs", "--database-url", database.worker_url).fails(3, "has a handler here")


def test_worker__that_would_renew_too_seldom_is_exit_code_3(ready: Command, database: Database, shop: str) -> None:
    env = {"BROKERJOBS_DATABASE_URL": database.worker_url, "BROKERJOBS_WORKER__RENEWAL": "16s"}

    ready.process("worker", shop, env=env).fails(
        3,
        "worker.renewal = 16s is over half of the lease 30s of job type 'add'",
        "set it to at most 15s, or leave it out",
    )


def test_worker__whose_terms_differ_from_the_registered_ones_says_which(
    ready: Command, database: Database, shop: str, folder: Path
) -> None:
    file = folder / "shop.py"
    file.write_text(file.read_text().replace('"add", repeatable=True', '"add", repeatable=False'))
    env = {"BROKERJOBS_DATABASE_URL": database.worker_url}

    with ready.running("worker", shop, "--no-coordinator", said="is up for", env=env) as worker:
        assert worker.terminated() == 0, worker.log()
    said = "job type 'add' has other terms in the ledger: {'repeatable': True} there, {'repeatable': False} here"
    assert said in worker.log()
    assert "`brokerjobs setup module:app` changes them" in worker.log()


def test_log_level__decides_what_is_said(ready: Command, database: Database, shop: str) -> None:
    args = ("worker", shop, "--no-coordinator", "--database-url", database.worker_url)
    with ready.running(*args, said="is up") as worker:
        drained(worker)
    assert "draining" in worker.log()

    quiet = ready.folder / "quiet.py"
    quiet.write_text("import os, signal, threading\nfrom shop import jobs\n" + _SIGTERM_LATER)
    done = ready.process("worker", "quiet:jobs", *args[2:], "--log-level", "warning")
    assert (done.code, done.err) == (0, "")


_SIGTERM_LATER = """
def ended():
    import asyncio, time
    from brokerjobs.broker.consumer import Consumer
    while not up.is_set():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)

up = threading.Event()
from brokerjobs.worker.worker import Worker
register = Worker._register
async def registered(self):
    await register(self)
    up.set()
Worker._register = registered
threading.Thread(target=ended, daemon=True).start()
"""


def drained(worker: Running) -> None:
    """Ends a worker in order."""
    assert worker.terminated() == 0, worker.log()


def state_of(brokerjobs: Command, job: str) -> str:
    """The job's state."""
    shown = brokerjobs("jobs", "show", job, "-o", "json")
    return str(json.loads(shown.ok().out)["state"])


def record_of(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    """One log record."""
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("brokerjobs.x", logging.WARNING, "x.py", 1, message, args, info)


def test_log_line__is_one_whatever_it_says() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        divmod(1, 0)

    line = TextFormatter().format(record_of("first\nsecond \x1b[2J %s", "amqp://u:s3cret@h/", error=raised.value))

    assert LINE.fullmatch(line), line
    assert "first\\nsecond \\x1b[2J amqp://u:***@h/" in line
    assert re.search(r"\| ZeroDivisionError: .* \(test_worker_process\.py:\d+\)$", line)


def test_wait__that_is_interrupted_ends_with_130_and_has_said_the_job(ready: Command, namespace: str) -> None:
    with ready.running("submit", f"{namespace}/add", "1", "--wait", said="waiting for job") as waiting:
        waiting.process.send_signal(signal.SIGINT)
        assert waiting.process.wait(20) == 130

    job = waiting.log().split("waiting for job ")[1].split()[0]
    assert "Traceback" not in waiting.log()
    assert state_of(ready, job) == "queued"
