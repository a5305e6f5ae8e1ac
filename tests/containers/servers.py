"""PostgreSQL and RabbitMQ in containers that testcontainers starts, with the handles that private servers have.

Ports are chosen here, not by Docker, which gives a container another one when it starts again.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, cast

import psycopg

# Before testcontainers reads them: ports are looked for where they are published, and the guard below takes the place
# of its own container that removes others.
os.environ.setdefault("TESTCONTAINERS_CONNECTION_MODE", "docker_host")
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
from testcontainers.core.container import DockerContainer

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers.processes import LOOPBACK, free_port
from brokerjobs.servers.rabbitmq import speaks_amqp
from tests.containers import images

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

_START_SECONDS: Final = 90.0
_STOP_SECONDS: Final = 20
_POLL_SECONDS: Final = 0.05
_LOG_LINES: Final = 15
# Schedulers that sleep when idle: several nodes share a small machine.
_IDLE: Final = "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
_DATA: Final = "/var/lib/postgresql/data"
# Waits for the end of its input, which comes when this process dies, however it dies.
_GUARD: Final = 'read -r _; docker rm --force --volumes "$1" >/dev/null 2>&1'


class _ContainerServer:
    """One container with one port of it on loopback; it goes with this process."""

    def __init__(self, prepared: DockerContainer, inner_port: int, ready: Callable[[], bool]) -> None:
        self.port = free_port()
        # The annotation of testcontainers knows ports on all addresses alone; Docker's client takes an address too.
        cast("dict[str, Any]", prepared.ports)[f"{inner_port}/tcp"] = (LOOPBACK, self.port)
        self._ready = ready
        self._handle = prepared
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def _container(self) -> Any:
        return self._handle.get_wrapped_container()

    def _begin(self) -> None:
        try:
            self._handle.start()
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "guard", self._handle.get_container_id()],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            self._wait()
        except BaseException:
            self.remove()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while not self._ready():
            if not self._runs() or time.monotonic() > end:
                lines = self.log_text().splitlines()[-_LOG_LINES:]
                message = f"the container of {self._handle.image} is {self._container.status} and not ready; its log:"
                raise ConfigurationError(message, problems=tuple(lines))
            time.sleep(_POLL_SECONDS)

    def _runs(self) -> bool:
        self._container.reload()
        return bool(self._container.status in {"created", "running"})

    def log_text(self) -> str:
        """What it has logged."""
        return str(self._container.logs().decode(errors="replace"))

    def stop(self) -> None:
        """End the server in order; idempotent."""
        self._container.stop(timeout=_STOP_SECONDS)

    def kill(self) -> None:
        """End the server as a crash would."""
        self._container.kill("SIGKILL")
        self._container.wait(timeout=_STOP_SECONDS)

    def resume(self) -> None:
        """Start it again after `stop` or `kill`, on the same port with the same data."""
        self._container.start()
        self._wait()

    def freeze(self) -> None:
        """Let it stand still, with its connections open, until `thaw`."""
        self._container.pause()

    def thaw(self) -> None:
        """Let it go on."""
        self._container.unpause()

    def remove(self) -> None:
        """Remove the container with its data; idempotent."""
        with suppress(Exception):  # it may never have come about
            self._handle.stop()
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            cast("Any", self._guard.stdin).close()
            self._guard = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class ContainerPostgres(_ContainerServer):
    """PostgreSQL 17."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, fsync: bool = False) -> None:
        quick = {} if fsync else {"fsync": "off", "full_page_writes": "off"}
        arguments = [f"-c{name}={value}" for name, value in {**quick, **(settings or {})}.items()]
        self._password = secrets.token_hex(12)
        prepared = DockerContainer(images.image("POSTGRES_IMAGE")).with_command(["postgres", *arguments])
        super().__init__(prepared.with_env("POSTGRES_PASSWORD", self._password), 5432, self._answers)
        self._begin()

    @property
    def url(self) -> str:
        """The URL of the superuser in the database `postgres`."""
        return f"postgresql://postgres:{self._password}@{LOOPBACK}:{self.port}/postgres"

    def stop(self) -> None:
        """End the server in order (connections are closed); idempotent."""
        self._shut_down("fast")

    def kill(self) -> None:
        """End the server as a crash of it would: no checkpoint is written and the next start recovers."""
        self._shut_down("immediate")

    def _shut_down(self, mode: str) -> None:
        # Not by a signal to the container: its first process may be one that watches the server.
        if self._runs():
            self._container.exec_run(["pg_ctl", "stop", "-D", _DATA, "-m", mode], user="postgres")
            self._container.wait(timeout=_STOP_SECONDS)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class ContainerRabbitMQ(_ContainerServer):
    """RabbitMQ 4.0."""

    def __init__(self, config: str = "", advanced: str = "") -> None:
        user, password = f"u{secrets.token_hex(4)}", secrets.token_hex(16)
        prepared = (
            DockerContainer(images.image("RABBITMQ_IMAGE"), hostname="rabbitmq")  # its data are kept by host name
            .with_envs(RABBITMQ_DEFAULT_USER=user, RABBITMQ_DEFAULT_PASS=password)
            .with_env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", _IDLE)
            .with_copy_into_container(config.encode(), "/etc/rabbitmq/conf.d/90-test.conf")
            .with_copy_into_container((advanced or "[].\n").encode(), "/etc/rabbitmq/advanced.config")
        )
        super().__init__(prepared, 5672, lambda: speaks_amqp(self.port))
        self.url = f"amqp://{user}:{password}@{LOOPBACK}:{self.port}/"
        self._begin()

    def ctl(self, *arguments: str) -> str:
        """Run `rabbitmqctl` in the container; raises ConfigurationError with what it printed if it fails."""
        code, output = self._container.exec_run(["rabbitmqctl", "-q", *arguments])
        text = cast("bytes", output).decode(errors="replace")
        if code != 0:
            message = f"rabbitmqctl {' '.join(arguments)} ended with exit code {code}:"
            raise ConfigurationError(message, problems=tuple(text.splitlines()))
        return text

    def stop_app(self) -> None:
        """Stop the broker inside the node: connections are closed, the data stay."""
        self.ctl("stop_app")

    def start_app(self) -> None:
        """Start the broker inside the node again and wait until it takes connections."""
        self.ctl("start_app")
