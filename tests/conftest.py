"""The servers, databases and names that tests ask for by the name of a parameter.

`BROKERJOBS_TEST_DATABASE_URL` and `BROKERJOBS_TEST_BROKER_URL` name servers to use (with an administrator's login),
otherwise private ones are started for the session.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import psycopg
import pytest

from brokerjobs.servers import finder
from brokerjobs.servers.postgres import PrivatePostgres
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
from tests.databases import Database, Databases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from brokerjobs.servers.finder import Server


class RabbitMQFactory(Protocol):
    """Starts a RabbitMQ node of a test module's own; about six seconds, so share it in the module."""

    def __call__(self, config: str = "", advanced: str = "") -> PrivateRabbitMQ: ...


class PostgresFactory(Protocol):
    """Starts a PostgreSQL server of a test module's own; about a second."""

    def __call__(self, settings: Mapping[str, str] | None = None, *, fsync: bool = False) -> PrivatePostgres: ...


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder for server data that an unprivileged server can enter, which pytest's own folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="brokerjobs-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(server_folder: Path) -> Iterator[Server]:
    """The PostgreSQL server of the session; `.url` is its administrator's."""
    server = finder.find_postgres(server_folder, prefix=finder.TEST_PREFIX, fsync=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rabbitmq(server_folder: Path) -> Iterator[Server]:
    """The RabbitMQ server of the session; `.url` is its administrator's."""
    server = finder.find_rabbitmq(server_folder, prefix=finder.TEST_PREFIX)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(postgres: Server) -> Iterator[Databases]:
    """Makes databases; for tests that need more than the one of `database`."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        made = Databases(postgres.url, connection)
        yield made
        made.close()


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    """A fresh ledger of the test's own."""
    made = databases.with_ledger()
    yield made
    databases.drop(made)


@pytest.fixture
def blank_database(databases: Databases) -> Iterator[Database]:
    """A database without a ledger."""
    made = databases.blank()
    yield made
    databases.drop(made)


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses, so that all of them can share one broker."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def broker_url(rabbitmq: Server) -> str:
    """The AMQP URL of the session's broker."""
    return rabbitmq.url


@pytest.fixture(scope="module")
def rabbitmq_factory(server_folder: Path) -> Iterator[RabbitMQFactory]:
    """Starts nodes with a configuration of their own; they end with the module."""
    with ExitStack() as started:

        def start(config: str = "", advanced: str = "") -> PrivateRabbitMQ:
            folder = server_folder / f"rabbitmq-{secrets.token_hex(4)}"
            return started.enter_context(PrivateRabbitMQ.start(folder, config, advanced))

        yield start


@pytest.fixture(scope="module")
def postgres_factory(server_folder: Path) -> Iterator[PostgresFactory]:
    """Starts PostgreSQL servers with settings of their own; they end with the module."""
    with ExitStack() as started:

        def start(settings: Mapping[str, str] | None = None, *, fsync: bool = False) -> PrivatePostgres:
            folder = server_folder / f"postgres-{secrets.token_hex(4)}"
            return started.enter_context(PrivatePostgres.start(folder, settings, fsync=fsync))

        yield start
