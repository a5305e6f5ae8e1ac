"""Starts server programs, knows when they are ready and ends them, also when this process is killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import re
import secrets
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

LOOPBACK = "127.0.0.1"
# Below Linux's range for outgoing connections (32768 and up), so that none of them takes a port between look and use.
_PORTS = range(20_000, 32_000)
_SYSTEM_PORTS = frozenset({25_672})
_POLL_SECONDS = 0.02
_LOG_LINES = 15
_COMPLAINT = re.compile("error|fatal|fail|invalid", re.IGNORECASE)
# Waits for the end of its input, which comes when the process that holds the other end dies, however it dies.
_GUARD = 'read -r _; kill -s "$1" -- "$2"'


@dataclass(frozen=True, slots=True)
class Account:
    """The user under which a server runs because it refuses to run as root."""

    name: str
    uid: int
    gid: int


def unprivileged_account() -> Account | None:
    """Tell which user stands in for root, or None if this process is not root's."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise ConfigurationError("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")


def run_as(account: Account | None, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end as `account` (None: as this process) and return its exit code and output."""
    return subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
        user=None if account is None else account.uid,
        group=None if account is None else account.gid,
        extra_groups=None if account is None else [],
    )


def free_port() -> int:
    """Find a loopback port that nothing listens on; never one of the servers' well-known ports."""
    for _ in range(1000):
        port = secrets.choice(_PORTS)
        if port in _SYSTEM_PORTS:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise ConfigurationError(f"no free port between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}")


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: argument list, environment, the file for its output, the account, and how it is ended."""

    name: str
    arguments: Sequence[str | Path]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    # What the guard sends when this process died, and whether to the program alone or to its process group.
    orphan_signal: signal.Signals = signal.SIGKILL
    orphan_group: bool = True


class ServerProcess:
    """A running server program; `stop` is idempotent and also happens at the end of this process."""

    def __init__(self, program: Program) -> None:
        self.program = program
        account = program.account
        with program.log.open("ab") as log:
            self._process = subprocess.Popen(
                program.arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **program.environment},
                cwd="/",
                # A session of its own: Ctrl-C in the terminal reaches this process, which ends its servers in order.
                start_new_session=True,
                user=None if account is None else account.uid,
                group=None if account is None else account.gid,
                extra_groups=None if account is None else [],
            )
        target = -self.pid if program.orphan_group else self.pid
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", program.orphan_signal.name.removeprefix("SIG"), str(target)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._owner = os.getpid()
        atexit.register(self.stop)

    @property
    def pid(self) -> int:
        """The process id of the server program."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the program has not ended yet."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal such as SIGSTOP or SIGCONT to the server program."""
        self._process.send_signal(number)

    def wait_until(self, ready: Callable[[], bool], within_seconds: float) -> None:
        """Return when `ready` answers True; end the program and raise ConfigurationError if it ends or is too slow."""
        end = time.monotonic() + within_seconds
        while not ready():
            if not self.running:
                raise self._failed(f"ended with exit code {self._process.returncode} while starting")
            if time.monotonic() > end:
                raise self._failed(f"was not ready within {within_seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def stop(self, within_seconds: float = 20.0) -> None:
        """End the program in order, after the given time by SIGKILL."""
        if os.getpid() != self._owner:
            return
        self._dismiss_guard()
        if self.running:
            self._process.send_signal(self.program.stop_signal)
            self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the program at once, as a crash would; nothing is written or handed over."""
        if os.getpid() != self._owner:
            return
        self._dismiss_guard()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL) if self.running else None
        self._process.wait()

    def _dismiss_guard(self) -> None:
        atexit.unregister(self.stop)
        self._guard.kill()
        self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()

    def _failed(self, problem: str) -> ConfigurationError:
        self.kill()
        lines = self.program.log.read_text(errors="replace").splitlines()
        first = next((at for at, line in enumerate(lines) if _COMPLAINT.search(line)), len(lines) - _LOG_LINES)
        return ConfigurationError(
            f"the private {self.program.name} {problem}; from its log {self.program.log}:",
            problems=tuple(lines[max(first, 0) :][:_LOG_LINES]),
        )
