"""What consumers of artifacts are promised, whether they await or not: nothing but the recorded bytes gets the name."""

from __future__ import annotations

import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from brokerjobs import (
    AcknowledgementRefused,
    Artifact,
    ArtifactGone,
    ArtifactNotFound,
    ArtifactNotReady,
    ArtifactNotVisible,
    ConfigurationError,
    HashMismatch,
    InvalidReference,
    JobNotFound,
    StagedArtifact,
)
from brokerjobs.artifacts.locations import StoreOptions
from tests.flow.depot import CONTENT, Consumer, Depot, sha256_of
from tests.ledger.conftest import doors, ledger, shared_clock
from tests.ledger.staging import DAY, HOUR, WEEK

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.ledger.ledger_driver import Ledger

__all__ = ["doors", "ledger", "shared_clock"]

UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def depot(ledger: Ledger, tmp_path: Path) -> Depot:
    return Depot(ledger, StoreOptions(url=str(tmp_path / "store")))


@pytest.fixture(params=["awaits", "thread"])
def consumer(request: pytest.FixtureRequest, depot: Depot) -> Consumer:
    return Consumer(depot.client_options(), awaits=request.param == "awaits")


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """Where copies go: nothing is in it but what was fetched."""
    made = tmp_path / "inbox"
    made.mkdir()
    return made


def object_of(depot: Depot, artifact: StagedArtifact) -> Path:
    """The file that is the staged copy."""
    return Path(depot.store.public.removeprefix("file://")) / artifact.path


@contextmanager
def leaves_nothing(inbox: Path) -> Generator[None]:
    """Whatever happens in the block, no file is left of it."""
    yield
    assert list(inbox.iterdir()) == []


def test_list__has_what_the_accepted_attempt_made_and_all_of_it_on_request(depot: Depot, consumer: Consumer) -> None:
    first = depot.running()
    lost = depot.put(first, b"of the first attempt")
    depot.ledger.lose(first)
    depot.ledger.ring_again(first.job_id)
    second = depot.ledger.worker.take(first.job_id)
    kept = depot.put(second)
    assert consumer.list(first.job_id) == []

    depot.complete(second, kept)

    [visible] = consumer.list(first.job_id)
    assert (visible.id, visible.visible, visible.size, visible.sha256) == (kept.id, True, len(CONTENT), kept.sha256)
    everything = consumer.list(first.job_id, all_attempts=True)
    assert [(one.id, one.number, one.visible) for one in everything] == [(lost.id, 1, False), (kept.id, 2, True)]
    assert consumer.get(lost.id) == everything[0]


def test_unknown__job_and_artifact_are_said_to_be_so(consumer: Consumer, inbox: Path, depot: Depot) -> None:
    unknown = type(depot.running().job_id)(UNKNOWN)
    with pytest.raises(JobNotFound):
        consumer.list(unknown)
    for ask in (
        lambda: consumer.get(unknown),
        lambda: consumer.fetch(unknown, inbox / "a"),
        lambda: consumer.acknowledge(unknown, sha256="0" * 64, copied_to="here"),
    ):
        with pytest.raises(ArtifactNotFound, match=UNKNOWN):
            ask()


def test_ids__may_be_text(consumer: Consumer, inbox: Path, depot: Depot) -> None:
    artifact = depot.hand_over()
    named = str(artifact.id)

    assert consumer.list(str(artifact.job)) == [artifact]
    assert consumer.get(named) == artifact
    assert consumer.fetch(named, inbox / "copy").read_bytes() == CONTENT
    assert consumer.acknowledge(named, sha256=sha256_of(CONTENT), copied_to=inbox / "copy").copied_to == str(
        inbox / "copy"
    )


@pytest.mark.parametrize("named", ["sales.csv", "", b"01890a5d-ac96-774b-bcce-b302099a8057", None, {"id": UNKNOWN}, 7])
def test_ids__that_are_none_are_said_to_be_so(consumer: Consumer, inbox: Path, named: Any) -> None:
    with pytest.raises(InvalidReference, match="names no job: give its handle, its id as a UUID, or the UUID as text"):
        consumer.list(named)
    for ask in (
        lambda: consumer.get(named),
        lambda: consumer.fetch(named, inbox / "a"),
        lambda: consumer.acknowledge(named, sha256="0" * 64, copied_to="here"),
    ):
        with pytest.raises(InvalidReference, match="names no artifact: give what") as raised:
            ask()
        assert str(raised.value).startswith(repr(named))


