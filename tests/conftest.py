"""The servers, databases and names that tests ask for by the name of a parameter.

`BROKERJOBS_TEST_DATABASE_URL` and `BROKERJOBS_TEST_BROKER_URL` name servers to use (with an administrator's login),
otherwise private ones are started for the session, or those that `--servers` chooses.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import psycopg
import pytest

from brokerjobs.servers import finder
from brokerjobs.servers.processes import LOOPBACK
from tests import sources
from tests.containers import pgbouncer
from tests.containers.pgbouncer import PgBouncer
from tests.databases import Database, Databases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from brokerjobs.servers.finder import Server
    from tests.nodes import PostgresNode, RabbitMQNode

_GIVEN = tuple(f"{finder.TEST_PREFIX}_{name}_URL" for name in ("DATABASE", "BROKER"))


class RabbitMQFactory(Protocol):
    """Starts a RabbitMQ node of a test module's own; about six seconds, so share it in the module."""

    def __call__(self, config: str = "", advanced: str = "") -> RabbitMQNode: ...


class PostgresFactory(Protocol):
    """Starts a PostgreSQL server of a test module's own; about a second."""

    def __call__(self, settings: Mapping[str, str] | None = None, *, fsync: bool = False) -> PostgresNode: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """The choice of servers."""
    choices = "; ".join(f"{kind}: {what}" for kind, what in sources.KINDS.items())
    group = parser.getgroup("brokerjobs")
    through = "the logins of tests go through PgBouncer in transaction mode"
    group.addoption("--pgbouncer", action="store_const", const="pooled", help=through)
    fresh = f"{through}, which gives each transaction a session that nobody had before"
    group.addoption("--pgbouncer-fresh", action="store_const", const="fresh", dest="pgbouncer", help=fresh)
    group.addoption("--servers", choices=tuple(sources.KINDS), default="private", help=f"{choices} (private)")


def pytest_configure(config: pytest.Config) -> None:
    """Says at once if the servers that were chosen cannot be had; lets programs be interrupted."""
    sources.check(_kind(config), _GIVEN)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell's job in the background has it; programs that tests start and interrupt would have it, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("pgbouncer"):
        pgbouncer.require_program()


def pytest_report_header(config: pytest.Config) -> str:
    """Names them."""
    mode = config.getoption("pgbouncer")
    through = f"; through PgBouncer in transaction mode, {mode} sessions" if mode else ""
    return f"servers: {_kind(config)} ({sources.KINDS[_kind(config)]}){through}"


def _kind(config: pytest.Config) -> str:
    return str(config.getoption("servers"))


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder for server data that an unprivileged server can enter, which pytest's own folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="brokerjobs-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def source(server_folder: Path, pytestconfig: pytest.Config) -> sources.Source:
    """Starts servers that tests may break, of the kind that was chosen."""
    return sources.source(_kind(pytestconfig), server_folder)


@pytest.fixture(scope="session", autouse=True)
def chosen_servers(source: sources.Source, pytestconfig: pytest.Config) -> Iterator[None]:
    """Servers of a kind that was chosen count as given ones, so that programs which tests start use them, too."""
    kind = _kind(pytestconfig)
    with ExitStack() as started, pytest.MonkeyPatch.context() as environment:
        if kind != "private":
            environment.setenv(_GIVEN[0], started.enter_context(source.postgres()).url)
        if kind == "containers":
            environment.setenv(_GIVEN[1], started.enter_context(source.rabbitmq()).url)
        yield


@pytest.fixture(scope="session")
def postgres(server_folder: Path, chosen_servers: None) -> Iterator[Server]:
    """The PostgreSQL server of the session; `.url` is its administrator's."""
    server = finder.find_postgres(server_folder, prefix=finder.TEST_PREFIX, fsync=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rabbitmq(server_folder: Path, chosen_servers: None) -> Iterator[Server]:
    """The RabbitMQ server of the session; `.url` is its administrator's."""
    server = finder.find_rabbitmq(server_folder, prefix=finder.TEST_PREFIX)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def front(postgres: Server, server_folder: Path, pytestconfig: pytest.Config) -> Iterator[tuple[str, int] | None]:
    """Where the PgBouncer is that the logins of tests go through, with `--pgbouncer`."""
    mode = pytestconfig.getoption("pgbouncer")
    if not mode:
        yield None
        return
    folder = server_folder / "pgbouncer"
    with PgBouncer.start(folder, postgres.url, mode) as bouncer, pgbouncer.nothing_prepared():
        yield LOOPBACK, bouncer.port


@pytest.fixture(scope="session")
def databases(postgres: Server, front: tuple[str, int] | None) -> Iterator[Databases]:
    """Makes databases; for tests that need more than the one of `database`."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        made = Databases(postgres.url, connection, front)
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
def rabbitmq_factory(source: sources.Source) -> Iterator[RabbitMQFactory]:
    """Starts nodes with a configuration of their own; they end with the module."""
    with ExitStack() as started:

        def start(config: str = "", advanced: str = "") -> RabbitMQNode:
            return started.enter_context(source.rabbitmq(config, advanced))

        yield start


@pytest.fixture(scope="module")
def postgres_factory(source: sources.Source) -> Iterator[PostgresFactory]:
    """Starts PostgreSQL servers with settings of their own; they end with the module."""
    with ExitStack() as started:

        def start(settings: Mapping[str, str] | None = None, *, fsync: bool = False) -> PostgresNode:
            return started.enter_context(source.postgres(settings, fsync=fsync))

        yield start
