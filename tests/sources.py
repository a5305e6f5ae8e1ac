"""Where the servers of a test session come from: `--servers` chooses, `tests/conftest.py` hands them out."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from brokerjobs.servers import postgres
from brokerjobs.servers.postgres import PrivatePostgres
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
from tests.containers import images

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.nodes import PostgresNode, RabbitMQNode

KINDS: Final = {
    "private": "PostgreSQL of the wheel, RabbitMQ of the system, both as private servers",
    "system": "PostgreSQL of the system's package too, as a private server",
    "containers": "both in containers that testcontainers starts",
}


class Source(Protocol):
    """Starts servers that tests may break."""

    def postgres(
        self, settings: Mapping[str, str] | None = None, *, fsync: bool = False
    ) -> AbstractContextManager[PostgresNode]:
        """A PostgreSQL server with lines of postgresql.conf."""
        ...

    def rabbitmq(self, config: str = "", advanced: str = "") -> AbstractContextManager[RabbitMQNode]:
        """A RabbitMQ node with lines of rabbitmq.conf and the text of advanced.config."""
        ...


class Programs:
    """Private servers, each in a folder of its own."""

    def __init__(self, folder: Path, *, of_the_system: bool) -> None:
        self._folder = folder
        self._binaries = postgres.find_installed_binaries() if of_the_system else None

    def postgres(
        self, settings: Mapping[str, str] | None = None, *, fsync: bool = False
    ) -> AbstractContextManager[PostgresNode]:
        """About a second."""
        return PrivatePostgres.start(self._new_folder("postgres"), settings, fsync=fsync, binaries=self._binaries)

    def rabbitmq(self, config: str = "", advanced: str = "") -> AbstractContextManager[RabbitMQNode]:
        """About six seconds."""
        return PrivateRabbitMQ.start(self._new_folder("rabbitmq"), config, advanced)

    def _new_folder(self, name: str) -> Path:
        return self._folder / f"{name}-{secrets.token_hex(4)}"


class Containers:
    """Containers."""

    def postgres(
        self, settings: Mapping[str, str] | None = None, *, fsync: bool = False
    ) -> AbstractContextManager[PostgresNode]:
        """About two seconds."""
        from tests.containers.servers import ContainerPostgres  # noqa: PLC0415  # testcontainers takes long to import

        return ContainerPostgres(settings, fsync=fsync)

    def rabbitmq(self, config: str = "", advanced: str = "") -> AbstractContextManager[RabbitMQNode]:
        """About six seconds."""
        from tests.containers.servers import ContainerRabbitMQ  # noqa: PLC0415  # as above

        return ContainerRabbitMQ(config, advanced)


def check(kind: str, variables: tuple[str, ...]) -> None:
    """Ends pytest, saying why, if the servers of this kind cannot be had."""
    given = [name for name in variables if os.environ.get(name)]
    if kind != "private" and given:
        raise pytest.UsageError(f"--servers={kind} starts its own servers, but {' and '.join(given)} is set")
    if kind == "containers":
        images.require_docker()


def source(kind: str, folder: Path) -> Source:
    """The source of this kind, with the files of private servers in `folder`."""
    return Containers() if kind == "containers" else Programs(folder, of_the_system=kind == "system")
