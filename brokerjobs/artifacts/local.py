"""A store that is a folder: files that only their owner may read, whole and on the disk before anybody is told.

Spoken to directly: through obstore the same took twice the time, and its files first had the modes of the umask.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs.artifacts import complaints
from brokerjobs.artifacts.complaints import MissingObject
from brokerjobs.artifacts.paths import is_path
from brokerjobs.artifacts.pump import PIECE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from brokerjobs.artifacts.sources import Chunk

_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077
# An upload that has not ended: `.NAME.RANDOM.part` beside NAME.
_PART: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.part")
_TRIES: Final = 5  # a folder may be removed as empty just before a file is made in it


class LocalFolder:
    """Objects as files of a folder, which is made when the first one comes."""

    def __init__(self, folder: Path, public: str) -> None:
        self._folder = folder
        self._public = public

    def prepare(self) -> None:
        """Makes the folder."""
        with self._complaints():
            for folder in self._make_folders(self._folder):
                sync_folder(folder)

    def put(self, path: str, chunks: Iterator[Chunk]) -> None:
        """Writes beside its name, then renames; raises ArtifactStoreFull and the other two."""
        final = self._folder / path
        part = final.with_name(f".{final.name}.{secrets.token_hex(8)}.part")
        with self._complaints():
            file, made = self._created(part)
            try:
                try:
                    os.fchmod(file, _FILE_MODE)
                    for chunk in chunks:
                        write(file, chunk)
                    os.fsync(file)
                finally:
                    os.close(file)
                part.rename(final)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            for folder in {final.parent, *made}:
                sync_folder(folder)

    def _created(self, part: Path) -> tuple[int, list[Path]]:
        """The file, and the folders that have got a new folder for it."""
        for tried in range(1, _TRIES + 1):
            try:
                made = self._make_folders(part.parent)
                return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE), made
            except FileNotFoundError:
                if tried == _TRIES:
                    raise
        raise AssertionError

    def _make_folders(self, folder: Path) -> list[Path]:
        missing: list[Path] = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            one.mkdir(mode=_FOLDER_MODE, exist_ok=True)
            one.chmod(_FOLDER_MODE)  # the umask may have taken more than others' rights
        return [one.parent for one in missing]

    def read(self, path: str) -> Iterator[Chunk]:
        """The bytes of a file."""
        with self._complaints():
            file = self._opened(path)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise complaints.refused(self._public, f"there is no regular file at {path}")
                while piece := os.read(file, PIECE):
                    yield piece
            finally:
                os.close(file)

    def _opened(self, path: str) -> int:
        try:
            # Not blocking: a pipe that somebody has put there would keep the thread for ever.
            return os.open(self._folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self._require_folder()
            raise MissingObject(path) from None

    def size(self, path: str) -> int | None:
        """Of a file, in bytes."""
        with self._complaints():
            try:
                return (self._folder / path).lstat().st_size
            except FileNotFoundError:
                self._require_folder()
                return None

    def delete(self, path: str) -> None:
        """Removes the file, parts of it, and folders that are empty then."""
        final = self._folder / path
        with self._complaints():
            self._require_folder()
            with suppress(FileNotFoundError):
                final.unlink()
            for entry in _entries(final.parent):
                if (part := _PART.fullmatch(entry.name)) and part["name"] == final.name:
                    Path(entry).unlink(missing_ok=True)
            for folder in final.parents:
                if folder == self._folder:
                    break
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                        break
                    raise

    def page(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """The next paths in order; files that nobody here has named are left out."""
        with self._complaints():
            return list(islice(_walk(self._folder, "", after or ""), limit))

    def problems(self) -> list[str]:
        """Whether the folder is one, is private and can be written to."""
        try:
            found = self._folder.stat()
        except FileNotFoundError:
            return []
        except OSError as error:
            return [str(complaints.of_folder(error, self._public))]
        if not stat.S_ISDIR(found.st_mode):
            return [f"artifacts.url: {self._folder} is no folder"]
        problems: list[str] = []
        if found.st_mode & _OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            problems.append(f"the folder of artifacts is open to others (mode {mode:04o}): chmod 700 {self._folder}")
        if not os.access(self._folder, os.R_OK | os.W_OK | os.X_OK):
            problems.append(f"the folder of artifacts cannot be written to by this user: {self._folder}")
        return problems

    def _require_folder(self) -> None:
        """An object is missing only in a folder that is there: a disk may not be mounted, or be another machine's."""
        if not self._folder.is_dir():
            raise complaints.refused(self._public, f"there is no folder {self._folder} on this machine")

    @contextmanager
    def _complaints(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise complaints.of_folder(error, self._public) from None


def write(file: int, chunk: Chunk) -> None:
    """Writes all of it: the operating system may take a part at a time."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(file, rest) :]


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last through a power failure."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []


def _walk(folder: Path, prefix: str, after: str) -> Iterator[tuple[str, int]]:
    """Files below a folder in the order of their whole paths, those behind `after`."""
    files: dict[str, int] = {}
    folders: set[str] = set()
    for entry in _entries(folder):
        part = _PART.fullmatch(entry.name)
        name = part["name"] if part else entry.name
        if not is_path(name):
            continue
        if entry.is_dir(follow_symlinks=False):
            folders.add(f"{name}/")
        elif part is None or name not in files:
            with suppress(FileNotFoundError):
                files[name] = entry.stat(follow_symlinks=False).st_size
    for name in sorted([*files, *folders]):
        path = prefix + name
        if name in folders:
            if path > after or after.startswith(path):
                yield from _walk(folder / name, path, after)
        elif path > after:
            yield path, files[name]
