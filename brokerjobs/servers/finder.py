"""Decides which PostgreSQL and RabbitMQ the demo and the tests use, and starts what has to be started.

PostgreSQL: a URL in the environment, else a private server. RabbitMQ: a URL in the environment, an installed
rabbitmq-server, the one that the package manager brings (as root), a running Docker; where there is none the demo takes
the broker in memory, and tests end with an error that names the packages to install. The variables are
`BROKERJOBS_DEMO_…` or `BROKERJOBS_TEST_…`, never those of production.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, Self

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import containers, packages, rabbitmq
from brokerjobs.servers.memory import PrivateMemoryBroker
from brokerjobs.servers.postgres import PrivatePostgres
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path
    from types import TracebackType

DEMO_PREFIX = "BROKERJOBS_DEMO"
TEST_PREFIX = "BROKERJOBS_TEST"


class Source(Enum):
    """Where a broker comes from, the best first; the value completes "RabbitMQ by …"."""

    GIVEN = "a URL"
    INSTALLED = "the installed rabbitmq-server"
    PACKAGES = "apt-get"
    DOCKER = "Docker"
    MEMORY = "no means"
    """Not RabbitMQ, but the broker in memory."""


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
    source = choose_broker(prefix)
    if source is Source.MEMORY:
        raise ConfigurationError("there is no RabbitMQ; do one of these:", problems=ways_to_rabbitmq(prefix))
    return _start(source, folder, announce, prefix)


def find_broker(
    folder: Path, announce: Callable[[str], None] = print, *, source: Source | None = None, prefix: str = DEMO_PREFIX
) -> Server:
    """Start the broker of `source`, or the best there is; where RabbitMQ cannot be had, the one in memory.

    Raises ConfigurationError if a RabbitMQ that was named or is installed cannot be used.
    """
    failed: set[Source] = set()
    source = source or choose_broker(prefix)
    while True:
        try:
            return _start(source, folder, announce, prefix)
        except ConfigurationError as error:
            if source not in {Source.PACKAGES, Source.DOCKER}:
                raise
            failed.add(source)
            announce(f"RabbitMQ could not be had by {source.value}: {error}")
        source = choose_broker(prefix, failed)
        if source is Source.MEMORY:
            announce(why_memory(prefix))


def choose_broker(prefix: str = DEMO_PREFIX, failed: Collection[Source] = ()) -> Source:
    """Choose where the broker comes from, without starting it; Docker may first pull the image, for minutes."""
    return next(source for source in Source if source not in failed and _can(source, prefix))


def why_memory(prefix: str = DEMO_PREFIX) -> str:
    """Return what is said of the broker in memory before it is used."""
    return (
        "in-memory broker, because RabbitMQ cannot be had: it is not installed, this user may not install it, and "
        "Docker does not bring it.  For RabbitMQ, " + "; or ".join(ways_to_rabbitmq(prefix))
    )


def ways_to_rabbitmq(prefix: str) -> tuple[str, ...]:
    """Return what a reader may do to have RabbitMQ."""
    return (
        "install the package rabbitmq-server, for example by `sudo apt-get install rabbitmq-server`",
        f"start Docker with the image {containers.IMAGE}",
        f"set {prefix}_BROKER_URL to the amqp:// URL of a server that may be used for this",
    )


def _can(source: Source, prefix: str) -> bool:
    match source:
        case Source.GIVEN:
            return bool(os.environ.get(f"{prefix}_BROKER_URL"))
        case Source.INSTALLED:
            return _is_installed()
        case Source.PACKAGES:
            return packages.can_install()
        case Source.DOCKER:
            return containers.can_run()
        case Source.MEMORY:
            return True


def _start(source: Source, folder: Path, announce: Callable[[str], None], prefix: str) -> Server:
    match source:
        case Source.GIVEN:
            return GivenServer(os.environ[f"{prefix}_BROKER_URL"])
        case Source.INSTALLED:
            return PrivateRabbitMQ.start(folder / "rabbitmq")
        case Source.PACKAGES:
            packages.install_rabbitmq(announce)
            return PrivateRabbitMQ.start(folder / "rabbitmq")
        case Source.DOCKER:
            announce(f"RabbitMQ is not installed: starting the image {containers.IMAGE} with Docker.")
            return containers.ContainerRabbitMQ.start()
        case Source.MEMORY:
            return PrivateMemoryBroker.start(folder / "memory")


def _is_installed() -> bool:
    try:
        rabbitmq.find_scripts()
    except ConfigurationError:
        return False
    return True


def provide_rabbitmq(announce: Callable[[str], None] = print) -> bool:
    """Whether rabbitmq-server is installed, after installing it where this process may install packages."""
    if _is_installed():
        return True
    if not packages.can_install():
        return False
    packages.install_rabbitmq(announce)
    rabbitmq.find_scripts()
    return True
