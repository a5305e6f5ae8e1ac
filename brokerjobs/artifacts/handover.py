"""Handing over: a consumer's copy has its name only once its size and SHA-256 were found to be the recorded ones."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs.artifacts.local import sync_folder, write
from brokerjobs.artifacts.store import MissingObject
from brokerjobs.artifacts.transfers import Stop, slots
from brokerjobs.errors import ArtifactGone, ArtifactNotReady, ConfigurationError, HashMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brokerjobs.artifacts.sources import Chunk
    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.ledger.artifacts import StagedArtifact

_FILE_MODE: Final = 0o600
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_TAKEN: Final = "there is one already; name another file, or have it overwritten"


def fetch(  # noqa: PLR0913  # what, from where and to where; the rest by name
    store: ArtifactStore,
    staged: StagedArtifact,
    to: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    stop: Stop | None = None,
) -> Path:
    """Copies a staged artifact to the file `to`, private (0600) and on the disk when it returns; blocks.

    `progress` is told the bytes so far, after each piece.  Whether the artifact may be seen is the caller's to decide.

    Raises:
        HashMismatch: the object is another one, or missing; `observed_size` and `observed_sha256` say what is there.
        ArtifactNotReady, ArtifactGone: by the ledger's record.
        ConfigurationError: it is staged in another store than this one.
        ArtifactStoreUnavailable, ArtifactStoreRefused: by the store.
        FileExistsError: `to` exists, and is not to be overwritten, or is no regular file (a link, a device, a FIFO).
        OSError: the copy cannot be written; the message names `to`.
        Stopped: `stop` was told.  In every case nothing is left of the copy.
    """
    _require_fetchable(store, staged)
    stop = stop or Stop()
    to = Path(to).absolute()
    _require_free(to, overwrite=overwrite)
    with slots.taken(stop):
        part = to.with_name(f".{secrets.token_hex(8)}.brokerjobs.part")
        file = _made(part, to)
        try:
            try:
                _copy(_Copy(store, staged, to, file), progress, stop)
            finally:
                os.close(file)
            _named(part, to, overwrite=overwrite)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
    return to


def _require_fetchable(store: ArtifactStore, staged: StagedArtifact) -> None:
    if staged.size is None or staged.sha256 is None:
        raise ArtifactNotReady(artifact_id=staged.id, state=staged.state)
    if staged.removing is not None:
        since = staged.removing.at.isoformat(sep=" ", timespec="seconds")
        raise ArtifactGone(artifact_id=staged.id, since=since, why=staged.removing.why)
    if staged.store != store.public:
        message = (
            f"artifact {staged.id} is staged in {staged.store}, and artifacts.url here is {store.public}; set it to "
            "the first"
        )
        raise ConfigurationError(message)


def _require_free(to: Path, *, overwrite: bool) -> None:
    """Whether the name may be taken; asked early, and again after all the bytes.

    A rename would replace whatever is there: `/dev/null`, a FIFO that somebody reads, a link to where the bytes belong.
    """
    try:
        found = to.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _about(error, to) from None
    if to.is_dir():
        raise _refusal(errno.EISDIR, "it is a folder; name the file in it", to)
    if not stat.S_ISREG(found.st_mode):
        problem = "there is something that is no regular file, which is never replaced; name another file"
        raise _refusal(errno.EEXIST, problem, to)
    if not overwrite:
        raise _refusal(errno.EEXIST, _TAKEN, to)


def _refusal(number: int, problem: str, to: Path) -> OSError:
    """FileExistsError and its like, by their numbers."""
    return OSError(number, f"the copy cannot be written: {problem}", str(to))


def _about(error: OSError, to: Path) -> OSError:
    return _refusal(error.errno or errno.EIO, error.strerror or str(error), to)


def _made(part: Path, to: Path) -> int:
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    except OSError as error:
        raise _about(error, to) from None
    os.fchmod(file, _FILE_MODE)
    return file


def _copy(copy: _Copy, progress: Callable[[int], None] | None, stop: Stop) -> None:
    for size in copy:
        stop.check()
        if progress is not None:
            progress(size)
    stop.check()
    copy.finish()


class _Copy:
    """What is fetched, piece by piece: written as far as it may be the artifact, and hashed to its end."""

    def __init__(self, store: ArtifactStore, staged: StagedArtifact, to: Path, file: int) -> None:
        self._store = store
        self._staged = staged
        self._to = to
        self._file = file
        self._size = 0
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[int]:
        """Fetches; the bytes so far after each piece."""
        try:
            for piece in self._store.read(self._staged.path):
                self._size += len(piece)
                self._hash.update(piece)
                if self._size <= (self._staged.size or 0):
                    self._write(piece)
                yield self._size
        except MissingObject:
            raise self._mismatch("there is no object in the store", None, None) from None

    def _write(self, piece: Chunk) -> None:
        try:
            write(self._file, piece)
        except OSError as error:
            raise _about(error, self._to) from None

    def finish(self) -> None:
        """Compares, and has the copy on the disk."""
        found = self._hash.hexdigest()
        if (self._size, found) != (self._staged.size, self._staged.sha256):
            raise self._mismatch(
                f"{self._size} bytes with SHA-256 {found} in the store: the staged copy is kept", self._size, found
            )
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _about(error, self._to) from None

    def _mismatch(self, found: str, size: int | None, sha256: str | None) -> HashMismatch:
        return HashMismatch(
            artifact_id=self._staged.id,
            size=self._staged.size or 0,
            sha256=self._staged.sha256 or "",
            found=found,
            to=str(self._to),
            observed_size=size,
            observed_sha256=sha256,
        )


def _named(part: Path, to: Path, *, overwrite: bool) -> None:
    """Gives the copy its name: a link, unlike a rename, replaces nothing that has come there meanwhile."""
    if overwrite:
        _require_free(to, overwrite=True)
    try:
        if overwrite:
            part.replace(to)
        else:
            os.link(part, to, follow_symlinks=False)
    except OSError as error:
        raise _unnamed(error, to, linking=not overwrite) from None
    try:
        sync_folder(to.parent)
    except OSError as error:
        raise _about(error, to) from None


def _unnamed(error: OSError, to: Path, *, linking: bool) -> OSError:
    if linking and isinstance(error, FileExistsError):
        return _refusal(errno.EEXIST, _TAKEN, to)
    if linking and error.errno in _NO_LINKS:
        problem = "this file system has no links, without which a name cannot be taken safely; have it overwritten"
        return _refusal(error.errno, problem, to)
    return _about(error, to)
