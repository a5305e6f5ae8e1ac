"""The programs on the in-memory broker: its URL is taken wherever RabbitMQ's is."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brokerjobs.servers.memory import PrivateMemoryBroker
from tests.cli.urls import AWAY_DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.command import Command
    from tests.databases import Database

AWAY = "memory:///nowhere/socket"


@pytest.fixture
def server() -> Iterator[PrivateMemoryBroker]:
    folder = Path(tempfile.mkdtemp(prefix="brokerjobs-"))
    with PrivateMemoryBroker.start(folder / "broker") as started:
        yield started
    shutil.rmtree(folder)


def test_job__goes_its_whole_way(
    offline: Command, database: Database, shop: str, namespace: str, server: PrivateMemoryBroker
) -> None:
    as_owner = {"BROKERJOBS_DATABASE_URL": database.owner_url, "BROKERJOBS_BROKER_URL": server.url}
    routes = offline("setup", shop, "-o", "json", env=as_owner).json()["routes"]
    assert routes == [f"{namespace}.q.default", f"{namespace}.q.sums"]

    with offline.running("worker", shop, said="is up", env=as_owner) as worker:
        submit = ("submit", f"{namespace}/add", '{"cents": 41}', "--wait", "--timeout", "25s", "-o", "json")
        assert offline.process(*submit, env=as_owner).json()["result"] == 42
        other_limit = as_owner | {"BROKERJOBS_BROKER__DELIVERY_LIMIT": "7"}
        offline("setup", shop, env=other_limit).fails(5, "x-delivery-limit", "wanted 7")
        recreated = offline("setup", shop, "--recreate", "sums", "--recreate", "default", env=other_limit)
        assert f"made {namespace}.q.sums anew" in recreated.ok().out
        assert offline.process(*submit, env=as_owner).json()["result"] == 42
        assert worker.terminated() == 0
    assert f"the broker {server.url} is for demo, tests and simulation" in worker.log()
    assert "Traceback" not in worker.log()


def test_broker__that_is_away_is_exit_code_4(offline: Command, database: Database, shop: str) -> None:
    said = offline("setup", shop, "--database-url", database.owner_url, "--broker-url", AWAY)

    said.fails(4, f"{AWAY} cannot be reached", "python -m brokerjobs.broker.memory SOCKET")


@pytest.mark.parametrize("url", ["memory://host/socket", "memory:///", "memory://another-process"])
def test_broker_url__that_is_none_is_exit_code_3(offline: Command, url: str) -> None:
    offline("coordinator", "--database-url", AWAY_DATABASE, "--broker-url", url).fails(3, "memory:///folder/socket")