def test_fetch__gives_the_bytes_to_their_owner_alone_and_acknowledges_nothing(
    depot: Depot, consumer: Consumer, inbox: Path
) -> None:
    artifact = depot.hand_over()
    assert artifact.size is not None
    assert artifact.sha256 is not None
    reference = Artifact(id=artifact.id, name=artifact.name, size=artifact.size, sha256=artifact.sha256)
    told: list[int] = []

    for place, named in enumerate((artifact, artifact.id, reference)):
        fetched = consumer.fetch(named, inbox / f"{place}.csv", progress=told.append)
        assert fetched == inbox / f"{place}.csv"
        assert fetched.read_bytes() == CONTENT
        assert stat.S_IMODE(fetched.stat().st_mode) == 0o600

    assert len(list(inbox.iterdir())) == 3
    assert told.count(len(CONTENT)) == 3
    assert consumer.get(artifact) == artifact
    assert artifact.state == "ready"


def test_fetch__does_not_overwrite_unless_it_is_told_to(depot: Depot, consumer: Consumer, inbox: Path) -> None:
    artifact = depot.hand_over()
    there = inbox / "sales.csv"
    there.write_bytes(b"mine")

    with pytest.raises(FileExistsError, match=r"sales\.csv"):
        consumer.fetch(artifact, there)
    assert there.read_bytes() == b"mine"

    assert consumer.fetch(artifact, there, overwrite=True).read_bytes() == CONTENT
    assert list(inbox.iterdir()) == [there]


FLIPPED = CONTENT[:5_000] + bytes([CONTENT[5_000] ^ 1]) + CONTENT[5_001:]
DAMAGES: dict[str, tuple[Callable[[Path], object], bytes | None]] = {
    "a flipped byte": (lambda file: file.write_bytes(FLIPPED), FLIPPED),
    "truncated": (lambda file: file.write_bytes(CONTENT[:-1]), CONTENT[:-1]),
    "longer": (lambda file: file.write_bytes(CONTENT + b"\n"), CONTENT + b"\n"),
    "emptied": (lambda file: file.write_bytes(b""), b""),
    "deleted": (lambda file: file.unlink(), None),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_mismatch__is_refused_recorded_and_kept(depot: Depot, consumer: Consumer, inbox: Path, damage: str) -> None:
    artifact = depot.hand_over()
    file = object_of(depot, artifact)
    do, there = DAMAGES[damage]
    do(file)

    with leaves_nothing(inbox), pytest.raises(HashMismatch) as found:
        consumer.fetch(artifact, inbox / "sales.csv")

    text = str(found.value)
    assert f"artifact {artifact.id} has {len(CONTENT)} bytes with SHA-256 {artifact.sha256} in the ledger, but" in text
    assert ("the staged copy is kept" in text) is (there is not None)
    assert str(inbox / "sales.csv") in text
    known = consumer.get(artifact)
    assert known.state == "hash_mismatch"
    assert known.mismatch is not None
    size, sha256 = (None, None) if there is None else (len(there), sha256_of(there))
    assert (known.mismatch.by, known.mismatch.size, known.mismatch.sha256) == ("archive", size, sha256)
    assert known.acknowledged is None
    assert known.is_there
    assert (file.read_bytes() if there is not None else None) == there


def test_mismatch__overwrites_nothing(depot: Depot, consumer: Consumer, inbox: Path) -> None:
    artifact = depot.hand_over()
    object_of(depot, artifact).write_bytes(FLIPPED)
    earlier = inbox / "sales.csv"
    earlier.write_bytes(b"the copy of yesterday")

    with pytest.raises(HashMismatch):
        consumer.fetch(artifact, earlier, overwrite=True)

    assert earlier.read_bytes() == b"the copy of yesterday"
    assert list(inbox.iterdir()) == [earlier]


def test_mismatch__found_by_who_may_not_record_it_is_raised_and_says_so(
    depot: Depot, consumer: Consumer, inbox: Path
) -> None:
    artifact = depot.hand_over()
    object_of(depot, artifact).write_bytes(FLIPPED)
    reader = depot.client_options(database_url=depot.ledger.database.reader_url)

    with leaves_nothing(inbox), pytest.raises(HashMismatch) as found:
        Consumer(reader, awaits=consumer.awaits).fetch(artifact, inbox / "sales.csv")

    [note] = found.value.__notes__
    assert note.startswith("the mismatch is not known to be recorded: the database login may not do this")
    assert consumer.get(artifact) == artifact


def test_mismatch__that_went_away_may_be_fetched_and_acknowledged(
    depot: Depot, consumer: Consumer, inbox: Path
) -> None:
    artifact = depot.hand_over()
    file = object_of(depot, artifact)
    file.write_bytes(FLIPPED)
    with pytest.raises(HashMismatch):
        consumer.fetch(artifact, inbox / "sales.csv")
    file.write_bytes(CONTENT)

    copy = consumer.fetch(artifact, inbox / "sales.csv")
    consumer.acknowledge(artifact, sha256=sha256_of(copy.read_bytes()), copied_to="vault")

    known = consumer.get(artifact)
    assert known.state == "acknowledged"
    assert known.mismatch is not None


def test_acknowledge__records_by_whom_and_where_once(depot: Depot, consumer: Consumer) -> None:
    artifact = depot.hand_over()
    whose = sha256_of(CONTENT).upper()

    first = consumer.acknowledge(artifact, sha256=whose, copied_to="s3://vault/7")
    again = consumer.acknowledge(artifact, sha256=whose, copied_to="s3://vault/7")
    second = consumer.acknowledge(artifact.id, sha256=whose, copied_to="/srv/8", by="another")

    assert (first.by, first.copied_to) == ("archive", "s3://vault/7")
    assert first == again == second
    known = consumer.get(artifact)
    assert (known.state, known.acknowledged) == ("acknowledged", first)


def test_acknowledge__of_another_copy_is_refused_and_changes_nothing(depot: Depot, consumer: Consumer) -> None:
    artifact = depot.hand_over()

    with pytest.raises(AcknowledgementRefused) as refused:
        consumer.acknowledge(artifact, sha256=sha256_of(FLIPPED), copied_to="vault")

    assert sha256_of(FLIPPED) in str(refused.value)
    assert f"the ledger has {artifact.sha256} of {len(CONTENT)} bytes" in str(refused.value)
    assert consumer.get(artifact) == artifact


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"sha256": "0" * 63}, "is no SHA-256 in hexadecimal, which is a text of 64 digits"),
        ({"sha256": b"0" * 64}, "is no SHA-256 in hexadecimal, which is a text of 64 digits"),
        ({"sha256": None}, "None is no SHA-256"),
        ({"copied_to": b"vault"}, "copied_to=b'vault' is not a text"),
        ({"copied_to": 7}, "copied_to=7 is not a text"),
        ({"by": b"me"}, "by=b'me' is not a text"),
        ({"sha256": "x" * 64}, "is no SHA-256"),
        ({"copied_to": ""}, "copied_to='' is not a text of 1 to 4096 characters"),
        ({"copied_to": "a\0b"}, "copied_to='a\\x00b' is not a text"),
        ({"copied_to": "x" * 4_097}, "is not a text of 1 to 4096 characters"),
        ({"by": ""}, "by='' is not a text"),
    ],
)
def test_acknowledge__that_says_too_little_is_refused(
    depot: Depot, consumer: Consumer, said: dict[str, Any], problem: str
) -> None:
    artifact = depot.hand_over()

    with pytest.raises(AcknowledgementRefused) as refused:
        consumer.acknowledge(artifact, **{"sha256": sha256_of(CONTENT), "copied_to": "vault", **said})

    assert problem in str(refused.value)
    assert consumer.get(artifact) == artifact


