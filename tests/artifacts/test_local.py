"""A store that is a folder: private, durable, and clean after whatever ends an upload."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore, MissingObject
from brokerjobs.errors import ArtifactStoreFull, ArtifactStoreRefused
from tests.artifacts.objects import MIB, mebibytes, path
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A process that uploads for ever, or until something ends it.
FOREVER = """
import sys
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore

def endless():
    while True:
        yield b"x" * 65536

ArtifactStore(StoreOptions(url=sys.argv[1])).put(sys.argv[2], endless())
"""
# A process that may write files of 4 MiB at most, and says how its upload ended.
LIMITED = """
import resource, sys
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore

resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 2**20, 4 * 2**20))
store = ArtifactStore(StoreOptions(url=sys.argv[1]))
store.put(sys.argv[2], iter([b"x" * 2**20] * 4))
try:
    store.put(sys.argv[3], iter([b"x" * 2**20] * 5))
except Exception as error:
    print(type(error).__name__, error)
"""


def folder_of(store: ArtifactStore) -> Path:
    return Path(store.public.removeprefix("file://"))


def files(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if not one.is_dir())


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o377])
def test_modes__are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "made" / "store"
    store, where = ArtifactStore(StoreOptions(url=str(root))), path()
    before = os.umask(umask)
    try:
        store.prepare()
        store.put(where, _looking(root))
    finally:
        os.umask(before)
    assert mode(root / where) == 0o600
    for folder in (tmp_path / "made", root, *(root / where).parents[:2]):
        assert mode(folder) == 0o700, folder


def _looking(root: Path) -> Iterator[bytes]:
    """Chunks that look at the file that they are written to."""
    yield b"1"
    (part,) = (one for one in root.rglob("*") if one.is_file())
    assert mode(part) == 0o600, "it was readable by others before it was whole"
    yield b"2"


def test_folder__open_to_others_is_said(folder: ArtifactStore) -> None:
    root = folder_of(folder)
    root.chmod(0o755)
    (problem,) = folder.problems()
    assert "0755" in problem
    assert f"chmod 700 {root}" in problem
    folder.put(path(), iter([b"1"]))


def test_folder__that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    store = ArtifactStore(StoreOptions(url=str(tmp_path / "store")))
    assert "is no folder" in store.problems()[0]
    with pytest.raises(ArtifactStoreRefused):
        store.prepare()
    with pytest.raises(ArtifactStoreRefused):
        store.put(path(), iter([b"1"]))


def test_folder__that_is_not_there_says_so_and_not_that_objects_are_missing(tmp_path: Path) -> None:
    store, where = ArtifactStore(StoreOptions(url=str(tmp_path / "store"))), path()
    calls: list[Callable[[], object]] = [
        lambda: store.size(where),
        lambda: store.delete(where),
        lambda: next(store.read(where)),
    ]
    for call in calls:
        with pytest.raises(ArtifactStoreRefused, match="there is no folder"):
            call()
    assert store.page(None, 10) == []
    assert store.problems() == []
    store.prepare()
    assert store.size(where) is None


def test_put__is_on_the_disk_before_it_has_its_name(folder: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.rename

    def syncs(file: int) -> None:
        done.append(f"fsync {Path(f'/proc/self/fd/{file}').readlink().name}")
        sync(file)

    def renames(one: Path, other: Path) -> Path:
        done.append(f"rename {one.name} {other.name}")
        return rename(one, other)

    monkeypatch.setattr(os, "fsync", syncs)
    monkeypatch.setattr(Path, "rename", renames)
    folder.put("job/attempt/id", iter([b"1"]))
    part = done[0].removeprefix("fsync ")
    assert part.startswith(".id.")
    assert done[1] == f"rename {part} id"
    assert set(done[2:]) == {"fsync attempt", "fsync job", f"fsync {folder_of(folder).name}"}
    done.clear()
    folder.put("job/attempt/other", iter([b"1"]))
    assert done[2:] == ["fsync attempt"]


def test_killed_upload__has_no_name_is_listed_and_is_deleted(folder: ArtifactStore) -> None:
    root, where, other = folder_of(folder), path(), path()
    folder.put(other, iter([b"1"]))

    def begun() -> list[Path]:
        return [one for one in root.rglob(".*.part") if one.stat().st_size]

    with subprocess.Popen([sys.executable, "-c", FOREVER, str(root), where]) as process:
        eventually_sync(begun)
        process.send_signal(signal.SIGKILL)
    (part,) = begun()
    assert part.parent == (root / where).parent
    assert folder.size(where) is None
    with pytest.raises(MissingObject):
        next(folder.read(where))
    assert dict(folder.page(None, 10)) == {where: part.stat().st_size, other: 1}
    folder.delete(where)
    assert files(root) == [other]
    assert not (root / where).parent.parent.exists()


def test_delete__leaves_parts_of_other_objects(folder: ArtifactStore) -> None:
    root = folder_of(folder)
    folder.put("job/attempt/one", iter([b"1"]))
    for name in ("one-more", "one.more"):
        (root / "job/attempt" / f".{name}.0123456789abcdef.part").write_bytes(b"22")
    (root / "job/attempt" / ".one.0123456789abcdef.part").write_bytes(b"333")
    assert folder.page(None, 10) == [("job/attempt/one", 1), ("job/attempt/one-more", 2), ("job/attempt/one.more", 2)]
    folder.delete("job/attempt/one")
    assert folder.page(None, 10) == [("job/attempt/one-more", 2), ("job/attempt/one.more", 2)]


def test_page__leaves_out_what_nobody_here_has_named(folder: ArtifactStore) -> None:
    root = folder_of(folder)
    folder.put("job/attempt/one", iter([b"1"]))
    (root / ".hidden").write_text("x")
    (root / "with space").write_text("x")
    (root / os.fsdecode(b"\xff\xfe")).write_text("x")
    (root / "link").symlink_to("/etc")
    assert folder.page(None, 10) == [("job/attempt/one", 1), ("link", 4)]


def test_page__is_the_same_wherever_it_begins(folder: ArtifactStore) -> None:
    for job in ("a", "a-", "a0", "b"):
        for attempt in ("x", "x-1", "y"):
            folder.put(f"{job}/{attempt}/1", iter([b"1"]))
    whole = folder.page(None, 100)
    assert whole == sorted(whole)
    assert len(whole) == 12
    for begin in ["", *(each for each, _ in whole), "a", "a/", "a/x/", "a/x/1z", "a-/", "zz"]:
        assert folder.page(begin, 100) == [one for one in whole if one[0] > begin], begin


def test_link_in_place_of_an_object__is_not_followed(folder: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("not an artifact")
    folder.put("job/attempt/one", iter([b"1"]))
    place = folder_of(folder) / "job/attempt/one"
    place.unlink()
    place.symlink_to(tmp_path / "private")
    with pytest.raises(ArtifactStoreRefused):
        list(folder.read("job/attempt/one"))
    folder.put("job/attempt/one", iter([b"1"]))
    folder.delete("job/attempt/one")
    assert (tmp_path / "private").read_text() == "not an artifact"


def test_pipe_in_place_of_an_object__keeps_nobody_waiting(folder: ArtifactStore) -> None:
    folder.put("job/attempt/one", iter([b"1"]))
    place = folder_of(folder) / "job/attempt/one"
    place.unlink()
    os.mkfifo(place)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: list(folder.read("job/attempt/one")))
        try:
            with pytest.raises(ArtifactStoreRefused, match="no regular file"):
                reading.result(5)
        finally:
            with suppress(OSError):  # lets a reader that waits go on
                os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK))
    folder.delete("job/attempt/one")
    assert folder.page(None, 10) == []


def test_put__finds_its_folder_removed_just_then(folder: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, removals = os.open, [1, 2]

    def opens(file: Path, *rest: int) -> int:
        if removals and str(file).endswith(".part"):
            removals.pop()
            Path(file).parent.rmdir()
        return opened(file, *rest)

    monkeypatch.setattr(os, "open", opens)
    folder.put("job/attempt/one", iter([b"1"]))
    assert not removals
    assert folder.page(None, 10) == [("job/attempt/one", 1)]


def test_upload_that_the_sweeper_removed__does_not_come_back(folder: ArtifactStore) -> None:
    def removed() -> Iterator[bytes]:
        yield b"1"
        folder.delete("job/attempt/one")
        yield b"2"

    with pytest.raises(Exception, match="No such file"):
        folder.put("job/attempt/one", removed())
    assert files(folder_of(folder)) == []


def test_full__by_a_limit_of_file_size(folder: ArtifactStore) -> None:
    root, small, large = folder_of(folder), path(), path()
    command = [sys.executable, "-c", LIMITED, str(root), small, large]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said.startswith("ArtifactStoreFull"), said
    assert "File too large" in said
    assert files(root) == [small]


def test_full__disk_of_two_mebibytes(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(root)], check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        store, small = ArtifactStore(StoreOptions(url=str(root))), path()
        store.put(small, mebibytes(1))
        with pytest.raises(ArtifactStoreFull, match="No space left"):
            store.put(path(), mebibytes(3))
        assert files(root) == [small]
        assert store.size(small) == MIB
    finally:
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", str(root)], check=True)
