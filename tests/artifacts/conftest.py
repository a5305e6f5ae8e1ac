"""Stores of every kind, and a ledger to stage in."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from tests import s3
from tests.ledger.conftest import doors, ledger, shared_clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["doors", "ledger", "shared_clock"]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3Server]:
    """The S3 server of the session."""
    with s3.serving(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def door(server: s3.S3Server) -> Iterator[s3.Door]:
    """A door before it, of the test's own."""
    with s3.before(server) as opened:
        yield opened


@pytest.fixture
def prefix() -> str:
    """A part of the bucket that no other test uses."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture(params=["folder", "bucket", "bucket with ranges"])
def options(request: pytest.FixtureRequest, tmp_path: Path, prefix: str) -> StoreOptions:
    """Options of a store of each kind."""
    if request.param == "folder":
        return StoreOptions(url=str(tmp_path / "store"))
    server: s3.S3Server = request.getfixturevalue("server")
    if request.param == "bucket":
        return server.options(prefix)
    door: s3.Door = request.getfixturevalue("door")
    return server.options(prefix, door.endpoint)


@pytest.fixture
def store(options: StoreOptions) -> ArtifactStore:
    """A store of each kind, empty and prepared."""
    made = ArtifactStore(options)
    made.prepare()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> ArtifactStore:
    """A store that is a folder."""
    made = ArtifactStore(StoreOptions(url=str(tmp_path / "store")))
    made.prepare()
    return made
