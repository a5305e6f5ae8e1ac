from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.topology import Topology
from brokerjobs.errors import BrokerUnavailable, ConfigurationError
from brokerjobs.servers.memory import PrivateMemoryBroker
from tests import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

QUARANTINE = "payments.quarantine"


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="brokerjobs-"))
    yield made
    shutil.rmtree(made)


async def test_start__serves_until_it_is_stopped(folder: Path) -> None:
    with PrivateMemoryBroker.start(folder / "broker") as server:
        pid, broker = server.pid, broker_at(server.url)
        await broker.declare(Topology(namespaces=frozenset({"payments"})))
        assert await broker.message_count(QUARANTINE) == 0

    assert not processes.runs(pid)
    assert [file.name for file in (folder / "broker").iterdir()] == ["broker.log"]
    with pytest.raises(BrokerUnavailable, match="cannot be reached"):
        await broker.message_count(QUARANTINE)


async def test_kill__forgets_everything_and_resume_serves_at_the_same_url(folder: Path) -> None:
    with PrivateMemoryBroker.start(folder / "broker") as server:
        pid, broker = server.pid, broker_at(server.url)
        await broker.declare(Topology(namespaces=frozenset({"payments"})))

        server.kill()
        assert not processes.runs(pid)
        server.resume()

        assert await broker.message_count(QUARANTINE) is None


def test_start__shows_why_it_does_not_start(folder: Path) -> None:
    (folder / "open").mkdir(mode=0o755)

    with pytest.raises(ConfigurationError, match="is open to other users of this machine"):
        PrivateMemoryBroker.start(folder / "open")
    with pytest.raises(ConfigurationError, match="is too long for a UNIX socket"):
        PrivateMemoryBroker.start(folder / ("x" * 120))
