"""Looking at the broker: with few rights, and through its management API."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker import inspection, management, topology
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.inspection import Standing
from brokerjobs.errors import BrokerUnavailable, ConfigurationError, PermissionDenied
from brokerjobs.servers import processes
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
from tests.broker.test_rights import NOTHING, login
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from tests.nodes import RabbitMQNode


async def test_inspect__with_the_right_to_configure_sees_everything(node: RabbitMQNode, node_route: str) -> None:
    wanted = topology.Topology(routes=frozenset({node_route}))
    namespace = node_route.split(".", maxsplit=1)[0]
    url = login(node, rf"^{namespace}\.", NOTHING, NOTHING)

    seen = await inspection.inspect(url, wanted)

    assert seen.product.startswith("RabbitMQ ")
    assert {one.standing for one in seen.found} == {Standing.AS_WANTED}
    assert len(seen.found) == 6


async def test_inspect__without_it_says_what_is_hidden(node: RabbitMQNode, node_route: str) -> None:
    wanted = topology.Topology(routes=frozenset({node_route}))

    seen = await inspection.inspect(login(node, NOTHING, NOTHING, NOTHING), wanted)

    assert {one.standing for one in seen.found} == {Standing.HIDDEN}


@pytest.fixture(scope="module")
def management_url(node: RabbitMQNode) -> str:
    """The management API of the node, which gets the plugin while it runs: one of this machine's programs only."""
    if not isinstance(node, PrivateRabbitMQ):
        pytest.skip("the node is a container, whose management API has no port here")
    port = processes.free_port()
    node.ctl(
        "eval",
        'code:add_pathsa(filelib:wildcard(filename:join([filename:dirname(code:lib_dir(rabbit)), "*", "ebin"]))),'
        "[application:load(A) || A <- [rabbitmq_management_agent, rabbitmq_management]],"
        f'application:set_env(rabbitmq_management, tcp_config, [{{port, {port}}}, {{ip, "127.0.0.1"}}]),'
        "application:set_env(rabbit, quorum_tick_interval, 500),"  # how often a queue tells its statistics
        "application:ensure_all_started(rabbitmq_management).",
    )
    return f"http://{processes.LOOPBACK}:{port}"


def test_consumer_timeouts__are_those_of_policies(
    node: RabbitMQNode, node_route: str, management_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 3.12 RabbitMQ refuses such policies: there another number of the same policy stands for it."""
    key = "consumer-timeout" if _has_policies_for_it(node.url) else "max-length"
    monkeypatch.setattr(management, "_KEY", key)
    assert management.consumer_timeouts(management_url, node.url) == {}
    node.ctl("set_policy", "patience", f"^{re.escape(node_route)}$", f'{{"{key}": 600000}}')

    wanted = {node_route: timedelta(minutes=10)}
    eventually_sync(lambda: management.consumer_timeouts(management_url, node.url) == wanted, 30)


def test_management_api__that_refuses_or_is_none_is_told_without_the_password(
    node: RabbitMQNode, management_url: str
) -> None:
    with_user = management_url.replace("//", "//nobody:s3cret@")
    for url, error in (
        (with_user, PermissionDenied),
        (management_url.rpartition(":")[0] + ":1", BrokerUnavailable),
        (management_url + "/nothing", BrokerUnavailable),
        ("ftp://nobody:s3cret@mq", ConfigurationError),
    ):
        with pytest.raises(error) as raised:
            management.consumer_timeouts(url, node.url)
        assert "s3cret" not in str(raised.value)


def _has_policies_for_it(url: str) -> bool:
    major, minor = (int(part) for part in asyncio.run(broker_at(url).product()).split()[-1].split(".")[:2])
    return (major, minor) >= (3, 12)