def test_not_accepted__is_handed_out_as_evidence_alone(depot: Depot, consumer: Consumer, inbox: Path) -> None:
    holding = depot.running()
    artifact = depot.put(holding)

    with leaves_nothing(inbox), pytest.raises(ArtifactNotVisible, match=f"of attempt 1 of job {holding.job_id}"):
        consumer.fetch(artifact, inbox / "sales.csv")
    with pytest.raises(AcknowledgementRefused, match=r"not part of its job's result \(the job is running\)"):
        consumer.acknowledge(artifact, sha256=sha256_of(CONTENT), copied_to="vault")

    assert consumer.fetch(artifact, inbox / "sales.csv", unaccepted=True).read_bytes() == CONTENT
    assert consumer.get(artifact) == artifact


def test_not_ready__is_not_handed_out(depot: Depot, consumer: Consumer, inbox: Path) -> None:
    holding = depot.running()
    staged = depot.begin(holding)
    assert staged.path is not None
    depot.store.put(staged.path, iter([CONTENT]))

    for state in ("staging", "discarded"):
        if state == "discarded":
            assert depot.staging.discard(staged.id, holding) == "discarded"
        with leaves_nothing(inbox), pytest.raises(ArtifactNotReady, match=rf"\(state {state}\)"):
            consumer.fetch(staged.id, inbox / "sales.csv", unaccepted=True)
        with pytest.raises(AcknowledgementRefused, match=rf"given up \(state {state}\)"):
            consumer.acknowledge(staged.id, sha256=sha256_of(CONTENT), copied_to="vault")


