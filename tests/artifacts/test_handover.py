"""A consumer's copy: there with its name and the recorded content, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs.artifacts import handover
from brokerjobs.artifacts.staging import ThreadArtifacts
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.artifacts.transfers import Stop, Stopped
from brokerjobs.errors import ArtifactGone, ArtifactNotReady, ArtifactStoreRefused, ConfigurationError, HashMismatch
from brokerjobs.ledger.artifacts import Removing
from tests.artifacts.objects import MIB, mebibytes, sha256
from tests.artifacts.uploads import Calls, Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.ledger.artifacts import StagedArtifact
    from tests.ledger.ledger_driver import Ledger
    from tests.s3 import Door, S3Server

CONTENT = b"".join(mebibytes(9)) + b"end"
# A process that may write files of 4 MiB at most, and says how its fetch ended.
LIMITED = """
import resource, sys
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4
from brokerjobs.artifacts import handover
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore

store = ArtifactStore(StoreOptions(url=sys.argv[1]))
staged = SimpleNamespace(id=uuid4(), size=int(sys.argv[3]), sha256=sys.argv[4], removing=None, store=store.public,
                         path=sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 2**20, 4 * 2**20))
try:
    handover.fetch(store, staged, Path(sys.argv[5]))
except Exception as error:
    print(type(error).__name__, error)
"""


def staged_in(ledger: Ledger, store: ArtifactStore, content: bytes = CONTENT) -> StagedArtifact:
    """An artifact with this content, as the ledger knows it."""
    calls = Calls(ledger)
    holding = ledger.worker.take(ledger.submit())
    ThreadArtifacts(holding, lambda: store, calls, Standing()).put("../../report.pdf", content)
    return calls.shown()


def replace(staged: StagedArtifact, **fields: Any) -> StagedArtifact:
    """The same with other fields."""
    known = {name: getattr(staged, name) for name in staged.__dataclass_fields__}
    return type(staged)(**known | fields)


def overwrite(store: ArtifactStore, staged: StagedArtifact, content: bytes) -> None:
    """Changes the object behind the ledger's back."""
    store.put(staged.path, iter([content]))


@pytest.fixture
def to(tmp_path: Path) -> Path:
    """A destination in a folder of its own."""
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies" / "copy"


def left(to: Path) -> list[str]:
    """What is in the destination's folder."""
    return sorted(one.name for one in to.parent.iterdir())


@pytest.mark.parametrize("content", [CONTENT, b"", b"x"])
def test_fetch__is_the_content_private_and_alone(
    ledger: Ledger, store: ArtifactStore, to: Path, content: bytes
) -> None:
    staged = staged_in(ledger, store, content)
    told: list[int] = []
    assert handover.fetch(store, staged, to, progress=told.append) == to
    assert to.read_bytes() == content
    assert to.stat().st_mode & 0o777 == 0o600
    assert left(to) == ["copy"]
    assert told == sorted(set(told))
    assert told[-1:] == ([len(content)] if content else [])


FLIPPED = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]


@pytest.mark.parametrize("found", [FLIPPED, CONTENT[:-1] + b"?", CONTENT[:-1], CONTENT[:MIB], b"", CONTENT + b"\x00"])
def test_mismatch__says_what_is_there_and_leaves_nothing(
    ledger: Ledger, store: ArtifactStore, to: Path, found: bytes
) -> None:
    staged = staged_in(ledger, store)
    overwrite(store, staged, found)
    with pytest.raises(HashMismatch) as raised:
        handover.fetch(store, staged, to)
    error = raised.value
    assert (error.observed_size, error.observed_sha256) == (len(found), sha256(found))
    assert (error.size, error.sha256) == (len(CONTENT), sha256(CONTENT))
    for text in (sha256(CONTENT), sha256(found), str(len(found)), str(to)):
        assert text in str(error)
    assert left(to) == []
    assert b"".join(store.read(staged.path)) == found, "the staged copy is evidence"


def test_mismatch__leaves_an_older_copy_alone(ledger: Ledger, folder: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, folder)
    overwrite(folder, staged, FLIPPED)
    to.write_text("older")
    with pytest.raises(HashMismatch):
        handover.fetch(folder, staged, to, overwrite=True)
    assert to.read_text() == "older"
    assert left(to) == ["copy"]


def test_missing__is_a_mismatch_with_nothing(ledger: Ledger, store: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, store)
    store.delete(staged.path)
    with pytest.raises(HashMismatch, match="there is no object") as raised:
        handover.fetch(store, staged, to)
    assert (raised.value.observed_size, raised.value.observed_sha256) == (None, None)
    assert left(to) == []


def test_missing_folder__is_no_mismatch(ledger: Ledger, folder: ArtifactStore, to: Path, tmp_path: Path) -> None:
    staged = staged_in(ledger, folder)
    (tmp_path / "store").rename(tmp_path / "moved")
    with pytest.raises(ArtifactStoreRefused, match="there is no folder"):
        handover.fetch(folder, staged, to)
    assert left(to) == []


