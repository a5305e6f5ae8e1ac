"""What the doctor says of artifacts: their store, and who looks after it."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from uuid_utils.compat import uuid7

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.cli.checkup import artifact_checks, store_look
from brokerjobs.cli.checkup.findings import Finding, Level, Limits
from brokerjobs.cli.failures import ExitCode
from brokerjobs.coordinator.sweeper import service_name
from brokerjobs.errors import ArtifactStoreRefused
from brokerjobs.ledger import artifacts, calls, sweeping
from brokerjobs.settings import Settings
from tests.artifacts.conftest import door, prefix, server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from brokerjobs.artifacts.sources import Chunk
    from tests import s3
    from tests.doctor.conftest import Diagnosis, Patient

__all__ = ["door", "prefix", "server"]


def stage(patient: Patient, store: str, *, given_up: bool = False) -> None:
    """An upload that has begun, or was given up."""
    job, process = patient.submit(rung=True), calls.ProcessIdentity(uuid7(), "worker-a", "host", 1)
    now = datetime.now(UTC)
    request = calls.ClaimRequest(job, uuid7(), patient.route(), uuid7(), redelivered=False, delivered_at=now)
    (claimed,) = patient.fetch(calls.claim(process, patient.namespace, ["work"], [request]), "worker")
    holding = calls.Holding(job, claimed.attempt_id, claimed.fencing_number)
    upload = artifacts.Upload(holding, uuid7(), "report", None, store, None)
    (staged,) = patient.fetch(artifacts.artifact_stage([upload]), "worker")
    assert staged.verdict == "staged"
    if given_up:
        patient.fetch(artifacts.artifact_discard([artifacts.GivenUp(upload.id, holding.attempt_id, "no")]), "worker")


@contextmanager
def earlier(patient: Patient, hours: int) -> Generator[None]:
    """What is done here was done so long ago."""
    ((real,),) = patient.sql("select pg_get_functiondef('brokerjobs.clock()'::regprocedure)")
    patient.sql(
        "create or replace function brokerjobs.clock() returns timestamptz language sql volatile as"
        f" $$ select clock_timestamp() - interval '{hours} hours' $$"
    )
    yield
    patient.sql(real)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    """A folder."""
    made = ArtifactStore(StoreOptions(url=str(tmp_path / "store")))
    made.prepare()
    return made


def about(diagnosis: Diagnosis) -> Finding:
    """The one finding of artifacts."""
    (found,) = [one for one in diagnosis.findings if one.check == "artifacts"]
    return found


def test_store__that_nobody_uses_is_left_alone(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "brokerjobs"

    for found in (about(patient.examine()), about(patient.examine(artifacts__url=str(folder / "artifacts")))):
        assert found.level is Level.OK
        assert found.message == f"{(folder / 'artifacts').as_uri()} has not been used yet; 0 artifacts are staged"
    assert not folder.exists()  # it would belong to whoever asked the doctor


def test_store__that_works_is_tried_and_left_as_it_was(patient: Patient, store: ArtifactStore, tmp_path: Path) -> None:
    stage(patient, store.public)
    patient.lead(frozenset({service_name(store.public)}))

    found = about(patient.examine(artifacts__url=store.public))

    assert found.level is Level.OK
    assert found.message == f"{store.public} takes, gives and removes objects; 1 artifact is staged"
    assert list((tmp_path / "store").iterdir()) == []


def test_store__that_works_says_where_else_artifacts_are(patient: Patient, store: ArtifactStore) -> None:
    stage(patient, "s3://another/machine")
    patient.lead(frozenset({service_name("s3://another/machine")}))

    found = about(patient.examine(artifacts__url=store.public))

    assert found.level is Level.OK
    assert found.message.endswith("; 0 artifacts are staged, 1 in s3://another/machine")


def test_folder__that_others_may_read_is_told(patient: Patient, store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "store").chmod(0o750)

    found = patient.examine(artifacts__url=store.public).only("artifacts", "warn")

    assert found.message == "the folder of artifacts is open to others (mode 0750)"
    assert found.next == f"chmod 700 {tmp_path / 'store'}"


def test_folder__that_is_not_on_this_machine_fails(patient: Patient, store: ArtifactStore, tmp_path: Path) -> None:
    stage(patient, store.public)
    patient.lead(frozenset({service_name(store.public)}))
    (tmp_path / "store").rmdir()

    found = patient.examine(artifacts__url=store.public).only("artifacts", "fail")

    assert found.message.startswith(
        f"artifacts are recorded in {store.public}, and there is no such folder on this machine; mount it"
    )
    assert found.code == ExitCode.CONFIGURATION


@pytest.fixture
def barred() -> Iterator[Path]:
    """A folder that everybody may look into and not write to: a superuser is nobody meanwhile."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "there" / "brokerjobs" / "artifacts"
        folder.mkdir(parents=True)
        folder.chmod(0o555)
        Path(name).chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if is_root:
                os.seteuid(0)
            Path(name).chmod(0o755)


