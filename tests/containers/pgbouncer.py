"""A private PgBouncer in transaction mode in front of a PostgreSQL server, for every login and database of it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import unquote, urlsplit

import pytest
from psycopg import AsyncConnection, Connection

from brokerjobs.servers import processes

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from types import TracebackType

    from tests.databases import Database

_START_SECONDS: Final = 20.0
# Logins are looked up in the server, so that tests may make them.  Nothing is ignored at connect: what a session would
# be told by `options=-c …` is refused, as by most installations.
_CONFIG: Final = """\
[databases]
* = host={host} port={port} auth_user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/userlist.txt
auth_query = select usename, passwd from pg_shadow where usename = $1
pool_mode = transaction
max_client_conn = 2000
default_pool_size = 40
server_login_retry = 1
query_wait_timeout = 20
log_connections = 0
log_disconnections = 0
"""

# Turns, so that the next transaction of a connection seldom has the last one's session; or never.
MODES: Final = {"pooled": "server_round_robin = 1\nmin_pool_size = 2\n", "fresh": "server_lifetime = 0\n"}

INSTALL: Final = "there is no program `pgbouncer` (Debian: `sudo apt-get install pgbouncer`)"


def program() -> str | None:
    """Where PgBouncer is; Debian keeps it where only administrators look."""
    return shutil.which("pgbouncer", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))


def version() -> tuple[int, ...]:
    """The version that is installed."""
    path = program()
    assert path is not None, INSTALL
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[1].split("."))


def require_program() -> None:
    """Ends pytest with what to install."""
    if program() is None:
        raise pytest.UsageError(INSTALL)


@contextmanager
def nothing_prepared() -> Generator[None]:
    """Tests' own connections prepare no statements, as what they stand for must not; the product's are told theirs."""
    defaults = [cast("Any", kind.connect).__func__.__kwdefaults__ for kind in (Connection, AsyncConnection)]
    before = [default["prepare_threshold"] for default in defaults]
    for default in defaults:
        default["prepare_threshold"] = None
    yield
    for default, threshold in zip(defaults, before, strict=True):
        default["prepare_threshold"] = threshold


class PgBouncer:
    """Started on a loopback port of its own; it goes with this process."""

    def __init__(self, folder: Path, admin_url: str) -> None:
        self._folder = folder
        self._server = urlsplit(admin_url)
        self._process: processes.ServerProcess | None = None
        self.port = processes.free_port()

    @classmethod
    def start(cls, folder: Path, admin_url: str, mode: str = "pooled", more: str = "") -> Self:
        """Start one for the server of this administrator, with `more` lines of pgbouncer.ini.

        Raises ConfigurationError if it does not start.
        """
        bouncer = cls(folder, admin_url)
        folder.mkdir()
        account = processes.unprivileged_account()
        bouncer._write(account, MODES[mode] + more)
        path = program()
        assert path is not None, INSTALL
        process = processes.ServerProcess(
            processes.Program(
                name="PgBouncer", arguments=[path, folder / "pgbouncer.ini"], log=folder / "log", account=account
            )
        )
        process.wait_until(bouncer._listens, _START_SECONDS)
        bouncer._process = process
        return bouncer

    def before(self, database: Database) -> Database:
        """A database whose logins, but the administrator's, go through this PgBouncer."""
        return database.through(processes.LOOPBACK, self.port)

    def stop(self) -> None:
        """End it; idempotent."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write(self, account: processes.Account | None, more: str) -> None:
        user, password = (unquote(part or "") for part in (self._server.username, self._server.password))
        texts = {
            "pgbouncer.ini": _CONFIG.format(
                host=self._server.hostname,
                port=self._server.port or 5432,
                user=user,
                own_port=self.port,
                folder=self._folder,
            )
            + more,
            "userlist.txt": f'"{user}" "{password}"\n',
        }
        for name, text in texts.items():
            file = self._folder / name
            file.touch(mode=0o600)
            file.write_text(text)
            if account is not None:
                os.chown(file, account.uid, account.gid)

    def _listens(self) -> bool:
        try:
            socket.create_connection((processes.LOOPBACK, self.port), timeout=1.0).close()
        except OSError:
            return False
        return True