def test_gone__says_since_when_why_and_where_the_copy_is(depot: Depot, consumer: Consumer, inbox: Path) -> None:
    artifact = depot.hand_over()
    consumer.acknowledge(artifact, sha256=sha256_of(CONTENT), copied_to="s3://vault/7")
    consumer.fetch(artifact, inbox / "sales.csv").unlink()  # within the grace time

    depot.sweep(after=HOUR)

    assert not object_of(depot, artifact).exists()
    words = "it was acknowledged, by archive, whose copy is at s3://vault/7"
    with leaves_nothing(inbox), pytest.raises(ArtifactGone, match=words):
        consumer.fetch(artifact, inbox / "sales.csv")
    known = consumer.get(artifact)
    assert (known.sha256, known.size, known.is_there) == (artifact.sha256, artifact.size, False)


def test_expired__is_gone_and_may_be_acknowledged_late(depot: Depot, consumer: Consumer, inbox: Path) -> None:
    artifact = depot.hand_over()
    copy = consumer.fetch(artifact, inbox / "sales.csv").read_bytes()
    depot.sweep(after=WEEK + DAY)

    assert consumer.get(artifact).state == "expired_unacknowledged"
    with pytest.raises(ArtifactGone, match="nobody acknowledged it within its time limit"):
        consumer.fetch(artifact, inbox / "again.csv")

    consumer.acknowledge(artifact, sha256=sha256_of(copy), copied_to="vault")
    assert consumer.get(artifact).state == "acknowledged"


def test_gone__between_the_question_and_the_transfer_is_no_mismatch(
    depot: Depot, consumer: Consumer, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = depot.hand_over()
    consumer.acknowledge(artifact, sha256=sha256_of(CONTENT), copied_to="vault")
    read = type(depot.store).read

    def swept_before(*given: Any) -> Any:
        depot.sweep(after=HOUR)
        return read(*given)

    monkeypatch.setattr(type(depot.store), "read", swept_before)
    with leaves_nothing(inbox), pytest.raises(ArtifactGone, match="it was acknowledged, by archive"):
        consumer.fetch(artifact, inbox / "sales.csv")
    assert consumer.get(artifact).mismatch is None


def test_another_store__is_named_beside_this_one(depot: Depot, consumer: Consumer, inbox: Path, tmp_path: Path) -> None:
    artifact = depot.hand_over()
    elsewhere = StoreOptions(url=str(tmp_path / "elsewhere"))
    other = Consumer(depot.client_options(artifacts=elsewhere), awaits=consumer.awaits)

    with leaves_nothing(inbox), pytest.raises(ConfigurationError) as refused:
        other.fetch(artifact, inbox / "sales.csv")

    assert depot.store.public in str(refused.value)
    assert f"artifacts.url here is {(tmp_path / 'elsewhere').as_uri()}" in str(refused.value)
    other.acknowledge(artifact, sha256=sha256_of(CONTENT), copied_to="vault")  # needs no store
    assert consumer.get(artifact).state == "acknowledged"


def test_sql__alone_hands_over_to_any_language(depot: Depot, inbox: Path) -> None:
    artifact = depot.hand_over()
    with psycopg.connect(depot.ledger.database.producer_url, autocommit=True) as archive:
        [(row,)] = archive.execute("select brokerjobs.artifacts_v1(%s)", [artifact.job]).fetchall()
        store, path = row["store"], row["path"]
        part = inbox / ".sales.csv.part"
        part.write_bytes((Path(store.removeprefix("file://")) / path).read_bytes())
        assert (part.stat().st_size, sha256_of(part.read_bytes())) == (row["size"], row["sha256"])
        copy = part.rename(inbox / "sales.csv")
        said = archive.execute(
            "select verdict from brokerjobs.acknowledge_artifact_v1(%s, %s, %s, 'archive')",
            [row["id"], sha256_of(copy.read_bytes()), str(copy)],
        ).fetchone()
    assert said == ("acknowledged",)
    assert copy.read_bytes() == CONTENT
    acknowledged = depot.staging.shown(artifact.id).acknowledged
    assert acknowledged is not None
    assert (acknowledged.by, acknowledged.copied_to) == ("archive", str(copy))


NAMES = ["../../etc/passwd", "/etc/passwd", "x" * 1_000, "\u202egnp.exe", "\x1b[2J\x07", "Größe 大きい.csv"]


@pytest.mark.parametrize("name", NAMES)
def test_name__is_metadata_and_decides_nothing(depot: Depot, consumer: Consumer, inbox: Path, name: str) -> None:
    artifact = depot.hand_over(name=name)

    assert consumer.get(artifact).name == name
    assert consumer.fetch(artifact, inbox / "copy").read_bytes() == CONTENT
    assert [one.name for one in inbox.iterdir()] == ["copy"]
    assert artifact.path == f"{artifact.job}/{artifact.attempt}/{artifact.id}"