def test_folder__that_cannot_be_made_fails(patient: Patient, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    found = patient.examine(artifacts__url=str(tmp_path / "file" / "of" / "artifacts")).only("artifacts", "fail")

    assert f"refused: {tmp_path / 'file'} is no folder" in found.message
    assert found.code == ExitCode.CONFIGURATION


def test_folder__whose_parent_may_not_be_written_is_refused(barred: Path) -> None:
    told = Settings.model_validate({"artifacts": {"url": str(barred / "a" / "b")}})
    with pytest.raises(ArtifactStoreRefused, match=f"this user may not write to {barred};"):
        store_look.look(told, None)


@pytest.mark.parametrize(("name", "which"), [("there", "there/brokerjobs/artifacts"), ("missing", ".")])
def test_folder__of_the_default_that_may_not_be_written_is_told(
    barred: Path, monkeypatch: pytest.MonkeyPatch, name: str, which: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(barred / name))
    look = store_look.look(Settings(), None)
    assert look is not None
    (found,) = artifact_checks.artifacts(None, look, Limits())
    assert found.level is Level.WARN
    assert found.message.endswith(f", the default: this user may not write to {barred / which}")
    assert found.next == "set artifacts.url"


def test_folder__that_is_a_file_fails(patient: Patient, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    found = patient.examine(artifacts__url=str(tmp_path / "file")).only("artifacts", "fail")

    assert f"refused: File exists: {tmp_path / 'file'}" in found.message
    assert found.code == ExitCode.CONFIGURATION


def test_bucket__is_tried_and_its_refusal_is_named(
    patient: Patient, server: s3.S3Server, door: s3.Door, prefix: str
) -> None:
    told = server.options(prefix, door.endpoint)
    found = about(patient.examine(artifacts__url=told.url, artifacts__options=told.options))
    assert found.level is Level.OK
    assert ArtifactStore(told).page(None, 10) == []

    denied = (403, "<Error><Code>AccessDenied</Code></Error>")
    door.breaks = lambda asked: denied if asked.startswith("PUT") else None
    diagnosis = patient.examine(artifacts__url=told.url, artifacts__options=told.options)

    found = diagnosis.only("artifacts", "fail")
    assert "AccessDenied" in found.message
    assert found.code == ExitCode.CONFIGURATION
    assert told.options["secret_access_key"] not in diagnosis.text()


def test_bucket__without_its_library_is_told_what_to_install(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "brokerjobs.artifacts.remote", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)

    found = patient.examine(artifacts__url="s3://bucket").only("artifacts", "fail")

    assert "pip install 'brokerjobs[artifacts]'" in found.message
    assert found.code == ExitCode.CONFIGURATION


def test_store__that_hangs_is_not_waited_for(
    patient: Patient, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = threading.Event()

    def hangs(_self: ArtifactStore, _path: str, _chunks: Iterator[Chunk]) -> None:
        assert opened.wait(60)

    monkeypatch.setattr(ArtifactStore, "put", hangs)
    monkeypatch.setattr(store_look, "_SECONDS", 0.1)

    found = patient.examine(artifacts__url=store.public).only("artifacts", "fail")
    opened.set()

    assert "a probe was not written, read and removed within 0.1 s" in found.message
    assert found.code == ExitCode.UNREACHABLE


def test_store__that_gives_back_other_bytes_is_told(
    patient: Patient, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(_self: ArtifactStore, _path: str) -> Iterator[Chunk]:
        yield b"other"

    monkeypatch.setattr(ArtifactStore, "read", other)

    found = patient.examine(artifacts__url=store.public).only("artifacts", "warn")

    assert found.message == f"{store.public} gave back 5 other bytes than were written"


def test_another_store__is_well_while_a_coordinator_looks_after_it(patient: Patient, store: ArtifactStore) -> None:
    stage(patient, "s3://another")

    found = patient.examine(artifacts__url=store.public).only("artifacts", "warn")
    assert found.message == "1 artifact is in s3://another, from which nobody removes any"
    assert found.next == "set artifacts.url of a coordinator to it; its log says why it cannot"

    patient.lead(frozenset({service_name("s3://another")}))
    assert patient.examine(artifacts__url=store.public).bad() == []


def test_store__whose_removals_fail_is_told(patient: Patient, store: ArtifactStore) -> None:
    with earlier(patient, 2):
        stage(patient, store.public, given_up=True)
        stage(patient, store.public)
    patient.lead(frozenset({service_name(store.public)}))

    found = patient.examine(artifacts__url=store.public).only("artifacts", "warn")
    assert found.message == f"1 artifact has not gone from {store.public}, the first for 2h"
    assert found.next == "the log of the coordinator says what the store answers"


def test_store__whose_sweeper_is_behind_is_told(patient: Patient, store: ArtifactStore) -> None:
    with earlier(patient, 30):
        stage(patient, store.public)
    patient.lead(frozenset({service_name(store.public)}))

    found = patient.examine(artifacts__url=store.public).only("artifacts", "warn")
    assert found.message.startswith(f"the sweeper of {store.public} is ")
    assert found.message.endswith(" behind")


def test_store__with_objects_of_which_the_ledger_knows_nothing_is_told(patient: Patient, store: ArtifactStore) -> None:
    patient.fetch(sweeping.artifacts_known(store.public, ["a", "b"], [1, 2]), "coordinator")

    found = patient.examine(artifacts__url=store.public).only("artifacts", "warn")
    assert found.message == f"the ledger knows nothing of 2 objects in {store.public}"
    assert found.next.startswith(f"brokerjobs artifacts orphans --store {store.public} lists them; ")
    assert "artifacts.remove_orphans_after" in found.next

    patient.fetch(sweeping.orphans_removed(store.public, ["a", "b"]), "coordinator")
    assert patient.examine(artifacts__url=store.public).bad() == []


def test_figures__of_many_stores_are_bounded(patient: Patient) -> None:
    for number in range(25):
        patient.fetch(sweeping.artifacts_known(f"s3://{number:02}", ["a"], [1]), "coordinator")

    assert len([one for one in patient.examine().findings if one.check == "artifacts"]) == 20
