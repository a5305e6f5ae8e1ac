"""Consumers of artifacts that are staged in a bucket: the same promises, and no secret in any word."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from brokerjobs import ArtifactStoreRefused, ArtifactStoreUnavailable, HashMismatch
from brokerjobs.artifacts import remote
from tests.artifacts.conftest import door, server
from tests.flow.depot import CONTENT, Consumer, Depot, sha256_of
from tests.ledger.conftest import doors, ledger, shared_clock
from tests.s3 import SECRET

if TYPE_CHECKING:
    from pathlib import Path

    from brokerjobs.artifacts.locations import StoreOptions
    from tests.ledger.ledger_driver import Ledger
    from tests.s3 import Door, S3Server

__all__ = ["door", "doors", "ledger", "server", "shared_clock"]

LARGE = CONTENT * 1_000  # more than one part of a transfer


@pytest.fixture
def depot(ledger: Ledger, server: S3Server, namespace: str) -> Depot:
    return Depot(ledger, server.options(namespace))


@pytest.fixture
def consumer(depot: Depot) -> Consumer:
    return Consumer(depot.client_options(), awaits=True)


def consumer_with(depot: Depot, **options: str) -> Consumer:
    """A consumer whose store has other options."""
    given: StoreOptions = replace(depot.options, options={**depot.options.options, **options})
    return Consumer(depot.client_options(artifacts=given), awaits=False)


def test_bucket__is_fetched_from_and_acknowledged(depot: Depot, consumer: Consumer, tmp_path: Path) -> None:
    artifact = depot.hand_over(LARGE)
    [listed] = consumer.list(artifact.job)

    copy = consumer.fetch(listed, tmp_path / "copy")

    assert copy.read_bytes() == LARGE
    assert artifact.store.startswith("s3://artifacts/")
    consumer.acknowledge(listed, sha256=sha256_of(copy.read_bytes()), copied_to="vault")
    assert consumer.get(artifact).state == "acknowledged"


@pytest.mark.parametrize("damage", ["flipped", "truncated", "deleted"])
def test_bucket__with_another_object_is_a_mismatch(
    depot: Depot, consumer: Consumer, tmp_path: Path, damage: str
) -> None:
    artifact = depot.hand_over(LARGE)
    match damage:
        case "flipped":
            place = len(LARGE) - 7
            depot.store.put(artifact.path, iter([LARGE[:place], bytes([LARGE[place] ^ 1]), LARGE[place + 1 :]]))
        case "truncated":
            depot.store.put(artifact.path, iter([LARGE[:-1]]))
        case _:
            depot.store.delete(artifact.path)
    before = depot.store.size(artifact.path)

    with pytest.raises(HashMismatch, match=f"has {len(LARGE)} bytes with SHA-256 {artifact.sha256} in the ledger, but"):
        consumer.fetch(artifact, tmp_path / "copy")

    assert list(tmp_path.iterdir()) == []
    known = consumer.get(artifact)
    assert (known.state, known.is_there) == ("hash_mismatch", True)
    assert known.mismatch is not None
    assert known.mismatch.size == before
    assert depot.store.size(artifact.path) == before


def test_bucket__that_refuses_is_named_without_secrets(depot: Depot, door: Door, tmp_path: Path) -> None:
    artifact = depot.hand_over()
    wrong = "an-entirely-wrong-secret-key"
    door.breaks = lambda _: (403, "")

    for options in ({"secret_access_key": wrong}, {"endpoint": door.endpoint}):
        with pytest.raises(ArtifactStoreRefused) as refused:
            consumer_with(depot, **options).fetch(artifact, tmp_path / "copy")
        error = refused.value
        assert f"the artifact store {artifact.store} refused: " in str(error)
        assert "403" in str(error)
        assert not any(secret in f"{error!s} {error!r} {vars(error)}" for secret in (SECRET, wrong))
    assert list(tmp_path.iterdir()) == []
    assert depot.staging.shown(artifact.id) == artifact  # it is no mismatch


def test_bucket__that_nobody_answers_for_is_unavailable(
    depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = depot.hand_over()
    monkeypatch.setattr(remote, "_RETRIES", {"max_retries": 0})
    consumer = consumer_with(depot, endpoint="http://127.0.0.1:1")

    with pytest.raises(ArtifactStoreUnavailable, match=f"the artifact store {artifact.store} gave no answer"):
        consumer.fetch(artifact, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
    assert depot.staging.shown(artifact.id) == artifact
