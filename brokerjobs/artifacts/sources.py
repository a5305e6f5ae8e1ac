"""What an artifact is made of: a file, bytes, or a stream of them, read in pieces and hashed on the way."""

from __future__ import annotations

import errno
import hashlib
import inspect
import io
import os
import stat
from collections.abc import AsyncIterable, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from brokerjobs.artifacts.pump import PIECE, Pump, reads
from brokerjobs.errors import ArtifactTooLarge, InvalidArtifact
from brokerjobs.rules.texts import shown

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator, Iterator

    from brokerjobs.artifacts.transfers import Stop

Buffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = bytes | memoryview

# What another attempt may not meet: it is no fault of the source.
_PASSING: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN}
)
_READABLE: Final = (
    "give a path of a file, bytes, a file opened in binary mode, or an iterable or async iterable of bytes"
)


@runtime_checkable
class BinaryFile(Protocol):
    """A file opened in binary mode, or what reads like one; an async `read` will do in async handlers."""

    def read(self, size: int, /) -> Any:
        """At most `size` bytes, none at the end."""
        ...


Source: TypeAlias = str | os.PathLike[str] | Buffer | BinaryFile | Iterable[Buffer] | AsyncIterable[Buffer]
"""What an artifact may be made of; a str is a path."""


@dataclass(frozen=True)
class Reading:
    """How a source is read: whose artifact it is, its limit in bytes, and who may stop it."""

    name: str
    limit: int
    stop: Stop
    loop: asyncio.AbstractEventLoop | None
    """Where async sources are read; None: nowhere."""

    def refused(self, problem: str) -> InvalidArtifact:
        """The error that says what is wrong with the source."""
        return InvalidArtifact(name=self.name, problem=problem)


class Hashing:
    """The pieces of an artifact as they pass: at most `limit` bytes, with their number and SHA-256 so far."""

    def __init__(self, pieces: Iterator[Chunk], reading: Reading) -> None:
        self._pieces = pieces
        self._reading = reading
        self._hash = hashlib.sha256()
        self.size = 0
        self.is_waiting = False
        """Whether the source has been asked, and has not given anything yet."""

    def __iter__(self) -> Hashing:
        return self

    def __next__(self) -> Chunk:
        self.is_waiting = True  # before it looks: who tells it to stop looks the other way round
        self._reading.stop.check()
        piece = next(self._pieces)
        self.is_waiting = False
        self._reading.stop.check()
        self.size += len(piece)
        if self.size > self._reading.limit:
            raise ArtifactTooLarge(name=self._reading.name, limit=self._reading.limit)
        self._hash.update(piece)
        return piece

    @property
    def sha256(self) -> str:
        """Of what has passed, in lower-case hexadecimal digits."""
        return self._hash.hexdigest()


@contextmanager
def opened(source: Source, reading: Reading) -> Generator[Hashing]:
    """The source, about to be read; what was opened or started for it is closed at the end.

    Raises InvalidArtifact here if it is none, ArtifactTooLarge here if a file is; while it is read, both of them,
    Stopped, and whatever the source raises.
    """
    pieces = _pieces(source, reading)
    try:
        yield Hashing(pieces, reading)
    finally:
        pieces.close()


def _pieces(source: Source, reading: Reading) -> Generator[Chunk]:
    """Chooses by kind; a generator that is not started closes without having done anything."""
    if isinstance(source, str | os.PathLike):
        return _started(_of_path(source, reading))
    if isinstance(source, Buffer):
        return _cut(_flat(source, reading))
    if isinstance(source, io.TextIOBase):
        raise reading.refused("its source is a file in text mode; open it in binary mode ('rb')")
    read = getattr(source, "read", None)
    if callable(read):
        if inspect.iscoroutinefunction(read):
            return _of_async(reads(source), reading)
        return _of_file(source, reading)
    if isinstance(source, AsyncIterable):
        return _of_async(source, reading)
    if isinstance(source, Iterable):
        return _of_iterable(source, reading)
    raise reading.refused(f"its source is a {type(source).__name__}; {_READABLE}")


def _started(pieces: Generator[Chunk]) -> Generator[Chunk]:
    """Runs a generator up to its first, empty piece: it has opened what it needs."""
    next(pieces)
    return pieces


def _of_path(path: str | os.PathLike[str], reading: Reading) -> Generator[Chunk]:
    try:
        # Not blocking: a pipe without a writer would keep the thread for ever.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:  # ValueError: NUL in it
        if isinstance(error, OSError) and error.errno in _PASSING:
            raise
        raise reading.refused(_unreadable(path, error)) from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise reading.refused(f"{shown(os.fspath(path), 300)} is {what}")
        if found.st_size > reading.limit:
            raise ArtifactTooLarge(name=reading.name, limit=reading.limit)
        yield b""
        while piece := os.read(file, PIECE):
            yield piece
    finally:
        os.close(file)


def _unreadable(path: str | os.PathLike[str], error: Exception) -> str:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    hint = ""
    if isinstance(path, str) and isinstance(error, OSError) and error.errno in {errno.ENOENT, errno.ENAMETOOLONG}:
        hint = "; a str is the path of a file, text itself is to be encoded"
    return f"{shown(os.fspath(path), 300)} cannot be read: {why}{hint}"


def _flat(chunk: Any, reading: Reading) -> memoryview:
    if not isinstance(chunk, Buffer):
        hint = "; encode it" if isinstance(chunk, str) else ""
        raise reading.refused(f"its source gave a {type(chunk).__name__}, not bytes{hint}")
    try:
        return memoryview(cast("bytes", chunk)).cast("B")
    except TypeError:
        raise reading.refused("its memoryview is not contiguous; copy it with bytes()") from None


def _cut(chunk: memoryview) -> Generator[Chunk]:
    # A store may keep pieces for a while, and whoever gave a buffer may fill it again.
    changes = not isinstance(chunk.obj, bytes)
    for start in range(0, len(chunk), PIECE):
        piece = chunk[start : start + PIECE]
        yield bytes(piece) if changes else piece


def _of_file(source: Any, reading: Reading) -> Generator[Chunk]:
    while True:
        got = source.read(PIECE)
        if got is None:
            raise reading.refused("its source is a file that does not block and had nothing to read")
        chunk = _flat(got, reading)
        if not chunk:
            return
        yield from _cut(chunk)


def _of_iterable(source: Iterable[Any], reading: Reading) -> Generator[Chunk]:
    try:
        for chunk in source:
            yield from _cut(_flat(chunk, reading))
    finally:
        if inspect.isgenerator(source):
            source.close()


def _of_async(source: AsyncIterable[Any], reading: Reading) -> Generator[Chunk]:
    if reading.loop is None:
        raise reading.refused("its source is async, which handlers in processes cannot read")
    return _of_pump(Pump(source, reading.stop, reading.loop), reading)


def _of_pump(pump: Pump, reading: Reading) -> Generator[Chunk]:
    with closing(pump):
        for chunk in pump:
            yield from _cut(_flat(chunk, reading))
