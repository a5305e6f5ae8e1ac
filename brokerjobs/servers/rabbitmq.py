"""A private RabbitMQ node from an installed rabbitmq-server, with ports, epmd, cookie and folders of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import processes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_START_SECONDS = 60.0
_CTL_SECONDS = 60.0
_STARTED = "Server startup complete"  # what RabbitMQ logs, from 3.8 to 4.x, when its start has ended
_SCRIPTS = Path("/usr/lib/rabbitmq/bin")
# AMQP 0-9-1, section 4.2.2: a client opens with these bytes, a server that is ready answers with a method frame (1).
_PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
_METHOD_FRAME = b"\x01"
# Two schedulers that sleep when idle: several nodes share a small machine.
_ERLANG = "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
_LOOPBACK_ONLY = "-kernel inet_dist_use_interface {127,0,0,1}"
_CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
default_user = {user}
default_pass = {password}
default_user_tags.administrator = true
disk_free_limit.absolute = 50MB
log.file.level = info
"""


class PrivateRabbitMQ:
    """A running RabbitMQ node with its own name, loopback ports, cookie, epmd, data folder and user."""

    def __init__(self, folder: Path, scripts: Path) -> None:
        """Prepare a node in `folder`; use `start` instead."""
        self._folder = folder
        self._scripts = scripts
        self._user = f"u{secrets.token_hex(4)}"
        self._password = secrets.token_hex(16)
        self._node_name = f"bj{secrets.token_hex(4)}@localhost"
        self._epmd_port = processes.free_port()
        self._distribution_port = processes.free_port()
        self._epmd: processes.ServerProcess | None = None
        self._process: processes.ServerProcess | None = None
        self.port = processes.free_port()

    @classmethod
    def start(cls, folder: Path, config: str = "", advanced: str = "") -> Self:
        """Start a node with its files in `folder` (made if missing, else empty); about five seconds.

        `config` is appended to rabbitmq.conf, `advanced` is the text of advanced.config (an Erlang term list).
        Raises ConfigurationError if RabbitMQ is not installed or the node does not start.
        """
        node = cls(folder.resolve(), find_scripts())
        node._write_files(config, advanced)
        node.resume()
        return node

    @property
    def url(self) -> str:
        """The AMQP URL of the node's one user, an administrator, in the virtual host `/`."""
        return f"amqp://{self._user}:{self._password}@{processes.LOOPBACK}:{self.port}/"

    @property
    def pid(self) -> int:
        """The process id of the Erlang machine; raises ConfigurationError after `stop` or `kill`."""
        if self._process is None:
            raise ConfigurationError(f"the private RabbitMQ in {self._folder} is not running; call resume()")
        return self._process.pid

    def ctl(self, *arguments: str) -> str:
        """Run `rabbitmqctl` against the node and return its output; a second or two.

        Raises ConfigurationError with what it printed if it fails.
        """
        done = subprocess.run(
            [self._scripts / "rabbitmqctl", "-q", "-n", self._node_name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **self._environment()},
            timeout=_CTL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise ConfigurationError(
                f"rabbitmqctl {' '.join(arguments)} ended with exit code {done.returncode}:",
                problems=tuple((done.stdout + done.stderr).splitlines()),
            )
        return done.stdout

    def log_text(self) -> str:
        """What the node has logged."""
        return "".join(file.read_text() for file in sorted((self._folder / "log").glob("*.log")))

    def stop_app(self) -> None:
        """Stop the broker inside the node: connections are closed, the port is shut, the data stay."""
        self.ctl("stop_app")

    def start_app(self) -> None:
        """Start the broker inside the node again and wait until it takes connections."""
        self.ctl("start_app")

    def freeze(self) -> None:
        """Let the node stand still, with its connections open, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the node go on."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End the node in order, then its epmd; idempotent."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        self._stop_epmd()

    def kill(self) -> None:
        """End the node by SIGKILL, as a crash of its machine would, then its epmd."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._stop_epmd()

    def resume(self) -> None:
        """Start the node again after `stop` or `kill`, on the same ports with the same data."""
        self._epmd = processes.ServerProcess(
            processes.Program(
                name="epmd",
                arguments=[_find_epmd(), "-address", processes.LOOPBACK, "-port", str(self._epmd_port)],
                log=self._folder / "epmd.log",
            )
        )
        self._epmd.wait_until(lambda: _listens(self._epmd_port), _START_SECONDS)
        started = self._starts()
        process = processes.ServerProcess(
            processes.Program(
                name="RabbitMQ",
                arguments=[self._scripts / "rabbitmq-server"],
                log=self._folder / "rabbitmq.log",
                # As under systemd the start script then becomes the Erlang machine, whose process id is ours to signal.
                environment={**self._environment(), "RUNNING_UNDER_SYSTEMD": "true"},
                stop_signal=signal.SIGTERM,
            )
        )
        try:
            # It takes connections shortly before it counts as running: `rabbitmqctl` would still be refused then.
            process.wait_until(lambda: self._starts() > started and speaks_amqp(self.port), _START_SECONDS)
        except BaseException:
            process.kill()
            self._stop_epmd()
            raise
        self._process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _starts(self) -> int:
        """How often the node's log says that its start has ended."""
        return self.log_text().count(_STARTED)

    def _stop_epmd(self) -> None:
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd = None

    def _write_files(self, config: str, advanced: str) -> None:
        for name in ("home", "data", "log", "generated", "plugins"):
            (self._folder / name).mkdir(parents=True)
        _write_private(self._folder / "home" / ".erlang.cookie", secrets.token_hex(20))
        _write_private(
            self._folder / "rabbitmq.conf",
            _CONFIG.format(port=self.port, user=self._user, password=self._password) + config,
        )
        (self._folder / "advanced.config").write_text(advanced or "[].\n")
        (self._folder / "enabled_plugins").write_text("[].\n")

    def _environment(self) -> Mapping[str, str]:
        folder = self._folder
        return {
            "HOME": str(folder / "home"),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": processes.LOOPBACK,
            "RABBITMQ_NODENAME": self._node_name,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(folder / "conf.d"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(folder / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(folder / "feature_flags"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{_ERLANG} {_LOOPBACK_ONLY}",
            "RABBITMQ_CTL_ERL_ARGS": f"+S 1:1 {_LOOPBACK_ONLY}",
            "ERL_CRASH_DUMP_SECONDS": "0",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
        }


def find_scripts() -> Path:
    """Find the folder with RabbitMQ's own scripts (on Debian those on the PATH switch to a system user).

    Raises ConfigurationError if there is none.
    """
    places = [_SCRIPTS]
    on_path = shutil.which("rabbitmq-server")
    if on_path is not None:
        places.append(Path(on_path).resolve().parent)
    for place in places:
        if (place / "rabbitmq-server").is_file() and (place / "rabbitmqctl").is_file():
            return place
    raise ConfigurationError("rabbitmq-server is not installed")


def speaks_amqp(port: int) -> bool:
    """Whether a broker on this loopback port answers AMQP's opening bytes with its first method."""
    try:
        with socket.create_connection((processes.LOOPBACK, port), timeout=2.0) as connection:
            connection.sendall(_PROTOCOL_HEADER)
            return connection.recv(1) == _METHOD_FRAME
    except OSError:
        return False


def _listens(port: int) -> bool:
    try:
        with socket.create_connection((processes.LOOPBACK, port), timeout=2.0):
            return True
    except OSError:
        return False


def _find_epmd() -> Path:
    """Find Erlang's port mapper: on the PATH, else beside the Erlang machine that `erl` starts."""
    on_path = shutil.which("epmd")
    if on_path is not None:
        return Path(on_path)
    erl = shutil.which("erl")
    if erl is not None:
        for place in Path(erl).resolve().parents[1].glob("erts-*/bin/epmd"):
            return place
    raise ConfigurationError("Erlang's epmd is not installed; on Debian it comes with the package erlang-base")


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
