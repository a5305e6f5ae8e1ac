"""RabbitMQ in a container, where Docker runs and the server is not installed."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Self

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import processes
from brokerjobs.servers.rabbitmq import speaks_amqp

if TYPE_CHECKING:
    from collections.abc import Mapping

IMAGE = "rabbitmq:4-management"
_COMMAND_SECONDS = 60.0
_PULL_SECONDS = 300.0
_START_SECONDS = 60.0
_POLL_SECONDS = 0.1


class ContainerRabbitMQ:
    """A RabbitMQ container on a loopback port; it is removed by `stop` or at the end of this process."""

    def __init__(self, container: str, port: int, user: str, password: str) -> None:
        """Take over a container that was started; use `start` instead."""
        self._container = container
        self._running = True
        self.url = f"amqp://{user}:{password}@{processes.LOOPBACK}:{port}/"
        atexit.register(self.stop)

    @classmethod
    def start(cls) -> Self:
        """Run the image and wait until it takes connections; raises ConfigurationError if it does not."""
        user, password = f"u{secrets.token_hex(4)}", secrets.token_hex(16)
        # Passed through the environment, where other users of the machine cannot read it in the list of processes.
        secret = {"RABBITMQ_DEFAULT_USER": user, "RABBITMQ_DEFAULT_PASS": password}
        names = [word for name in secret for word in ("--env", name)]
        publish = f"{processes.LOOPBACK}::5672"
        run = ["run", "--detach", "--rm", "--publish", publish, *names, IMAGE]
        container = _docker(run, environment=secret).strip()
        port = int(_docker(["port", container, "5672/tcp"]).splitlines()[0].rpartition(":")[2])
        server = cls(container, port, user, password)
        end = time.monotonic() + _START_SECONDS
        while not speaks_amqp(port):
            if time.monotonic() > end:
                server.stop()
                raise ConfigurationError(f"RabbitMQ in the container {container[:12]} was not ready within 60 s")
            time.sleep(_POLL_SECONDS)
        return server

    def stop(self) -> None:
        """Stop and so remove the container; idempotent."""
        if self._running:
            self._running = False
            atexit.unregister(self.stop)
            _docker(["stop", "--time", "3", self._container])


def can_run() -> bool:
    """Whether Docker runs here and the image is on this machine or can be pulled."""
    if shutil.which("docker") is None:
        return False
    try:
        _docker(["info"])
    except ConfigurationError:
        return False
    for command in (["image", "inspect", IMAGE], ["pull", "--quiet", IMAGE]):
        try:
            _docker(command, within_seconds=_PULL_SECONDS)
        except ConfigurationError:
            continue
        return True
    return False


def _docker(
    arguments: list[str],
    *,
    environment: Mapping[str, str] | None = None,
    within_seconds: float = _COMMAND_SECONDS,
) -> str:
    try:
        done = subprocess.run(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            timeout=within_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"`docker {arguments[0]}` gave no answer within {within_seconds:g} s") from error
    if done.returncode != 0:
        raise ConfigurationError(
            f"`docker {arguments[0]}` ended with exit code {done.returncode}:",
            problems=tuple(done.stderr.splitlines()[-10:]),
        )
    return done.stdout