def test_missing_bucket__is_no_mismatch(ledger: Ledger, server: S3Server, prefix: str, to: Path) -> None:
    staged = staged_in(ledger, ArtifactStore(server.options(prefix)))
    gone = ArtifactStore(server.options(prefix, bucket="no-such-bucket"))
    with pytest.raises(ArtifactStoreRefused, match="NoSuchBucket"):
        handover.fetch(gone, replace(staged, store=gone.public), to)
    assert left(to) == []


def test_longer_object__is_not_written_beyond_its_size(ledger: Ledger, folder: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, folder, b"1234")
    overwrite(folder, staged, b"5" * 20 * MIB)
    sizes: list[int] = []

    def look(_: int) -> None:
        sizes.extend(one.stat().st_size for one in to.parent.iterdir())

    with pytest.raises(HashMismatch):
        handover.fetch(folder, staged, to, progress=look)
    assert sizes
    assert max(sizes) <= 4


def test_record__decides_before_anything_is_fetched(ledger: Ledger, folder: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, folder)
    removing = Removing(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "acknowledged", None)
    with pytest.raises(ArtifactGone, match="2026-01-02 03:04:05"):
        handover.fetch(folder, replace(staged, removing=removing), to)
    with pytest.raises(ArtifactNotReady, match="staging"):
        handover.fetch(folder, replace(staged, size=None, sha256=None, state="staging"), to)
    with pytest.raises(ConfigurationError, match="s3://other"):
        handover.fetch(folder, replace(staged, store="s3://other"), to)
    assert left(to) == []


def test_destination__that_exists_is_not_overwritten_unless_wanted(
    ledger: Ledger, folder: ArtifactStore, to: Path
) -> None:
    staged = staged_in(ledger, folder)
    to.write_text("older")
    with pytest.raises(FileExistsError, match="name another file") as raised:
        handover.fetch(folder, staged, to)
    assert raised.value.filename == str(to)
    assert to.read_text() == "older"
    handover.fetch(folder, staged, to, overwrite=True)
    assert to.read_bytes() == CONTENT
    assert left(to) == ["copy"]


def test_destination__that_appears_meanwhile_is_not_overwritten(
    ledger: Ledger, folder: ArtifactStore, to: Path
) -> None:
    staged = staged_in(ledger, folder)

    def intrude(_: int) -> None:
        to.write_text("of another")

    with pytest.raises(FileExistsError) as raised:
        handover.fetch(folder, staged, to, progress=intrude)
    assert str(raised.value).count("the copy cannot be written") == 1
    assert to.read_text() == "of another"
    assert left(to) == ["copy"]


def test_destination__two_at_once_have_one_winner(ledger: Ledger, folder: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, folder)
    both = threading.Barrier(2, timeout=10)
    said: list[str] = []

    def meet(size: int) -> None:
        if size == len(CONTENT):
            both.wait()

    def run() -> None:
        try:
            handover.fetch(folder, staged, to, progress=meet)
            said.append("fetched")
        except FileExistsError:
            said.append("exists")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == ["exists", "fetched"]
    assert to.read_bytes() == CONTENT
    assert left(to) == ["copy"]


@pytest.mark.parametrize("target", ["file", "missing", "folder"])
def test_link_at_the_destination__is_neither_replaced_nor_followed(
    ledger: Ledger, folder: ArtifactStore, to: Path, tmp_path: Path, target: str
) -> None:
    staged = staged_in(ledger, folder)
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    to.symlink_to(tmp_path / target)
    for overwrite in (False, True):
        with pytest.raises(OSError, match="it is a folder" if target == "folder" else "no regular file") as raised:
            handover.fetch(folder, staged, to, overwrite=overwrite)
        assert raised.value.filename == str(to)
    assert to.readlink() == tmp_path / target
    assert (tmp_path / "file").read_text() == "precious"
    assert not (tmp_path / "missing").exists()
    assert left(to) == ["copy"]


@pytest.mark.parametrize("meanwhile", [False, True])
def test_fifo_at_the_destination__is_never_replaced(
    ledger: Ledger, folder: ArtifactStore, to: Path, *, meanwhile: bool
) -> None:
    staged = staged_in(ledger, folder)
    fetched: list[int] = []

    def arrive(size: int) -> None:
        fetched.append(size)
        if not to.exists():
            os.mkfifo(to)

    if not meanwhile:
        os.mkfifo(to)
    with pytest.raises(FileExistsError, match="no regular file, which is never replaced"):
        handover.fetch(folder, staged, to, overwrite=True, progress=arrive)
    assert to.is_fifo()
    assert bool(fetched) == meanwhile, "said before the bytes where it can be"
    assert left(to) == ["copy"]


def test_temporary_file__is_beside_the_destination_private_and_not_foreseeable(
    ledger: Ledger, folder: ArtifactStore, to: Path
) -> None:
    staged = staged_in(ledger, folder)
    names: set[str] = set()

    def look(_: int) -> None:
        (part,) = to.parent.iterdir()
        assert part.stat().st_mode & 0o777 == 0o600
        assert "report" not in part.name
        names.add(part.name)

    before = os.umask(0)
    try:
        for _ in range(2):
            handover.fetch(folder, staged, to, progress=look)
            to.unlink()
    finally:
        os.umask(before)
    assert len(names) == 2


