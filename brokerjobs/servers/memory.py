"""The broker in memory, in a process of its own that ends with this one."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import processes

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_START_SECONDS = 30.0
# -P: nothing of the folder that this happens to run in is imported.
_COMMAND = (sys.executable, "-P", "-m", "brokerjobs.broker.memory")


class PrivateMemoryBroker:
    """A broker in memory, served at a socket that only this user's processes can open."""

    def __init__(self, folder: Path) -> None:
        """Prepare to serve in `folder`; use `start` instead."""
        self._folder = folder
        self._socket = folder / "socket"
        self._process: processes.ServerProcess | None = None

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Serve in `folder`, made if missing, else this user's alone; about half a second.

        Raises ConfigurationError if it is not, or its name is too long for a socket's.
        """
        folder = folder.resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        broker = cls(folder)
        broker.resume()
        return broker

    @property
    def url(self) -> str:
        """The URL, which has no secret in it."""
        return f"memory://{quote(str(self._socket))}"

    @property
    def pid(self) -> int:
        """The process id; raises ConfigurationError after `stop` or `kill`."""
        if self._process is None:
            raise ConfigurationError(f"the in-memory broker in {self._folder} is not running; call resume()")
        return self._process.pid

    def stop(self) -> None:
        """End it in order; idempotent."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it by SIGKILL; what it had is lost either way."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def freeze(self) -> None:
        """Let it stand still, with its connections open, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def resume(self) -> None:
        """Serve again after `stop` or `kill`, at the same URL and with nothing in it."""
        process = processes.ServerProcess(
            processes.Program(
                name="in-memory broker",
                arguments=[*_COMMAND, self._socket],
                log=self._folder / "broker.log",
            )
        )
        process.wait_until(self._listens, _START_SECONDS)
        self._process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket))
            except OSError:
                return False
        return True
