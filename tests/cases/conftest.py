"""What the cases from the field share: the command line of an application, and a node that they may break."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
from tests.cli.conftest import as_owner, brokerjobs, folder, offline, ready, shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["as_owner", "brokerjobs", "folder", "offline", "ready", "shop"]


@pytest.fixture(scope="session")
def node(server_folder: Path) -> Iterator[PrivateRabbitMQ]:
    """A node of the cases' own, which they may block and give users; a case leaves it as it was."""
    with PrivateRabbitMQ.start(server_folder / "case-node") as started:
        yield started
