"""The sweeper on a bucket of a real server that speaks S3."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.errors import ArtifactStoreRefused
from tests.artifacts.conftest import door, prefix, server
from tests.coordinator.sweeping_stage import EVERY, Depot
from tests.ledger.staging import HOUR, MINUTE

if TYPE_CHECKING:
    from tests import s3

__all__ = ["door", "prefix", "server"]
DENIED = (403, "<Error><Code>AccessDenied</Code></Error>")


async def test_sweeper__of_a_bucket(depot: Depot, server: s3.S3Server, door: s3.Door, prefix: str) -> None:
    bucket = Depot(depot.ledger, ArtifactStore(server.options(prefix, door.endpoint)), depot.connection)
    neighbour = ArtifactStore(server.options("elsewhere"))
    neighbour.put(other := f"{uuid4()}/{uuid4()}/{uuid4()}", iter([b"other"]))
    _, safe = bucket.handed_over()
    _, kept = bucket.handed_over()
    orphan = bucket.upload(f"{uuid4()}/{uuid4()}/{uuid4()}")
    bucket.acknowledge(safe)
    bucket.ledger.clock.advance(HOUR)
    running = bucket.sweeper()

    door.breaks = lambda asked: DENIED if asked.endswith("?delete") else None
    with pytest.raises(ArtifactStoreRefused, match="AccessDenied"):
        await running.tick()
    assert bucket.is_there(safe)
    door.breaks = lambda _: None
    bucket.ledger.clock.advance(MINUTE)
    assert await running.tick() == EVERY

    assert bucket.paths() == {bucket.path(kept), orphan}
    assert bucket.orphans() == [(orphan, False)]
    bucket.upload(bucket.path(safe))
    await running.tick()
    assert bucket.paths() == {bucket.path(kept), orphan}
    assert neighbour.size(other) == 5
