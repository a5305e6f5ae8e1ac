"""A store that is a bucket: S3, Google Cloud Storage, Azure, and what speaks like them, through obstore."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore import store as obstore_stores
from obstore.exceptions import BaseError, GenericError

from brokerjobs.artifacts import complaints
from brokerjobs.artifacts.complaints import MissingObject
from brokerjobs.artifacts.paths import is_path
from brokerjobs.artifacts.pump import PIECE
from brokerjobs.artifacts.remote_options import hide, parted
from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from brokerjobs.artifacts.sources import Chunk

PART: Final = 8 * 1024 * 1024
_AHEAD: Final = 3  # parts of one transfer that are under way at a time
_MOST_PARTS: Final = 10_000  # of S3's multipart uploads
# No limit for a body of any length, but one for each read of it.
_WHOLE_OBJECT: Final[dict[str, Any]] = {"timeout": "1d", "read_timeout": "30s"}
# The last try of a request begins within 20 s, and takes 30: a store without an answer is said to be so in a minute.
_RETRIES: Final[dict[str, Any]] = {
    "max_retries": 8,
    "backoff": {"init_backoff": timedelta(milliseconds=250), "max_backoff": timedelta(seconds=5), "base": 2},
    "retry_timeout": timedelta(seconds=20),
}
_NOT_A_RANGE: Final = "Received non-partial response when range requested"

# obstore types what it takes by the kind of store, which is known at run time alone, and lists by an optional library.
_from_url: Any = obstore_stores.from_url
_list: Any = vars(obstore)["list"]


class NoRangesError(Exception):
    """The server answered a range in another way than with 206 (rclone: 200)."""


class RemoteStore:
    """Objects of a bucket; uploads of more than a part are multipart ones."""

    def __init__(self, public: str, options: Mapping[str, str], max_size: int) -> None:
        self._public = public
        self._part = max(PART, -(-max_size // _MOST_PARTS))
        hide(options)
        config, client = parted(options)
        make = partial(_from_url, public, config=config, retry_config=_RETRIES)
        try:
            self._store: Any = make(client_options=client)
            self._streaming: Any = make(client_options=client | _WHOLE_OBJECT)
        except (BaseError, ValueError, TypeError) as error:
            message = f"artifacts.options for {public}: {complaints.one_line(str(error))}"
            raise ConfigurationError(message) from None
        self._has_ranges = True

    def put(self, path: str, chunks: Iterator[Chunk]) -> None:
        """One request for what fits into a part; else parts, which are given up if the chunks raise."""
        first = bytearray()
        for chunk in chunks:
            first += chunk
            if len(first) > PART:
                break
        with self._complaints():
            if len(first) <= PART:
                obstore.put(self._store, path, bytes(first), use_multipart=False)
            else:
                whole: Iterator[Any] = chain([bytes(first)], chunks)
                obstore.put(self._store, path, whole, chunk_size=self._part, max_concurrency=_AHEAD)

    def read(self, path: str) -> Iterator[Chunk]:
        """Ranges, a few of them ahead; the whole in one request if the server does not do ranges as HTTP has them."""
        size = self.size(path)
        if size is None:
            raise MissingObject(path)
        if self._has_ranges:
            try:
                yield from self._ranges(path, size)
            except NoRangesError:
                self._has_ranges = False  # seen of the first one, before anything was handed on
        if not self._has_ranges:
            yield from self._whole(path)

    def _ranges(self, path: str, size: int) -> Iterator[Chunk]:
        starts = iter(range(0, size, PART))
        pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="brokerjobs-range")
        try:
            asked = deque(pool.submit(self._range, path, start, size) for start in islice(starts, _AHEAD))
            while asked:
                piece = asked.popleft().result()
                asked.extend(pool.submit(self._range, path, start, size) for start in islice(starts, 1))
                yield piece
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _whole(self, path: str) -> Iterator[Chunk]:
        with self._complaints():
            try:
                yield from obstore.get(self._streaming, path).stream(min_chunk_size=PIECE)
            except FileNotFoundError:
                raise MissingObject(path) from None

    def _range(self, path: str, start: int, size: int) -> memoryview:
        with self._complaints():
            try:
                return memoryview(obstore.get_range(self._store, path, start=start, end=min(start + PART, size)))
            except FileNotFoundError:
                raise MissingObject(path) from None
            except GenericError as error:
                if _NOT_A_RANGE in str(error):
                    raise NoRangesError from None
                raise

    def size(self, path: str) -> int | None:
        """As the store says; raises ArtifactStoreRefused if the bucket is missing, which looks the same at first."""
        with self._complaints():
            try:
                return int(obstore.head(self._store, path)["size"])
            except FileNotFoundError:
                next(iter(_list(self._store, chunk_size=1)), None)
                return None

    def delete(self, path: str) -> None:
        """What a killed upload left is the bucket's to remove: it is not listed (AbortIncompleteMultipartUpload)."""
        if self.size(path) is not None:
            with self._complaints(), suppress(FileNotFoundError):
                obstore.delete(self._store, path)

    def page(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """As the store lists them: S3, GCS and Azure do so in the order of names."""
        found: list[tuple[str, int]] = []
        with self._complaints():
            for objects in _list(self._store, offset=after, chunk_size=limit):
                found += [(one["path"], one["size"]) for one in objects if is_path(one["path"])]
                if len(found) >= limit:
                    break
        return sorted(found)[:limit]

    def prepare(self) -> None:
        """A bucket is made by whoever owns the account."""

    def problems(self) -> list[str]:
        """Whether the bucket can be listed."""
        try:
            self.page(None, 1)
        except complaints.STORE_ERRORS as error:
            return [str(error)]
        return []

    @contextmanager
    def _complaints(self) -> Generator[None]:
        _require_own_threads(self._public)
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise complaints.of_remote(error, self._public) from None


_asked_by: set[int] = set()


def _require_own_threads(store: str) -> None:
    """Raises ConfigurationError in a fork of a process that had asked a store: the fork would wait for ever.

    obstore's threads are started by the first request, and a fork has none of them.
    """
    _asked_by.add(os.getpid())
    if len(_asked_by) > 1:
        message = (
            f"this process was forked from one that had asked {store} or another artifact store already, whose threads "
            "it does not have; fork before the first upload or fetch, or start processes anew (spawn)"
        )
        raise ConfigurationError(message)
