"""Decides which PostgreSQL and RabbitMQ the demo and the tests use, and starts what has to be started.

PostgreSQL: a URL in the environment, else a private server. RabbitMQ: a URL in the environment, an installed
rabbitmq-server, the one that the package manager brings (as root), a running Docker, else an error that names the
packages to install. The variables are `BROKERJOBS_DEMO_…` or `BROKERJOBS_TEST_…`, never those of production.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import containers, packages, rabbitmq
from brokerjobs.servers.postgres import PrivatePostgres
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

DEMO_PREFIX = "BROKERJOBS_DEMO"
TEST_PREFIX = "BROKERJOBS_TEST"


class Server(Protocol):
    """What every server here has."""

    @property
    def url(self) -> str:
        """The URL of its administrator."""
        ...

    def stop(self) -> None:
        """End it; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class GivenServer:
    """A server that somebody else runs, named by a URL in the environment."""

    url: str

    def stop(self) -> None:
        """Leave it as it is."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The two servers of one demo or test run; leaving the context ends those that were started for it."""

    postgres: Server
    rabbitmq: Server

    @property
    def database_url(self) -> str:
        """The URL of PostgreSQL's administrator."""
        return self.postgres.url

    @property
    def broker_url(self) -> str:
        """The URL of RabbitMQ's administrator."""
        return self.rabbitmq.url

    def stop(self) -> None:
        """End the servers that were started; idempotent."""
        try:
            self.rabbitmq.stop()
        finally:
            self.postgres.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def find_servers(folder: Path, announce: Callable[[str], None] = print, *, prefix: str = DEMO_PREFIX) -> Servers:
    """Find or start both servers, with their files in `folder`; about six seconds, more if something is installed.

    Raises ConfigurationError, naming what to install, if one of them cannot be had.
    """
    with ThreadPoolExecutor(1) as pool:
        postgres = pool.submit(find_postgres, folder, prefix=prefix)
        try:
            broker = find_rabbitmq(folder, announce, prefix=prefix)
        except BaseException:
            postgres.result().stop()
            raise
        try:
            return Servers(postgres.result(), broker)
        except BaseException:
            broker.stop()
            raise


def find_postgres(folder: Path, *, prefix: str = DEMO_PREFIX, fsync: bool = True) -> Server:
    """Take PostgreSQL from `{prefix}_DATABASE_URL`, else start a private one in `folder`/postgres."""
    given = os.environ.get(f"{prefix}_DATABASE_URL")
    return GivenServer(given) if given else PrivatePostgres.start(folder / "postgres", fsync=fsync)


def find_rabbitmq(folder: Path, announce: Callable[[str], None] = print, *, prefix: str = DEMO_PREFIX) -> Server:
    """Take RabbitMQ from `{prefix}_BROKER_URL`, else start one in `folder`/rabbitmq or in a container."""
    given = os.environ.get(f"{prefix}_BROKER_URL")
    if given:
        return GivenServer(given)
    if provide_rabbitmq(announce):
        return PrivateRabbitMQ.start(folder / "rabbitmq")
    if containers.can_run():
        announce(f"RabbitMQ is not installed: starting the image {containers.IMAGE} with Docker.")
        return containers.ContainerRabbitMQ.start()
    raise ConfigurationError(
        "there is no RabbitMQ; do one of these:",
        problems=(
            "install the package rabbitmq-server, for example by `sudo apt-get install rabbitmq-server`",
            f"start Docker with the image {containers.IMAGE}",
            f"set {prefix}_BROKER_URL to the amqp:// URL of a server that may be used for this",
        ),
    )


def provide_rabbitmq(announce: Callable[[str], None] = print) -> bool:
    """Whether rabbitmq-server is installed, after installing it where this process may install packages."""
    try:
        rabbitmq.find_scripts()
    except ConfigurationError:
        if not packages.can_install():
            return False
        packages.install_rabbitmq(announce)
        rabbitmq.find_scripts()
    return True
