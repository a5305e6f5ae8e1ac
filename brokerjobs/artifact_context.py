"""What a handler can do with artifacts (`ctx.artifacts`); the worker makes it, so these are its shapes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterable, Iterable
    from datetime import timedelta

    from brokerjobs.artifact import Artifact

    Buffer: TypeAlias = bytes | bytearray | memoryview
    SyncSource: TypeAlias = str | os.PathLike[str] | Buffer | "BinaryFile" | Iterable[Buffer]
    Source: TypeAlias = SyncSource | "AsyncBinaryFile" | AsyncIterable[Buffer]


class BinaryFile(Protocol):
    """A file opened in binary mode, or what reads like one."""

    def read(self, size: int, /) -> Buffer:
        """At most `size` bytes, none at the end."""
        ...


class AsyncBinaryFile(Protocol):
    """What reads like one and has to be awaited."""

    async def read(self, size: int, /) -> Buffer:
        """As `BinaryFile.read`."""
        ...


class JobArtifacts(Protocol):
    """The artifacts of the attempt that is running."""

    async def put(
        self, name: str, source: Source, *, content_type: str | None = None, keep_for: timedelta | None = None
    ) -> Artifact:
        """Stage a large output, and answer what stands for it: return that, alone or anywhere in the result.

        An artifact that the accepted result does not name is visible as well, as all of the accepted attempt's are;
        one that it names is looked at by the ledger before the result is accepted.

        `name` is metadata, never a path: 1 to 1 000 characters, unique within the attempt once it is ready.  `source`
        is a path (a str is one), bytes, a file open for reading bytes, or an iterable or async iterable of bytes; it is
        read once, from where it is, in pieces, and hashed on the way.  Files and iterables are read in a thread of its
        own, what is async on the handler's event loop.  `content_type` is like "text/csv", and recorded.  `keep_for` is
        how long the staged copy is kept after its job's end if no consumer acknowledges it, at most a year, by
        default `artifacts.keep` (seven days).

        A handler that is stopped while it waits stops its upload: nothing of it becomes an artifact.

        Raises StaleAttempt if the attempt has lost its place, ArtifactNameUsed, InvalidArtifact, ArtifactTooLarge,
        ArtifactStoreUnavailable, ArtifactStoreFull and ArtifactStoreRefused, what reading `source` raises, and
        ConfigurationError if the extra `brokerjobs[artifacts]` is not installed.
        """
        ...


class SyncJobArtifacts(Protocol):
    """`JobArtifacts` without await."""

    def put(
        self, name: str, source: SyncSource, *, content_type: str | None = None, keep_for: timedelta | None = None
    ) -> Artifact:
        """As `JobArtifacts.put`; it blocks its thread, and raises StopRequested if the handler is told to stop."""
        ...
