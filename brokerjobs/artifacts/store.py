"""The store of artifacts, wherever it is: objects under paths that the ledger has made.

Errors: ArtifactStoreUnavailable, ArtifactStoreRefused, ArtifactStoreFull; MissingObject where an object is asked for.
Whatever the source of an upload raises passes as it is.
"""

from __future__ import annotations

import importlib
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from brokerjobs.artifacts.complaints import MissingObject
from brokerjobs.artifacts.local import LocalFolder
from brokerjobs.artifacts.locations import located
from brokerjobs.artifacts.paths import checked
from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brokerjobs.artifacts.locations import Location, StoreOptions
    from brokerjobs.artifacts.sources import Chunk

__all__ = ["ArtifactStore", "Backend", "MissingObject", "lazily"]


class Backend(Protocol):
    """What a kind of store can do; paths were looked at."""

    def prepare(self) -> None:
        """Makes what has to be there before the first object, if that is ours to make."""
        ...

    def put(self, path: str, chunks: Iterator[Chunk]) -> None:
        """Writes an object: whole, private and durable when it returns, else not at all."""
        ...

    def read(self, path: str) -> Iterator[Chunk]:
        """The bytes of an object, in pieces."""
        ...

    def size(self, path: str) -> int | None:
        """In bytes; None if there is no such object."""
        ...

    def delete(self, path: str) -> None:
        """Removes an object and what killed uploads of it have left, if they are there."""
        ...

    def page(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """The next paths and sizes in order."""
        ...

    def problems(self) -> list[str]:
        """What a person should mend, one line each."""
        ...


class ArtifactStore:
    """One store, for any number of threads; making it touches neither disk nor network.

    Raises ConfigurationError if the options name no store, or one whose library is not installed.
    """

    def __init__(self, options: StoreOptions) -> None:
        location = located(options.url)
        self.public = location.public
        """Its URL, as it is recorded: without secrets."""
        self.max_size = options.max_size
        self.keep = options.keep
        self._backend = _backend(location, options)

    def __repr__(self) -> str:
        return f"ArtifactStore({self.public!r})"

    def prepare(self) -> None:
        """Makes a folder that is not there yet, for its owner alone; blocks.

        An object can then be said to be missing: a store that is not there is refused, for it may be another machine's.
        """
        self._backend.prepare()

    def put(self, path: str, chunks: Iterator[Chunk]) -> None:
        """Writes an object of any number of chunks, few of them in memory; blocks.

        When it returns, the object is whole; a local one also private (0600) and on the disk.  When it raises, there
        is no object of this path, unless the store's answer was lost.
        """
        source = _Source(chunks)
        try:
            self._backend.put(checked(path), source)
        except BaseException as error:
            if source.error is not None and error is not source.error:
                raise source.error from None
            raise

    def read(self, path: str) -> Iterator[Chunk]:
        """The bytes of an object, in pieces of some megabytes, each asked for within bounded time; blocks.

        Raises MissingObject at the first piece.
        """
        return self._backend.read(checked(path))

    def size(self, path: str) -> int | None:
        """The size of an object in bytes, None if there is none; blocks."""
        return self._backend.size(checked(path))

    def delete(self, path: str) -> None:
        """Removes an object and what killed uploads of it have left; nothing happens if there is none; blocks."""
        self._backend.delete(checked(path))

    def page(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """At most `limit` paths with their sizes in bytes, in the order of paths, beginning behind `after`; blocks.

        What a killed upload left in a folder counts as an object of its path.
        """
        return self._backend.page(after, limit)

    def problems(self) -> list[str]:
        """Looks at the store and says what a person should mend, one line each; blocks."""
        return self._backend.problems()


class _Source:
    """The chunks of an upload; remembers what they raised, which stores would wrap or take for an error of theirs."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self.error: BaseException | None = None

    def __iter__(self) -> _Source:
        return self

    def __next__(self) -> Chunk:
        try:
            return next(self._chunks)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise


def _backend(location: Location, options: StoreOptions) -> Backend:
    if location.folder is not None:
        if options.options:
            message = f"artifacts.options: a folder takes none, and artifacts.url is {location.public}"
            raise ConfigurationError(message)
        return LocalFolder(location.folder, location.public)
    try:
        remote = importlib.import_module("brokerjobs.artifacts.remote")
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        message = f"artifacts.url is {location.public}, which needs obstore: pip install 'brokerjobs[artifacts]'"
        raise ConfigurationError(message) from None
    made: Backend = remote.RemoteStore(location.public, options.options, options.max_size)
    return made


def lazily(options: StoreOptions) -> Callable[[], ArtifactStore]:
    """The store once it is asked for, the same one each time; the call raises what making it raises."""
    return cache(partial(ArtifactStore, options))
