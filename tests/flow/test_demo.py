"""`brokerjobs demo` as a reader runs it: its figures, other people's servers and pictures, and an early end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import aiormq
import psycopg
import pytest
from aiormq.exceptions import ChannelNotFoundEntity
from PIL import Image
from psycopg import sql

from tests.processes import runs
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from brokerjobs.servers.finder import Server

# A guard against hangs; on an idle machine with two cores a run takes about twenty seconds.
pytestmark = pytest.mark.timeout(300)
COMMAND = [sys.executable, "-m", "brokerjobs.cli", "demo"]
# The same on a machine without RabbitMQ, without the right to install it, and without Docker.
WITHOUT_RABBITMQ = """
from brokerjobs.cli.main import run
from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import containers, packages, rabbitmq

def not_installed():
    raise ConfigurationError("rabbitmq-server is not installed")

rabbitmq.find_scripts = not_installed
packages.can_install = containers.can_run = lambda: False
run()
"""
BARE_COMMAND = [sys.executable, "-c", WITHOUT_RABBITMQ, "demo"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No settings, the servers that the tests were given if any, and a place for the working folder."""
    given = {
        f"BROKERJOBS_DEMO_{name}": os.environ.get(f"BROKERJOBS_TEST_{name}") for name in ("DATABASE_URL", "BROKER_URL")
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BROKERJOBS_")}
    tmp_path.chmod(0o755)
    return inherited | {name: value for name, value in given.items() if value}


@pytest.fixture
def own_servers(environment: dict[str, str], postgres: Server, rabbitmq: Server) -> dict[str, str]:
    return environment | {"BROKERJOBS_DEMO_DATABASE_URL": postgres.url, "BROKERJOBS_DEMO_BROKER_URL": rabbitmq.url}


def demo(
    environment: dict[str, str], *arguments: str | Path, command: Sequence[str] = COMMAND
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Runs it to its end; the JSON of its last line, and all that it wrote."""
    done = subprocess.run(
        [*command, "--json", *arguments], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done


def roles_and_databases(postgres: Server) -> set[str]:
    with psycopg.connect(postgres.url) as connection:
        rows = connection.execute("select rolname from pg_roles union all select datname from pg_database").fetchall()
    return {str(row[0]) for row in rows}


async def queue_exists(url: str, name: str) -> bool:
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel()
        await channel.queue_declare(name, passive=True)
    except ChannelNotFoundEntity:
        return False
    finally:
        await connection.close()
    return True


@pytest.mark.parametrize(
    ("command", "broker"),
    [
        pytest.param(COMMAND, r"RabbitMQ \d\S* \(\w+\)", id="rabbitmq"),
        pytest.param(BARE_COMMAND, "memory", id="memory"),
    ],
)
def test_demo__shows_one_effect_a_job_and_a_rejected_late_report(
    environment: dict[str, str], command: list[str], broker: str
) -> None:
    if broker == "memory":
        environment.pop("BROKERJOBS_DEMO_BROKER_URL", None)

    figures, done = demo(environment, command=command)

    assert re.fullmatch(broker, figures["broker"])
    says_so_first = "in-memory broker, because RabbitMQ cannot be had" in done.stderr.splitlines()[0]
    assert says_so_first == (broker == "memory")
    assert re.fullmatch(r"PostgreSQL \d\S* \(\w+\)", figures["database"])
    assert figures["jobs"] == figures["succeeded"] == 25
    assert figures["rejected_stale"] >= 1
    assert figures["max_effects_per_job"] == 1
    assert figures["handler_runs"] > figures["jobs"]
    # The one that was killed in the middle and the one that was paused took two attempts each.
    assert figures["attempts"] >= figures["jobs"] + 2
    assert 0 < figures["seconds"] < 280
    assert done.stderr.count("kill -KILL") == 1
    assert done.stderr.count("kill -STOP") == 1
    assert "rejected_stale" not in done.stderr
    assert "late result rejected" in done.stdout or "late report" in done.stdout


async def test_demo__uses_servers_and_pictures_that_it_is_given_and_leaves_them_as_they_were(
    own_servers: dict[str, str], postgres: Server, rabbitmq: Server, before: set[str], tmp_path: Path
) -> None:
    pictures = tmp_path / "my pictures"
    pictures.mkdir()
    for name in ("one.jpg", "two.png", "Zoë.webp"):
        Image.new("RGB", (400, 300), "navy").save(pictures / name)
    (pictures / "broken.jpg").write_bytes((pictures / "one.jpg").read_bytes()[:300])
    (pictures / "notes.txt").write_text("no picture")
    files = {file: file.stat().st_mtime_ns for file in pictures.iterdir()}

    figures, _ = demo(own_servers, "--images", pictures)

    assert (figures["jobs"], figures["succeeded"], figures["max_effects_per_job"]) == (5, 4, 1)
    assert figures["broker"].endswith("(given)")
    assert figures["database"].endswith("(given)")
    assert {file: file.stat().st_mtime_ns for file in pictures.iterdir()} == files
    assert roles_and_databases(postgres) == before
    assert not await queue_exists(rabbitmq.url, "brokerjobs-demo.q.default")


@pytest.fixture
def before(postgres: Server) -> Iterator[set[str]]:
    """The roles and databases before the test; what a killed demo left is dropped after it."""
    there = roles_and_databases(postgres)
    yield there
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        left = sorted(roles_and_databases(postgres) - there, key=len)
        for name in left:
            kind = (
                "role"
                if name.endswith(("_producer", "_worker", "_coordinator", "_reader", "_operator"))
                else "database"
            )
            force = sql.SQL(" with (force)" if kind == "database" else "")
            connection.execute(sql.SQL("drop {} {}{}").format(sql.SQL(kind), sql.Identifier(name), force))


@pytest.fixture
def running(own_servers: dict[str, str], tmp_path: Path, before: set[str]) -> Iterator[subprocess.Popen[str]]:
    """A demo that has just been started, with its working folder in `tmp_path`."""
    process = subprocess.Popen(
        COMMAND,
        env=own_servers | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo__stops_everything(
    running: subprocess.Popen[str], number: signal.Signals, postgres: Server, before: set[str], tmp_path: Path
) -> None:
    assert running.stderr is not None
    started = next(line for line in running.stderr if "started worker-a" in line)
    workers = [int(pid) for pid in re.findall(r"\((\d+)\)", started)]
    assert len(workers) == 2
    assert all(map(runs, workers))

    running.send_signal(number)
    rest = running.stderr.read()

    assert running.wait(30) == 128 + number, rest
    assert "Traceback" not in rest
    assert not any(map(runs, workers))
    assert not list(tmp_path.iterdir())
    assert roles_and_databases(postgres) == before


def test_killed_demo__leaves_no_process(running: subprocess.Popen[str]) -> None:
    assert running.stderr is not None
    started = next(line for line in running.stderr if "started worker-a" in line)
    workers = [int(pid) for pid in re.findall(r"\((\d+)\)", started)]

    running.kill()

    eventually_sync(lambda: not any(map(runs, workers)))


def test_demo__says_what_to_install_without_its_extra(environment: dict[str, str]) -> None:
    without = "import sys; sys.modules['PIL'] = None; from brokerjobs.cli.main import run; run()"

    done = subprocess.run(
        [sys.executable, "-c", without, "demo"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 3
    assert "pip install 'brokerjobs[demo]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_demo__refuses_a_folder_without_pictures(environment: dict[str, str], tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "empty").mkdir()

    done = subprocess.run(
        [*COMMAND, "--images", tmp_path / name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 3
    assert str(tmp_path / name) in done.stderr
    assert not re.search(r"RabbitMQ \d", done.stderr)  # nothing was started for it
    assert "Traceback" not in done.stderr
