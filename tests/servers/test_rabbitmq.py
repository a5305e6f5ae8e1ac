from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aio_pika import connect
from aio_pika.exceptions import AMQPConnectionError

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import rabbitmq
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ, speaks_amqp
from tests import processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def installed(pytestconfig: pytest.Config) -> None:
    """These test private nodes themselves, whatever the other tests use."""
    try:
        rabbitmq.find_scripts()
    except ConfigurationError as error:
        if pytestconfig.getoption("servers") == "containers":
            pytest.skip(f"{error}: RabbitMQ comes from Docker here")
        raise


@pytest.fixture(scope="module")
def node(server_folder: Path) -> Iterator[PrivateRabbitMQ]:
    advanced = "[{rabbit, [{consumer_timeout, 5000}]}].\n"
    with PrivateRabbitMQ.start(server_folder / "rabbitmq-here", "channel_max = 99\n", advanced) as started:
        yield started


async def test_start__takes_its_own_user_and_configuration(node: PrivateRabbitMQ) -> None:
    async with await connect(node.url) as connection:
        assert connection.transport is not None
        assert connection.transport.connection.connection_tune.channel_max == 99

    assert node.ctl("eval", "application:get_env(rabbit, consumer_timeout).").strip() == "{ok,5000}"


async def test_start__has_no_guest(node: PrivateRabbitMQ) -> None:
    with pytest.raises(AMQPConnectionError):
        await connect(f"amqp://guest:guest@127.0.0.1:{node.port}/")


def test_ctl__says_what_failed(node: PrivateRabbitMQ) -> None:
    with pytest.raises(ConfigurationError, match="list_nonsense"):
        node.ctl("list_nonsense")


def test_stop_app__shuts_the_port_until_start_app(node: PrivateRabbitMQ) -> None:
    node.stop_app()
    assert not speaks_amqp(node.port)

    node.start_app()
    assert speaks_amqp(node.port)


async def test_kill__keeps_durable_queues_and_resume_the_url(node: PrivateRabbitMQ) -> None:
    url, pid = node.url, node.pid
    async with await connect(url) as connection, connection.channel() as channel:
        await channel.declare_queue("kept", durable=True)

    node.kill()
    assert not processes.runs(pid)
    node.resume()

    assert node.url == url
    async with await connect(url) as connection, connection.channel() as channel:
        await channel.get_queue("kept", ensure=True)


def test_start__shows_the_log_of_a_node_that_ends(server_folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="nonsense"):
        PrivateRabbitMQ.start(server_folder / "refused-node", "nonsense.of.ours = 1\n")