def test_temporary_file__is_never_one_that_is_there(
    ledger: Ledger, folder: ArtifactStore, to: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    staged = staged_in(ledger, folder)
    target = tmp_path / "target"
    target.write_text("precious")

    def foreseen(_: int) -> str:
        return "foreseen"

    monkeypatch.setattr(secrets, "token_hex", foreseen)
    part = to.with_name(".foreseen.brokerjobs.part")
    places: list[Callable[[], None]] = [
        lambda: part.symlink_to(target),
        lambda: part.symlink_to(tmp_path / "none"),
        part.touch,
    ]
    for place in places:
        place()
        with pytest.raises(FileExistsError):
            handover.fetch(folder, staged, to)
        assert os.path.lexists(part), "it is not ours to remove"
        part.unlink()
    assert target.read_text() == "precious"
    assert not (tmp_path / "none").exists()


def _folder_in_place(to: Path) -> None:
    to.mkdir()


def _no_parent(to: Path) -> None:
    to.parent.rmdir()


def _file_as_parent(to: Path) -> None:
    to.parent.rmdir()
    to.parent.write_text("a file")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (_folder_in_place, IsADirectoryError),
        (_no_parent, FileNotFoundError),
        (_file_as_parent, NotADirectoryError),
    ],
)
def test_destination__that_cannot_be_one_is_named(
    ledger: Ledger, folder: ArtifactStore, to: Path, make: Callable[[Path], object], kind: type[OSError]
) -> None:
    staged = staged_in(ledger, folder)
    make(to)
    for wanted in (False, True):
        with pytest.raises(kind, match="the copy cannot be written") as raised:
            handover.fetch(folder, staged, to, overwrite=wanted)
        assert raised.value.filename == str(to)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_file_system__without_links_says_what_to_do(
    ledger: Ledger, folder: ArtifactStore, to: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    staged = staged_in(ledger, folder)

    def refuses(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuses)
    with pytest.raises(OSError, match="have it overwritten"):
        handover.fetch(folder, staged, to)
    assert left(to) == []
    handover.fetch(folder, staged, to, overwrite=True)
    assert left(to) == ["copy"]


def test_full_disk__of_the_consumer_is_no_mismatch(ledger: Ledger, folder: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, folder)
    url = folder.public.removeprefix("file://")
    command = [sys.executable, "-c", LIMITED, url, staged.path, str(staged.size), str(staged.sha256), str(to)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said.startswith("OSError"), said
    assert "the copy cannot be written: File too large" in said
    assert str(to) in said
    assert left(to) == []


def test_full_disk__of_two_mebibytes(ledger: Ledger, folder: ArtifactStore, tmp_path: Path) -> None:
    staged = staged_in(ledger, folder)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with pytest.raises(OSError, match="No space left") as raised:
            handover.fetch(folder, staged, disk / "copy")
        assert raised.value.errno == errno.ENOSPC
        assert list(disk.iterdir()) == []
    finally:
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", str(disk)], check=True)


def test_stopped__leaves_nothing(ledger: Ledger, store: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, store)
    stop = Stop()
    told: list[int] = []

    def stops(size: int) -> None:
        told.append(size)
        stop.set()

    with pytest.raises(Stopped):
        handover.fetch(store, staged, to, progress=stops, stop=stop)
    assert len(told) == 1
    assert left(to) == []


def test_progress__that_raises_leaves_nothing(ledger: Ledger, store: ArtifactStore, to: Path) -> None:
    staged = staged_in(ledger, store)

    def raises(_: int) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        handover.fetch(store, staged, to, progress=raises)
    assert left(to) == []


def test_object__that_changes_while_it_is_fetched_is_a_mismatch(
    ledger: Ledger, server: S3Server, door: Door, prefix: str, to: Path
) -> None:
    content = b"".join(mebibytes(40))
    store = ArtifactStore(server.options(prefix, door.endpoint))
    staged = staged_in(ledger, store, content)
    file = server.file(prefix, staged.path)
    changed = bytearray(content)
    changed[-1] ^= 1
    other = file.with_name("other")
    other.write_bytes(changed)

    def change(_: int) -> None:
        with suppress(FileNotFoundError):
            other.replace(file)

    with pytest.raises(HashMismatch):
        handover.fetch(store, staged, to, progress=change)
    assert left(to) == []


def test_copy__is_on_the_disk_before_it_has_its_name(
    ledger: Ledger, folder: ArtifactStore, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = staged_in(ledger, folder)
    done: list[str] = []
    sync, link = os.fsync, os.link

    def syncs(file: int) -> None:
        name = Path(f"/proc/self/fd/{file}").readlink().name
        done.append("fsync part" if name.endswith(".part") else f"fsync {name}")
        sync(file)

    def links(one: Path, other: Path, **how: bool) -> None:
        done.append(f"link {other.name}")
        link(one, other, **how)

    monkeypatch.setattr(os, "fsync", syncs)
    monkeypatch.setattr(os, "link", links)
    handover.fetch(folder, staged, to)
    assert done == ["fsync part", "link copy", "fsync copies"]
